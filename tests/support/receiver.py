"""A webhook receiver: a real HTTP server that records what it is sent and answers as it is told."""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

Answer = bytes | Awaitable[bytes]


@dataclass
class Received:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = msgspec.json.decode(self.body)
        return found


def answer(status: int = 200, body: bytes = b"{}", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


DONE = answer(200, b'{"done":true}')


@dataclass
class Receiver:
    """``respond`` makes the answer; the default takes the webhook and says nothing more."""

    respond: Callable[[Received], Answer] = lambda _: answer()
    received: list[Received] = field(default_factory=list)
    connections: int = 0
    at_once: int = 0
    most_at_once: int = 0
    port: int = 0
    _arrived: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def start(self, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port, ssl=tls)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()

    async def __aenter__(self) -> "Receiver":
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"

    async def wait(self, count: int, seconds: float = 120) -> Received:
        """Return the request with this number, counted from 1, when it has arrived."""
        async with asyncio.timeout(seconds), self._arrived:
            await self._arrived.wait_for(lambda: len(self.received) >= count)
        return self.received[count - 1]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            request = await self._read(reader)
            async with self._arrived:
                self.received.append(request)
                self._arrived.notify_all()
            response = self.respond(request)
            writer.write(response if isinstance(response, bytes) else await response)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self.at_once -= 1
            writer.close()

    @staticmethod
    async def _read(reader: asyncio.StreamReader) -> Received:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.strip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        return Received(method, target, headers, await reader.readexactly(int(headers["content-length"])))
