"""Pipelined input of a connection: requests that wait to be answered, and input that is not parsed yet."""

from collections.abc import Hashable
from typing import NamedTuple

from durable_sessions.errors import DurableSessionsError
from durable_sessions.http.carrier.message import OWN, Request
from durable_sessions.http.carrier.state import ServerState


class Refused(NamedTuple):
    """A refusal that waits to be sent; the path of its request determines the shape of the error."""

    error: DurableSessionsError
    path: bytes
    audience: int = OWN


class ReadAhead:
    """Queues requests and input, within the share that ``holder`` has of the memory for requests.

    Few connections send a request before the last one is answered, so this object exists only while
    something is waiting. When it is ``full``, the connection stops reading.
    """

    __slots__ = ("_holder", "_limits", "_memory", "_queue", "_queue_bytes", "_unparsed", "full")

    def __init__(self, state: ServerState, holder: Hashable) -> None:
        self._limits = state.limits
        self._memory = state.requests
        self._holder = holder
        self._queue: list[tuple[Request | Refused, int]] = []  # a list, not a deque: it is short
        self._queue_bytes = 0
        self._unparsed = b""
        self.full = False

    def __bool__(self) -> bool:
        """Say whether anything is waiting."""
        return bool(self._queue or self._unparsed)

    def add(self, request: Request, flags: int) -> None:
        """Queue a request; raise if its holder, or all holders together, exceed the budget."""
        size = request.size()
        if not self._memory.try_take(self._holder, size):
            raise self._memory.refusal(self._holder)
        self._queue.append((request, flags))
        self._queue_bytes += size
        limits = self._limits
        self.full = (
            self.full
            or len(self._queue) >= limits.pipeline_requests_max
            or self._queue_bytes > limits.read_ahead_bytes_max
        )

    def add_refused(self, refused: Refused, flags: int) -> None:
        """Queue a refusal; nothing is read after it."""
        self._queue.append((refused, flags))

    def next(self) -> tuple[Request | Refused, int] | None:
        """Return the oldest item, which is no longer counted; None if there is none."""
        if not self._queue:
            return None
        request, flags = self._queue.pop(0)
        if isinstance(request, Request):
            size = request.size()
            self._queue_bytes -= size
            self._memory.give(self._holder, size)
        return request, flags

    def hold(self, data: bytes) -> None:
        """Keep input that cannot be parsed now; raise if it exceeds the budget."""
        # Taken before it is checked: ``release`` then gives back exactly what is held, also after a refusal.
        self._unparsed += data
        self._memory.take(self._holder, len(data))
        if self._memory.excess(self._holder):
            raise self._memory.refusal(self._holder)

    def take_unparsed(self) -> bytes:
        """Return the input that was kept, which is no longer counted."""
        unparsed, self._unparsed = self._unparsed, b""
        if unparsed:
            self._memory.give(self._holder, len(unparsed))
        return unparsed

    def move(self, holder: Hashable) -> None:
        """Count everything for another holder from now on."""
        self._memory.move(self._holder, holder, self._queue_bytes + len(self._unparsed))
        self._holder = holder

    def release(self) -> None:
        """Drop everything and release its memory."""
        self.take_unparsed()
        self._queue.clear()
        self._memory.give(self._holder, self._queue_bytes)
        self._queue_bytes = 0
