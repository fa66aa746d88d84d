"""Request ids: every answer carries one, and log lines and the audit record refer to it."""

from collections.abc import Callable
from itertools import count

from durable_sessions.ids import Ids, RandomIds

_PREFIX_CHARACTERS = 16


class RequestIds:
    """Generates unique request ids: a random prefix per process, then a counter.

    ``new()`` returns the next id. It is put together of built-in functions, so that it needs no Python frame.
    """

    __slots__ = ("new",)

    new: Callable[[], bytes]

    def __init__(self, ids: Ids | None = None) -> None:
        process = (ids or RandomIds()).token("")[:_PREFIX_CHARACTERS]
        self.new = map(f"req_{process}%08x".encode().__mod__, count(1)).__next__
