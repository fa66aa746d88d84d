"""One stream as its readers see it: only what is durable."""

import asyncio

from durable_sessions.storage.index import RecordIndex
from durable_sessions.storage.memory import HotRecords
from durable_sessions.streams.stream import Stream


class DurableStream:
    """The durable part of a stream, with its records and those who wait for more.

    ``removed`` stays true once the stream is deleted, also while its records are kept for its
    forks. ``stream`` is the tip's object; of it readers use only what never changes (key, content
    type, expiry configuration) and the time of the last access.
    """

    __slots__ = (
        "base",
        "closed",
        "hot",
        "index",
        "parent",
        "removed",
        "stream",
        "tail",
        "waiters",
    )

    def __init__(self, stream: Stream, parent: "DurableStream | None") -> None:
        self.stream = stream
        self.parent = parent
        self.base = stream.base
        self.tail = stream.base
        self.closed = False
        self.removed = False
        self.index = RecordIndex()
        self.hot = HotRecords(json=stream.is_json)
        self.waiters: set[asyncio.Future[None]] = set()

    def owner(self, position: int) -> tuple["DurableStream", int]:
        """Return the stream of the fork chain that holds a position, and where its part ends."""
        holder, stop = self, self.tail
        while position < holder.base:
            assert holder.parent is not None
            stop = min(stop, holder.base)
            holder = holder.parent
        return holder, stop

    def wake(self) -> None:
        """Wake everyone who waits for this stream to change."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()
