"""Follows streams for many subscribers: records are encoded once and shared by all of a stream."""

from collections.abc import AsyncIterator, Hashable
from typing import Protocol

from durable_sessions.errors import OverloadedError
from durable_sessions.http.api.frame_budget import FrameBudget
from durable_sessions.http.api.heartbeat import Heartbeat
from durable_sessions.http.api.read_throttle import ReadThrottle
from durable_sessions.limits import Limits
from durable_sessions.storage.door import Slice, Streams, StreamView

_WHOLE = -1  # the key of the last whole piece among the chunks; not a valid position
Chunk = tuple[int, bytes]
"""The position after some records, and these records encoded."""


class SharedChunks:
    """Encoded records of one stream, shared by its subscribers; exists while there are any."""

    def __init__(self, frame_budget: FrameBudget, chunks_max: int) -> None:
        self._frame_budget = frame_budget
        self._chunks_max = chunks_max
        self._chunks: dict[int, Chunk] = {}
        self._whole: tuple[Hashable, bytes] | None = None
        self._erased = 0
        self.subscribers = 0

    def valid_after(self, erased: int) -> None:
        """Drop everything if records were erased since it was encoded: ``erased`` counts them."""
        if erased != self._erased:
            self.close()
            self._erased = erased

    def get(self, start: int) -> Chunk | None:
        """Return the chunk that begins at a position."""
        return self._chunks.get(start)

    def put(self, start: int, chunk: Chunk) -> None:
        """Keep a chunk for the other subscribers."""
        self._chunks[start] = chunk
        self._frame_budget.put(self, start, len(chunk[1]))
        if len(self._chunks) > self._chunks_max:
            self.forget(next(iter(self._chunks)))

    def whole(self, key: Hashable) -> bytes | None:
        """Return the last whole piece if it has this key."""
        return self._whole[1] if self._whole is not None and self._whole[0] == key else None

    def keep_whole(self, key: Hashable, piece: bytes) -> None:
        """Keep a complete piece, so that subscribers at the same position are sent the same bytes object."""
        self._whole = key, piece
        self._frame_budget.put(self, _WHOLE, len(piece))

    def forget(self, start: int) -> None:
        """Drop the chunk that begins at ``start``, or the last whole piece."""
        if start == _WHOLE:
            self._whole = None
        else:
            self._chunks.pop(start, None)
        self._frame_budget.drop(self, start)

    def close(self) -> None:
        """Drop everything: the last subscriber has left, or something of it was erased."""
        for start in (_WHOLE, *list(self._chunks)):
            self.forget(start)


class Framing(Protocol):
    """How records become SSE frames for one subscriber, and which other frames it is sent."""

    chunk_bytes_max: int
    """How much is read and encoded at a time."""
    seconds_max: float
    """After how long the connection ends; the subscriber reconnects."""
    is_shared: bool
    """Whether every subscriber of the stream is sent the same chunks."""

    def opening(self) -> bytes:
        """Return what is sent before anything is read, which may be nothing."""
        ...

    def encode(self, durable: StreamView, found: Slice) -> Chunk | None:
        """Return records encoded; None if nothing of them can be sent yet."""
        ...

    def complete(self, shared: SharedChunks, start: int, chunk: Chunk, durable: StreamView) -> bytes:
        """Return a chunk with the control data of this moment."""
        ...

    def idle(self, durable: StreamView, position: int) -> bytes:
        """Return what is sent when there are no records: at a heartbeat, or when the stream has ended."""
        ...

    def removed(self, durable: StreamView) -> bytes:
        """Return what is sent last when the stream was deleted."""
        ...


class Followers:
    """Follows streams for subscribers: catches up, then sends records as they become durable."""

    def __init__(
        self, streams: Streams, limits: Limits, throttle: ReadThrottle, frame_budget: FrameBudget
    ) -> None:
        self._streams = streams
        self._limits = limits
        self._throttle = throttle
        self._frame_budget = frame_budget
        self._shared: dict[StreamView, SharedChunks] = {}
        self.draining = False

    @property
    def subscribers(self) -> int:
        """How many subscribers are connected."""
        return sum(shared.subscribers for shared in self._shared.values())

    async def follow(self, durable: StreamView, position: int, framing: Framing) -> AsyncIterator[bytes]:
        """Yield frames from ``position`` on, until the stream ends or the connection's time is up.

        Nothing is queued per subscriber: a slow one continues to read from its own position, so it costs no
        memory and slows down no one else.
        """
        shared = self._shared.setdefault(
            durable, SharedChunks(self._frame_budget, self._limits.sse_shared_frames_max)
        )
        # Before the first await: an entry without subscribers could be dropped while this one waits.
        shared.subscribers += 1
        heartbeat = Heartbeat(self._limits.sse_heartbeat_seconds_max, framing.seconds_max)
        try:
            opening = framing.opening()
            if opening:
                yield opening
            frame = await self._next(shared, durable, position, framing)
            if frame is None and not opening:
                yield framing.idle(durable, position)
            while True:
                while frame is not None:
                    position, encoded = frame
                    if encoded:
                        yield encoded
                        heartbeat.sent()
                    if self.draining:
                        return  # even if it is behind: it reconnects and continues
                    frame = await self._next(shared, durable, position, framing)
                if durable.removed:
                    if last := framing.removed(durable):
                        yield last
                    return
                if self.draining or heartbeat.over or _ended(durable, position):
                    return
                try:
                    waiter = self._streams.wait(durable)
                except OverloadedError:
                    return  # the subscriber reconnects, and is told why
                await heartbeat.wait(waiter)
                frame = await self._next(shared, durable, position, framing)
                if frame is None and (heartbeat.due() or _ended(durable, position)):
                    # A reader keeps a stream with a TTL alive for as long as it follows.
                    self._streams.touch(durable)
                    if idle := framing.idle(durable, position):
                        yield idle
                    heartbeat.sent()
        finally:
            heartbeat.stop()
            shared.subscribers -= 1
            if not shared.subscribers:
                self._shared.pop(durable, None)
                shared.close()

    async def _next(
        self, shared: SharedChunks, durable: StreamView, position: int, framing: Framing
    ) -> Chunk | None:
        while position < durable.tail and not durable.removed:
            tail = durable.tail
            shared.valid_after(self._streams.erased_records)
            chunk = shared.get(position) if framing.is_shared else None
            if chunk is None:
                chunk = await self._read(shared, durable, position, framing)
            if chunk is not None:
                return chunk[0], framing.complete(shared, position, chunk, durable)
            if durable.tail == tail:
                return None
            # Half a character could not be sent, and the rest of it came while it was read. The wake for that
            # is over: to wait now would be to wait for the append after it.
        return None

    async def _read(
        self, shared: SharedChunks, durable: StreamView, position: int, framing: Framing
    ) -> Chunk | None:
        await self._throttle.room()
        erased = self._streams.erased_records
        found = await self._streams.read(durable, position, framing.chunk_bytes_max)
        chunk = framing.encode(durable, found)
        if chunk is not None:
            self._throttle.count(max(len(found.data), len(chunk[1])))
            # What was read before an erasure was published must not be sent to others after it.
            if framing.is_shared and erased == self._streams.erased_records:
                shared.put(position, chunk)
        return chunk


def _ended(durable: StreamView, position: int) -> bool:
    return durable.closed and position == durable.tail
