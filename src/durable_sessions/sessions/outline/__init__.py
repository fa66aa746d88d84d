"""Outlines: what a session's events are, in 24 bytes each, in blocks of 4,096, without their bodies."""
