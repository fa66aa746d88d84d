"""Server-sent events: each frame is encoded once and shared by all subscribers of a stream."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator

from durable_sessions.errors import OverloadedError
from durable_sessions.http.api.cursor import Cursors
from durable_sessions.http.api.frame_budget import Shelf
from durable_sessions.http.api.read_throttle import Pace
from durable_sessions.http.carrier.message import Header
from durable_sessions.limits import Limits
from durable_sessions.storage.door import Slice, Streams, StreamView
from durable_sessions.streams import content, offsets
from durable_sessions.streams.messages import json_array

_WHOLE = -1  # where a fan-out's last whole frame stands; no stream has this position


def is_base64(durable: StreamView) -> bool:
    """Say whether a stream's data events carry base64 instead of text."""
    return not durable.stream.is_json and not content.is_text(durable.stream.content_type)


def data_event(payload: bytes) -> bytes:
    """Return text as one data event; its lines are joined by line feeds on the other side."""
    lines = b"\n" + payload
    if b"\r" in lines:
        lines = lines.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    # A reader drops one space after the colon, so a line that begins with one gets another.
    lines = lines.replace(b"\n", b"\ndata:").replace(b"\ndata: ", b"\ndata:  ")
    return b"".join((b"event: data", lines, b"\n\n"))


def control_event(position: int, cursor: int, *, up_to_date: bool, closed: bool) -> bytes:
    """Return the control event that follows data, or stands alone."""
    fields = f'"streamNextOffset":"{offsets.encode(position)}"'
    if not closed:
        fields += f',"streamCursor":"{cursor}"'
    if up_to_date:
        fields += ',"upToDate":true'
    if closed:
        fields += ',"streamClosed":true'
    return f"event: control\ndata:{{{fields}}}\n\n".encode()


