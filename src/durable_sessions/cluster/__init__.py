"""Which node of a cluster owns which partition: heartbeats, assignment, and the decision to claim."""
