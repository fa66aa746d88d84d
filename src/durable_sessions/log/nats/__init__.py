"""Logs in NATS JetStream: a stream for each partition, whose sequence numbers are the positions."""
