"""The members of a stored event that the server sets: they say where the event is from, not what happened."""

RESERVED = ("offset", "created_at", "processed_at", "actor")
"""Members that every event gets; those that a client sends are kept as ``original_<name>``."""
ORIGINALS = tuple(f"original_{name}" for name in RESERVED)
SET_BY_SERVER = frozenset({"id", "request_key", "imported", "ref_incarnations", *RESERVED})
"""Members that the server may put in front of an event."""
SERVER_MEMBERS = SET_BY_SERVER | frozenset(ORIGINALS)
"""All of them, with the originals: what is no part of an event's text."""
