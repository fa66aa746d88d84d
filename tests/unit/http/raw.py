"""A client that writes exactly the bytes it is told to, and takes answers apart strictly."""

import asyncio
import socket
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

HOST = b"Host: localhost\r\n"
WAIT_SECONDS = 120.0


@dataclass
class Reply:
    status: int
    headers: dict[bytes, bytes]
    body: bytes = b""
    lines: list[tuple[bytes, bytes]] = field(default_factory=list)


def get(path: bytes = b"/", *more: bytes) -> bytes:
    return b"GET %b HTTP/1.1\r\n%b%b\r\n" % (path, HOST, b"".join(line + b"\r\n" for line in more))


def post(body: bytes, path: bytes = b"/", *more: bytes) -> bytes:
    lines = (b"Content-Length: %d" % len(body), *more)
    return b"POST %b HTTP/1.1\r\n%b%b\r\n%b" % (
        path,
        HOST,
        b"".join(line + b"\r\n" for line in lines),
        body,
    )


def chunked(*pieces: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (*pieces, b""))


class Peer:
    """One connection to a server under test."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int, receive_buffer_bytes: int | None = None) -> Self:
        sock = socket.socket()
        if receive_buffer_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        sock.setblocking(False)
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except OSError:
            sock.close()
            raise
        limit = 64 * 1024 if receive_buffer_bytes is None else 1024
        return cls(*await asyncio.open_connection(sock=sock, limit=limit))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except OSError:
            pass

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def send_bytewise(self, data: bytes) -> None:
        for byte in data:
            self.writer.write(bytes([byte]))
            await asyncio.sleep(0.0005)

    async def head(self) -> Reply:
        async with asyncio.timeout(WAIT_SECONDS):
            raw = await self.reader.readuntil(b"\r\n\r\n")
        status_line, *lines = raw[:-4].split(b"\r\n")
        version, status, _ = status_line.split(b" ", 2)
        assert version == b"HTTP/1.1"
        pairs = [tuple(line.split(b": ", 1)) for line in lines]
        headers = {name.lower(): value for name, value in pairs}
        assert len(headers) == len(pairs), f"a header twice: {lines}"
        return Reply(int(status), headers, lines=[(name, value) for name, value in pairs])

    async def reply(self, *, to_head: bool = False) -> Reply:
        reply = await self.head()
        if to_head or reply.status in (100, 204, 304):
            return reply
        if reply.headers.get(b"transfer-encoding") == b"chunked":
            assert b"content-length" not in reply.headers
            while (chunk := await self.chunk()) != b"":
                reply.body += chunk
        elif b"content-length" in reply.headers:
            async with asyncio.timeout(WAIT_SECONDS):
                reply.body = await self.reader.readexactly(int(reply.headers[b"content-length"]))
        else:
            reply.body = await self.rest()
        return reply

    async def chunk(self) -> bytes:
        async with asyncio.timeout(WAIT_SECONDS):
            size = int(await self.reader.readuntil(b"\r\n"), 16)
            data = await self.reader.readexactly(size + 2)
        assert data.endswith(b"\r\n")
        return data[:-2]

    async def rest(self) -> bytes:
        """Return what comes until the server ends the connection."""
        async with asyncio.timeout(WAIT_SECONDS):
            return await self.reader.read()

    async def ask(self, data: bytes, *, to_head: bool = False) -> Reply:
        await self.send(data)
        return await self.reply(to_head=to_head)

    async def silent(self, seconds: float = 0.05) -> bool:
        """Tell whether nothing comes for a while, not even the end."""
        try:
            async with asyncio.timeout(seconds):
                await self.reader.read(1)
        except TimeoutError:
            return True
        return False
