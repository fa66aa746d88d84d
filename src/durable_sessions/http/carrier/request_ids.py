"""Request ids: every answer carries one, and log lines and the audit record refer to it."""

from itertools import count

from durable_sessions.ids import Ids, RandomIds

_PREFIX_CHARACTERS = 16


class RequestIds:
    """Generates unique request ids: a random prefix per process, then a counter."""

    __slots__ = ("_count", "_form")

    def __init__(self, ids: Ids | None = None) -> None:
        process = (ids or RandomIds()).token("")[:_PREFIX_CHARACTERS]
        self._form = f"req_{process}%08x".encode()
        self._count = count(1).__next__

    def new(self) -> bytes:
        """Return the next id."""
        return self._form % self._count()
