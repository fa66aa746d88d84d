"""Lingering close: the end of a connection whose peer may still be sending."""

import asyncio

from durable_sessions.http.carrier.state import ServerState


class LingeringClose(asyncio.Protocol):
    """Takes over a connection after its last answer: discards input, for a bounded time, then closes.

    Closing a socket with unread input makes the kernel reset the connection, and a reset
    discards the answer that the peer has not read yet.
    """

    __slots__ = ("_bytes_left", "_deadline", "_state", "_transport", "bytes_in", "bytes_out")

    def __init__(
        self, state: ServerState, transport: asyncio.Transport, bytes_in: int, bytes_out: int
    ) -> None:
        self._state = state
        self._transport = transport
        self._bytes_left = state.limits.linger_bytes_max
        self._deadline = state.loop.time() + state.limits.linger_seconds_max
        self.bytes_in = bytes_in
        self.bytes_out = bytes_out

    def data_received(self, data: bytes) -> None:
        """Discard ``data``; cut the connection if there is too much of it."""
        self.bytes_in += len(data)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            self._transport.abort()

    def resume_writing(self) -> None:
        """Note that the peer has read its answer."""
        self._state.answer_taken(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._state.remove(self)

    def running(self) -> None:
        """Return None: the last answer has been given."""

    def sweep(self, now: float) -> None:
        """Cut the connection when its time is over, whether the peer has read the answer or not."""
        if now > self._deadline:
            self._transport.abort()

    def drain(self) -> None:
        """Do nothing: the connection ends soon in any case."""

    def abort(self) -> None:
        """Cut the connection."""
        self._transport.abort()
