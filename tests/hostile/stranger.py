"""A client without manners: it sends any bytes, reads or does not, and leaves as it likes."""

import asyncio
import contextlib
import socket
import struct
from types import TracebackType
from typing import Self

from tests.hostile.answers import Received, may_be_whole, take_apart

PATIENCE_SECONDS = 120.0
"""How long anything may take before a test gives up; no test depends on it being shorter."""

STREAM = b"/v1/stream/"


def request(method: bytes, target: bytes, *lines: bytes, body: bytes | None = None) -> bytes:
    """Return a request as a good client would send it."""
    head = [b"%b %b HTTP/1.1" % (method, target), b"Host: localhost", *lines]
    if body is not None:
        head.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(head) + b"\r\n\r\n" + (body or b"")


def chunked(*pieces: bytes) -> bytes:
    """Return a chunked body with its end."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))


class Stranger:
    """One connection, made by hand."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()

    @classmethod
    async def connect(cls, port: int, receive_buffer_bytes: int | None = None) -> Self:
        sock = socket.socket()
        sock.setblocking(False)
        if receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except BaseException:
            sock.close()
            raise
        return cls(sock)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._sock.close()

    def reset(self) -> None:
        """Leave with a reset: everything under way is lost."""
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._sock.close()

    def half_close(self) -> None:
        """Say that nothing more will be sent."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)

    async def send(self, data: bytes) -> bool:
        """Send everything; say whether the server has let us."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                await self._loop.sock_sendall(self._sock, data)
            except OSError:
                return False
        return True

    def push(self, data: bytes) -> int:
        """Send what goes without waiting; return how much that was."""
        try:
            return self._sock.send(data)
        except OSError:
            return 0

    async def some(self, size: int = 65536) -> bytes:
        """Return what comes next, nothing at the end or after a reset."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            try:
                return await self._loop.sock_recv(self._sock, size)
            except ConnectionError:
                return b""

    async def rest(self) -> bytes:
        """Return everything until the server ends the connection, as it must."""
        received = b""
        while data := await self.some():
            received += data
        return received

    async def until_quiet(self, seconds: float) -> bytes:
        """Return what comes until nothing has come for a while, or the server ends the connection."""
        received = b""
        with contextlib.suppress(TimeoutError, ConnectionError):
            while True:
                async with asyncio.timeout(seconds):
                    data = await self._loop.sock_recv(self._sock, 1 << 20)
                if not data:
                    break
                received += data
        return received

    async def answer(self) -> Received:
        """Return the next answer, all of it."""
        received = b""
        while not may_be_whole(received):
            data = await self.some(1 << 20)
            assert data, f"the connection ended within an answer: {received[-300:]!r}"
            received += data
        (found,) = take_apart(received)
        assert found.whole, found
        return found

    async def ask(self, data: bytes) -> Received:
        """Send a request and return its answer."""
        await self.send(data)
        return await self.answer()

    async def refused(self, data: bytes) -> list[Received]:
        """Send ``data``, to which the server answers and then ends the connection."""
        await self.send(data)
        return take_apart(await self.rest())