def complete_utf8(data: bytes) -> int:
    """Return how much of ``data`` ends with a whole character; a cut one at the end waits for its rest."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(data) - back if length > back else len(data)
    return len(data)


FIELDS: list[Header] = [
    (b"Content-Type", b"text/event-stream"),
    (b"Cache-Control", b"no-cache"),
    (b"X-Accel-Buffering", b"no"),  # nginx would hold events back otherwise
]


class Fanout:
    """The frames of one stream that its subscribers are being sent; kept while it has any."""

    def __init__(self, shelf: Shelf, frames_max: int) -> None:
        self._shelf = shelf
        self._frames_max = frames_max
        self._data: dict[int, tuple[int, bytes]] = {}
        self._whole: tuple[tuple[int, int, int, bool, bool], bytes] | None = None
        self.subscribers = 0

    def forget(self, start: int) -> None:
        """Drop the event that begins at ``start``, or the last whole frame."""
        if start == _WHOLE:
            self._whole = None
        else:
            self._data.pop(start, None)
        self._shelf.drop(self, start)

    def close(self) -> None:
        """Drop everything: the last subscriber has left."""
        for start in (_WHOLE, *self._data):
            self.forget(start)

    def cached(self, start: int) -> tuple[int, bytes] | None:
        """Return the data event that begins at a position, and the position after it."""
        return self._data.get(start)

    def encode(self, durable: StreamView, found: Slice) -> tuple[int, bytes] | None:
        """Encode records and keep the event; None if they hold nothing that can be sent yet."""
        data, following = found.data, found.next
        if durable.stream.is_json:
            event = data_event(json_array([memoryview(data)]))
        elif is_base64(durable):
            event = data_event(b64encode(data))
        else:
            if not (durable.closed and following == durable.tail):
                data = data[: complete_utf8(data)]
                following = found.first + len(data)
            if not data:
                return None
            event = data_event(data)
        self._data[found.first] = (following, event)
        self._shelf.put(self, found.first, len(event))
        if len(self._data) > self._frames_max:
            self.forget(next(iter(self._data)))
        return following, event

    def frame(self, start: int, following: int, event: bytes, cursor: int, durable: StreamView) -> bytes:
        """Return a data event and its control event as one piece, shared while nothing has changed."""
        up_to_date = following == durable.tail
        closed = durable.closed and up_to_date
        key = (start, following, cursor, up_to_date, closed)
        if self._whole is None or self._whole[0] != key:
            whole = event + control_event(following, cursor, up_to_date=up_to_date, closed=closed)
            self._whole = key, whole
            self._shelf.put(self, _WHOLE, len(whole))
            return whole
        return self._whole[1]


class EventSource:
    """Follows streams for subscribers: catches up, then sends what becomes durable."""

    def __init__(
        self, partition: Streams, cursors: Cursors, limits: Limits, pace: Pace, shelf: Shelf
    ) -> None:
        self._partition = partition
        self._cursors = cursors
        self._limits = limits
        self._pace = pace
        self._fanouts: dict[StreamView, Fanout] = {}
        self._shelf = shelf
        self.draining = False

    @property
    def subscribers(self) -> int:
        """How many subscribers are connected."""
        return sum(fanout.subscribers for fanout in self._fanouts.values())

    async def follow(
        self, durable: StreamView, position: int, sent_cursor: str | None
    ) -> AsyncIterator[bytes]:
        """Yield frames from ``position`` on, until the stream ends or the connection's time is up.

        Nothing is queued per subscriber: one that has fallen behind takes its next frame from
        where it stands, so it costs no memory and slows nobody.
        """
        fanout = self._fanouts.setdefault(durable, Fanout(self._shelf, self._limits.sse_shared_frames_max))
        fanout.subscribers += 1
        pulse = Pulse(self._limits)
        floor = self._cursors.after(sent_cursor)
        try:
            frame = await self._next_frame(fanout, durable, position, floor)
            if frame is None:
                yield self._control(durable, position, floor)
            while True:
                while frame is not None:
                    position, encoded = frame
                    yield encoded
                    pulse.sent()
                    if self.draining:
                        return  # also who is behind comes again, to whoever serves it then
                    frame = await self._next_frame(fanout, durable, position, floor)
                if durable.removed or self.draining or pulse.over or self._ended(durable, position):
                    return
                try:
                    waiter = self._partition.wait(durable)
                except OverloadedError:
                    return  # the subscriber comes again, and is told so
                await pulse.wait(waiter)
                frame = await self._next_frame(fanout, durable, position, floor)
                if frame is None and (pulse.due() or self._ended(durable, position)):
                    self._partition.touch(durable)
                    yield self._control(durable, position, floor)
                    pulse.sent()
        finally:
            pulse.stop()
            fanout.subscribers -= 1
            if not fanout.subscribers:
                self._fanouts.pop(durable, None)
                fanout.close()

    async def _next_frame(
        self, fanout: Fanout, durable: StreamView, position: int, floor: int
    ) -> tuple[int, bytes] | None:
        if position >= durable.tail:
            return None
        cached = fanout.cached(position)
        if cached is None:
            await self._pace.room()
            found = await self._partition.read(durable, position, self._limits.read_chunk_bytes_max)
            cached = fanout.encode(durable, found)
            if cached is None:
                return None
            self._pace.count(len(cached[1]))
        following, event = cached
        cursor = max(floor, self._cursors.now())
        return following, fanout.frame(position, following, event, cursor, durable)

    def _control(self, durable: StreamView, position: int, floor: int) -> bytes:
        return control_event(
            position,
            max(floor, self._cursors.now()),
            up_to_date=position == durable.tail,
            closed=self._ended(durable, position),
        )

    @staticmethod
    def _ended(durable: StreamView, position: int) -> bool:
        return durable.closed and position == durable.tail


class Pulse:
    """One timer per subscriber: says when it is time for a heartbeat, and when its time is up."""

    def __init__(self, limits: Limits) -> None:
        self._loop = asyncio.get_running_loop()
        self._heartbeat = limits.sse_heartbeat_seconds_max
        self._ends_at = self._loop.time() + limits.sse_seconds_max
        self._last = self._loop.time()
        self._waiter: asyncio.Future[None] | None = None
        self._timer = self._arm()

    @property
    def over(self) -> bool:
        """Whether the connection should end now."""
        return self._loop.time() >= self._ends_at

    def due(self) -> bool:
        """Say whether nothing has been sent for the length of a heartbeat."""
        return self.over or self._loop.time() - self._last >= self._heartbeat

    def sent(self) -> None:
        """Note that something was sent."""
        self._last = self._loop.time()

    async def wait(self, waiter: "asyncio.Future[None]") -> None:
        """Wait for the future, or for the next heartbeat or the end if that is earlier."""
        self._waiter = waiter
        try:
            await waiter
        finally:
            waiter.cancel()
            self._waiter = None

    def stop(self) -> None:
        """Give the timer back."""
        self._timer.cancel()

    def _arm(self) -> asyncio.TimerHandle:
        return self._loop.call_at(min(self._last + self._heartbeat, self._ends_at), self._tick)

    def _tick(self) -> None:
        if self.due() and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if not self.over:
            if self.due():
                self._timer = self._loop.call_later(self._heartbeat, self._tick)
            else:
                self._timer = self._arm()
