"""Follows streams for many subscribers: what they are sent is encoded once and shared by all of a stream."""

from collections.abc import AsyncIterator, Hashable
from typing import Protocol

from durable_sessions.errors import OverloadedError
from durable_sessions.http.api.frame_budget import FrameBudget
from durable_sessions.http.api.heartbeat import Heartbeat
from durable_sessions.http.api.read_throttle import ReadThrottle
from durable_sessions.limits import Limits
from durable_sessions.storage.door import Slice, Streams, StreamView

_WHOLE = -1  # where the last whole piece stands among the chunks; no stream has this position
Chunk = tuple[int, bytes]
"""The position after some records, and these records encoded."""


class SharedChunks:
    """The encoded records of one stream that its subscribers are being sent; kept while it has any."""

    def __init__(self, frame_budget: FrameBudget, chunks_max: int) -> None:
        self._frame_budget = frame_budget
        self._chunks_max = chunks_max
        self._chunks: dict[int, Chunk] = {}
        self._whole: tuple[Hashable, bytes] | None = None
        self.subscribers = 0

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
        """Return the last piece that was kept whole, if it is the one that is asked for."""
        return self._whole[1] if self._whole is not None and self._whole[0] == key else None

    def keep_whole(self, key: Hashable, piece: bytes) -> None:
        """Keep a chunk with all that belongs to it; subscribers who are as far get the same bytes."""
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
        """Drop everything: the last subscriber has left."""
        for start in (_WHOLE, *self._chunks):
            self.forget(start)


class Framing(Protocol):
    """How records become frames for one subscriber, and what it is told besides."""

    chunk_bytes_max: int
    """How much is read and encoded at a time."""
    seconds_max: float
    """After how long the connection ends; the subscriber comes again."""
    is_shared: bool
    """Whether every subscriber of the stream is sent the same chunks."""

    def opening(self) -> bytes:
        """Return what is sent before anything is read; nothing if what comes first can wait."""
        ...

    def encode(self, durable: StreamView, found: Slice) -> Chunk | None:
        """Return records encoded; None if they hold nothing that can be sent yet."""
        ...

    def complete(self, shared: SharedChunks, start: int, chunk: Chunk, durable: StreamView) -> bytes:
        """Return a chunk with what belongs to it now."""
        ...

    def idle(self, durable: StreamView, position: int) -> bytes:
        """Return what is sent when there are no records: at a heartbeat, or when the stream has ended."""
        ...

    def removed(self, durable: StreamView) -> bytes:
        """Return the last thing that is sent of a stream that is gone."""
        ...


class Followers:
    """Follows streams for subscribers: catches up, then sends what becomes durable."""

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

        Nothing is queued per subscriber: one that has fallen behind takes its next frame from
        where it stands, so it costs no memory and slows nobody.
        """
        shared = self._shared.setdefault(
            durable, SharedChunks(self._frame_budget, self._limits.sse_shared_frames_max)
        )
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
                        return  # also who is behind comes again, to whoever serves it then
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
                    return  # the subscriber comes again, and is told so
                await heartbeat.wait(waiter)
                frame = await self._next(shared, durable, position, framing)
                if frame is None and (heartbeat.due() or _ended(durable, position)):
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
        if position >= durable.tail or durable.removed:
            return None
        chunk = shared.get(position) if framing.is_shared else None
        if chunk is None:
            await self._throttle.room()
            found = await self._streams.read(durable, position, framing.chunk_bytes_max)
            chunk = framing.encode(durable, found)
            if chunk is None:
                return None
            self._throttle.count(max(len(found.data), len(chunk[1])))
            if framing.is_shared:
                shared.put(position, chunk)
        return chunk[0], framing.complete(shared, position, chunk, durable)


def _ended(durable: StreamView, position: int) -> bool:
    return durable.closed and position == durable.tail
