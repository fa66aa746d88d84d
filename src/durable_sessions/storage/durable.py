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
        "closed",
        "hot",
        "index",
        "removed",
        "stream",
        "tail",
        "waiters",
    )

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.tail = stream.base
        self.closed = False
        self.removed = False
        self.index = RecordIndex()
        self.hot = HotRecords(json=stream.is_json)
        self.waiters: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        """Wake everyone who waits for this stream to change."""
        for waiter in self.waiters:
            if not waiter.done():
                waiter.set_result(None)
        self.waiters.clear()
