"""The session as the unit of work."""
