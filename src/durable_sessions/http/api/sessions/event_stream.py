"""Anthropic's event stream: one frame for each event, named by its type, without an end of its own."""

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec

from durable_sessions import lenient
from durable_sessions.clock import Clock
from durable_sessions.errors import OverloadedError
from durable_sessions.http.api.frame_budget import Shelf
from durable_sessions.http.api.read_throttle import Pace
from durable_sessions.limits import Limits
from durable_sessions.sessions import event_ids
from durable_sessions.sessions.selection import Selection
from durable_sessions.storage.door import Streams, StreamView
from durable_sessions.streams import messages
from durable_sessions.times import rfc3339

_HEARTBEAT = b": heartbeat\n\n"
_CHUNK_BYTES = 256 * 1024
"""What is read and made into frames at a time."""


class _Named(msgspec.Struct):
    id: str = ""
    type: str = "message"


_NAMED = msgspec.json.Decoder(_Named)


def frame(event: bytes) -> bytes:
    """Return a stored event as a frame; JSON of ours never has a line break outside of text."""
    try:
        named = lenient.decode(_NAMED, event)
    except msgspec.MsgspecError:
        named = _Named()
    lines = b"\ndata: ".join(event.splitlines()) if b"\n" in event or b"\r" in event else event
    return b"".join(
        (b"id: ", named.id.encode(), b"\nevent: ", named.type.encode(), b"\ndata: ", lines, b"\n\n")
    )


class _Shared:
    """The frames of one session that its followers are being sent, encoded once for all of them."""

    def __init__(self, shelf: Shelf, frames_max: int) -> None:
        self._shelf = shelf
        self._frames_max = frames_max
        self._chunks: dict[int, tuple[int, bytes]] = {}
        self.followers = 0

    def get(self, start: int) -> tuple[int, bytes] | None:
        """Return the frames that begin at a position, and the position after them."""
        return self._chunks.get(start)

    def put(self, start: int, following: int, frames: bytes) -> None:
        """Keep frames for the other followers."""
        self._chunks[start] = following, frames
        self._shelf.put(self, start, len(frames))
        if len(self._chunks) > self._frames_max:
            self.forget(next(iter(self._chunks)))

    def forget(self, start: int) -> None:
        """Drop the frames that begin at a position."""
        self._chunks.pop(start, None)
        self._shelf.drop(self, start)

    def close(self) -> None:
        """Drop everything: the last follower has left."""
        for start in list(self._chunks):
            self.forget(start)


class Tails:
    """Follows sessions for subscribers; one that has fallen behind is read from the log again."""

    def __init__(self, partition: Streams, clock: Clock, limits: Limits, pace: Pace, shelf: Shelf) -> None:
        self._partition = partition
        self._pace = pace
        self._shelf = shelf
        self._clock = clock
        self._limits = limits
        self._shared: dict[StreamView, _Shared] = {}
        self.draining = False

    async def follow(self, durable: StreamView, position: int, selection: Selection) -> AsyncIterator[bytes]:
        """Yield frames from ``position`` on until the session is deleted or closed, or the server stops."""
        shared = self._shared.setdefault(durable, _Shared(self._shelf, self._limits.sse_shared_frames_max))
        shared.followers += 1
        matches = None if selection.everything else selection.matcher()
        try:
            yield _HEARTBEAT  # so that proxies pass on the headers at once
            while True:
                while position < durable.tail and not durable.removed:
                    position, frames = await self._frames(shared, durable, position, matches)
                    if frames:
                        yield frames
                if durable.removed:
                    yield self._deleted(durable)
                    return
                if durable.closed or self.draining:
                    return
                try:
                    changed = await self._changed(durable)
                except OverloadedError:
                    return  # the follower comes again, and is told so
                if not changed:
                    self._partition.touch(durable)
                    yield _HEARTBEAT
        finally:
            shared.followers -= 1
            if not shared.followers:
                self._shared.pop(durable, None)
                shared.close()

    async def _frames(
        self,
        shared: _Shared,
        durable: StreamView,
        position: int,
        matches: Callable[[bytes], bool] | None,
    ) -> tuple[int, bytes]:
        known = None if matches else shared.get(position)
        if known is not None:
            return known
        await self._pace.room()
        found = await self._partition.read(durable, position, _CHUNK_BYTES)
        self._pace.count(len(found.data))
        events = messages.cut(found.data)
        frames = b"".join([frame(event) for event in events if matches is None or matches(event)])
        if matches is None:
            shared.put(position, found.next, frames)
        return found.next, frames

    def _deleted(self, durable: StreamView) -> bytes:
        """Return the last frame of a session that is gone; no log holds it."""
        event = {
            "id": event_ids.event_id(event_ids.tag(durable.stream), durable.tail),
            "type": "session.deleted",
            "processed_at": rfc3339(self._clock.now_ms()),
        }
        return frame(msgspec.json.encode(event))

    async def _changed(self, durable: StreamView) -> bool:
        """Wait for a change; say whether one came before it was time for a heartbeat."""
        waiter = self._partition.wait(durable)
        try:
            async with asyncio.timeout(self._limits.sse_heartbeat_seconds_max):
                await waiter
        except TimeoutError:
            return False
        finally:
            waiter.cancel()
        return True
