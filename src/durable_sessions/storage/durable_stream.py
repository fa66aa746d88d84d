"""One stream as its readers see it: only what is durable."""

import asyncio

from durable_sessions.storage.log_index import RecordIndex
from durable_sessions.storage.memory import HotRecords
from durable_sessions.streams.stream import NO_ATTRIBUTES, Stream


class DurableStream:
    """The durable part of a stream, with its unflushed records and those who wait for more.

    ``removed`` stays true once the stream is deleted, also while its records are kept for its
    forks. ``attributes`` are the durable ones, ``changed_ms`` is when something became so,
    ``record_bytes`` how much was appended. Records
    before ``flushed`` are in the bucket, those after it in the log, the newest of both in memory too.
    ``changed_at`` is the position in the log of the last effect on the
    stream. ``stream`` is the tip's object; of it
    readers use only what never changes (key, content type, expiry configuration) and the time of
    the last access.
    """

    __slots__ = (
        "__weakref__",
        "attributes",
        "changed_at",
        "changed_ms",
        "closed",
        "flushed",
        "hot",
        "index",
        "record_bytes",
        "removed",
        "stream",
        "tail",
        "waiters",
    )

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.tail = stream.base
        self.flushed = stream.base
        self.closed = False
        self.removed = False
        self.attributes = NO_ATTRIBUTES
        self.changed_ms = stream.created_at_ms
        self.record_bytes = 0
        self.changed_at = 0
        self.index = RecordIndex()
        self.hot = HotRecords(json=stream.is_json)
        self.waiters: dict[asyncio.Future[None], None] | None = None  # in the order in which they came

    @classmethod
    def of_flushed(cls, stream: Stream) -> "DurableStream":
        """Return a stream that was not in memory: all of it is flushed."""
        durable = cls(stream)
        durable.restore(stream)
        return durable

    def restore(self, stream: Stream) -> None:
        """Take over a stream as it was loaded: all of it is flushed."""
        self.stream = stream
        self.tail = self.flushed = stream.tail
        self.closed = stream.closed
        self.removed = stream.soft_deleted
        self.attributes = stream.attributes
        self.changed_ms = stream.changed_at_ms
        self.record_bytes = stream.record_bytes

    def wake(self) -> None:
        """Wake everyone who waits for this stream to change, those who came first before the others."""
        waiters, self.waiters = self.waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)
