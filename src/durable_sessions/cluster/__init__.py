"""Which node of a cluster owns the log: heartbeats, and the decision to claim. Nothing here does I/O."""
