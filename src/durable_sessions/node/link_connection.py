"""One connection of a link, as both sides have it: frames in and out, batched and fair."""

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, cast

from durable_sessions.limits import Limits
from durable_sessions.node.link_frames import (
    BODY,
    HEADER,
    PING,
    PONG,
    LinkFrameReader,
    LinkProtocolError,
    frame,
)
from durable_sessions.node.link_handshake import Handshake

FrameHandler = Callable[[int, bytes], None]
"""Handles a frame of one kind: the number of its stream, and its payload."""

_FRAMES_PER_TURN = 64
"""Frames handled before others have their turn on the event loop: each may be an append."""
_TICKS_OF_SILENCE = 4
CLOSED_HERE, CLOSED_BY_PEER = "it was closed", "the peer closed it"
"""Why a connection ended, if nothing went wrong."""


class _Bulk:
    """The rest of a large body, which leaves piece by piece."""

    __slots__ = ("body", "sent", "stream")

    def __init__(self, stream: int, body: bytes, sent: int) -> None:
        self.stream = stream
        self.body = memoryview(body)
        self.sent = sent


class LinkConnection(asyncio.Protocol):
    """Sends and receives frames; what they mean is up to the two sides, which derive from it.

    The frames of one turn of the event loop leave in one write. Large bodies leave in pieces, one of each in
    rotation and only as fast as the peer reads, so that small frames overtake them.
    """

    reads_always = True
    """Whether it reads on while the peer does not. Of two ends one must, or both might wait for ever."""

    side: ClassVar[str]
    """Which end of the link it is, as messages say it."""

    _transport: asyncio.Transport

    def __init__(
        self, limits: Limits, secrets: Sequence[bytes], handlers: Mapping[int, FrameHandler]
    ) -> None:
        self._handshake: Handshake | None = Handshake(*secrets)
        self._handlers = handlers
        self._loop = asyncio.get_running_loop()
        self._limits = limits
        self._reader = LinkFrameReader(limits.link_frame_bytes_max)
        self._out: list[bytes] = []
        self._flush_due = False
        self._bulk: deque[_Bulk] = deque()
        self._write_paused = False
        self._parse_due = False  # whether frames were left for the next turn
        self._parse_scheduled = False
        self._heard = True
        self._silent_ticks = 0
        self._watch: asyncio.TimerHandle | None = None
        self._connected = False
        self.closed = False
        self.bytes_in = 0
        self.bytes_out = 0

    # What the two sides do --------------------------------------------------------------

    def opened(self) -> None:
        """Begin the handshake."""

    def shake_hands(self, handshake: Handshake, kind: int, payload: bytes) -> None:
        """Handle a frame of a link that is not open yet; at the end of the handshake, forget it."""
        raise NotImplementedError

    def flushed(self) -> None:
        """Note that all frames sent so far have been given to the operating system, or to its queue."""

    def body_sent(self, stream: int) -> None:
        """Note that the last piece of a large body has been given away."""

    def writable(self) -> None:
        """Note that the peer reads again."""

    def lost(self, reason: str) -> None:
        """Clean up: the connection is gone."""

    @property
    def expects_signs_of_life(self) -> bool:
        """Whether silence of the peer means that it is gone."""
        return False

    # Output -----------------------------------------------------------------------------

    def send(self, kind: int, stream: int, payload: bytes = b"") -> None:
        """Send a frame with all others of this turn."""
        out = self._out
        out.append(HEADER.pack(len(payload), stream, kind))
        out.append(payload)
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def send_rest(self, stream: int, body: bytes, sent: int) -> None:
        """Send the rest of a body, piece by piece."""
        self._bulk.append(_Bulk(stream, body, sent))
        if not self._flush_due:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def drop_rest(self, stream: int) -> None:
        """Send no more of a body; the peer was told so."""
        if self._bulk:
            self._bulk = deque(bulk for bulk in self._bulk if bulk.stream != stream)

    def _flush(self) -> None:
        self._flush_due = False
        if self.closed:
            self._out.clear()
            return
        if self._out:
            self._write(b"".join(self._out))
            self._out.clear()
            self.flushed()
        # One round per turn, so that small frames which become ready meanwhile go first.
        if self._bulk and not self._write_paused:
            self._send_pieces()

    def _send_pieces(self) -> None:
        piece_bytes = self._limits.link_piece_bytes_max
        for _ in range(len(self._bulk)):
            bulk = self._bulk.popleft()
            end = min(bulk.sent + piece_bytes, len(bulk.body))
            self._write(frame(BODY, bulk.stream, bytes(bulk.body[bulk.sent : end])))
            bulk.sent = end
            if end < len(bulk.body):
                self._bulk.append(bulk)
            else:
                self.body_sent(bulk.stream)
            if self._write_paused:
                return
        if self._bulk:
            self._flush_due = True
            self._loop.call_soon(self._flush)

    def _write(self, data: bytes) -> None:
        self.bytes_out += len(data)
        self._transport.write(data)

    @property
    def write_paused(self) -> bool:
        """Whether the peer does not read as fast as frames are sent."""
        return self._write_paused

    def pause_writing(self) -> None:
        """Send no more large bodies for now: the peer does not read as fast."""
        self._write_paused = True
        if not self.reads_always:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on with large bodies: the peer has read what was sent."""
        self._write_paused = False
        self._read_on()
        self._flush()
        self.writable()

    # Input ------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        """Handle the frames that ``data`` completes, some now and the rest in later turns."""
        self.bytes_in += len(data)
        self._heard = True
        self._reader.feed(data)
        if not self._parse_due:
            self._parse()

    def _parse_on(self) -> None:
        self._parse_scheduled = False
        if not self._reads_not:
            self._parse_due = False
            self._parse()
            self._read_on()

    def _read_on(self) -> None:
        if self.closed or self._reads_not:
            return
        if not self._parse_due:
            self._transport.resume_reading()
        elif not self._parse_scheduled:
            self._parse_scheduled = True
            self._loop.call_soon(self._parse_on)

    @property
    def _reads_not(self) -> bool:
        return self._write_paused and not self.reads_always

    def _parse(self) -> None:
        try:
            for _ in range(_FRAMES_PER_TURN):
                if self.closed:
                    return
                found = self._reader.next()
                if found is None:
                    return
                kind, stream, payload = found
                if kind == PING:
                    self.send(PONG, 0)
                elif kind != PONG:
                    self._received(kind, stream, payload)
        except LinkProtocolError as error:
            self.drop(str(error))
            return
        self._parse_due = True
        self._transport.pause_reading()
        self._read_on()

    def _received(self, kind: int, stream: int, payload: bytes) -> None:
        if self._handshake is not None:
            self.shake_hands(self._handshake, kind, payload)
            return
        handle = self._handlers.get(kind)
        if handle is None:
            raise LinkProtocolError(f"a frame of kind {kind} is not for {self.side}")
        handle(stream, payload)

    # Life -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin the handshake."""
        self._transport = cast("asyncio.Transport", transport)
        self._connected = True
        if self.closed:
            self._transport.abort()
            return
        self._transport.set_write_buffer_limits(high=self._limits.link_write_buffer_bytes_max)
        self._watch_silence()
        self.opened()

    def _watch_silence(self) -> None:
        """Ask for a sign of life when the peer is silent, and drop it if there is none.

        Silence is counted in ticks, not in time: if this process was stopped, the peer's frames are waiting.
        """
        seconds = self._limits.link_silence_seconds_max / _TICKS_OF_SILENCE
        self._watch = self._loop.call_later(seconds, self._watch_silence)
        if self._heard or not self.expects_signs_of_life:
            self._heard = False
            self._silent_ticks = 0
            return
        self._silent_ticks += 1
        if self._silent_ticks > _TICKS_OF_SILENCE:
            self.drop(f"nothing was heard for {self._limits.link_silence_seconds_max:g} seconds")
        else:
            self.send(PING, 0)

    def drop(self, reason: str) -> None:
        """Cut the connection at once."""
        self._end(reason)
        self._transport.abort()

    def discard(self) -> None:
        """Cut the connection, if there is one."""
        self._end("it was given up")
        if self._connected:
            self._transport.abort()

    def close(self) -> None:
        """Close the connection when what was sent has been written."""
        if not self.closed:
            self._flush()
            self._end(CLOSED_HERE)
            self._transport.close()

    def eof_received(self) -> None:
        """Treat the end of input as the end of the connection."""
        self._end(CLOSED_BY_PEER)

    def connection_lost(self, exc: Exception | None) -> None:
        """Clean up, unless that has happened."""
        self._end(CLOSED_BY_PEER if exc is None else str(exc) or repr(exc))

    def _end(self, reason: str) -> None:
        if self.closed:
            return
        self.closed = True
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self._out.clear()
        self._bulk.clear()
        self.lost(reason)
