"""One stream as its readers see it: only what is durable."""

import asyncio

from durable_sessions.storage.log_index import RecordIndex
from durable_sessions.storage.memory import HotRecords
from durable_sessions.streams.overlay import NO_OVERLAY
from durable_sessions.streams.stream import NO_ATTRIBUTES, Stream


class DurableStream:
    """The durable part of a stream, with its unflushed records and the readers that wait for more.

    ``removed`` stays true once the stream is deleted, even while its records are kept for forks; ``freed``
    says that it has given up its path.
    ``attributes`` are the durable ones, ``changed_ms`` is the time of the last durable change, and
    ``record_bytes`` the size of all records. ``overlay`` has the erased records that log or bucket may still
    have, ``erasures`` counts all that ever were. Records before ``flushed`` are in the bucket, those after
    it in the log, and the newest of both also in memory. ``changed_at`` is the log position of the last
    effect on the stream. ``stream`` is the object of the tip: readers may use only its constant properties
    (key, content type, expiry configuration) and the time of the last access.
    """

    __slots__ = (
        "__weakref__",
        "attributes",
        "changed_at",
        "changed_ms",
        "closed",
        "erasures",
        "flushed",
        "freed",
        "hot",
        "index",
        "overlay",
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
        self.freed = False
        self.attributes = NO_ATTRIBUTES
        self.changed_ms = stream.created_at_ms
        self.record_bytes = 0
        self.overlay = NO_OVERLAY
        self.erasures = 0
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
        """Reset to a stream that was just loaded: all of it is flushed."""
        self.stream = stream
        self.tail = self.flushed = stream.tail
        self.closed = stream.closed
        self.removed = stream.soft_deleted
        self.freed = stream.freed
        self.attributes = stream.attributes
        self.changed_ms = stream.changed_at_ms
        self.record_bytes = stream.record_bytes
        self.overlay = stream.overlay
        self.erasures = stream.erasures

    def wake(self) -> None:
        """Wake all readers that wait for this stream to change, in the order in which they came."""
        waiters, self.waiters = self.waiters, None
        for waiter in waiters or ():
            if not waiter.done():
                waiter.set_result(None)
