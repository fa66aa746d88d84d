"""A server on a socket that follows a script, for what a stub cannot show: silence, cuts and connections."""

import asyncio
import re
from collections.abc import Awaitable, Callable

from tests.support.loopback import LoopbackServer

Script = Callable[[asyncio.StreamWriter], Awaitable[None]]


class RawServer(LoopbackServer):
    """Answers one request after the other with one script after the other; the last one stays.

    ``requests`` are the heads that came, ``open`` is how many connections clients hold right now.
    """

    def __init__(self, *scripts: Script) -> None:
        super().__init__()
        self._scripts = list(scripts)
        self.requests: list[str] = []
        self.open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of a connection."""
        self.open += 1
        try:
            while not writer.is_closing():  # the client decides when the connection ends
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = re.search(r"content-length: (\d+)", head, re.IGNORECASE)
                await reader.readexactly(int(length[1]) if length else 0)
                self.requests.append(head)
                await (self._scripts.pop(0) if len(self._scripts) > 1 else self._scripts[0])(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.open -= 1
            writer.close()


async def silence(writer: asyncio.StreamWriter) -> None:
    """Never answer."""


def answer(
    body: bytes, *, declared: int | None = None, kind: str = "application/json", status: str = "200 OK"
) -> Script:
    """Answer with a body; with ``declared`` as if it were longer, and cut the connection behind it."""

    async def script(writer: asyncio.StreamWriter) -> None:
        length = len(body) if declared is None else declared
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        if declared is not None:
            writer.close()

    return script


def event_stream(*frames: bytes, cut: bool = False) -> Script:
    """Begin a stream of server-sent events; the connection stays, or is cut in the middle of a chunk."""

    async def script(writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        for frame in frames:
            writer.write(b"%x\r\n%b\r\n" % (len(frame), frame))
        if cut:
            writer.write(b"ff\r\ndata: {")
        await writer.drain()
        if cut:
            writer.close()

    return script
