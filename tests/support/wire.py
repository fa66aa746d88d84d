"""HTTP by hand over one connection: what never left and what has no answer are told apart."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple


class UnsentError(Exception):
    """Nobody listens, so that nothing was sent."""


class UnansweredError(Exception):
    """The connection or the time ended before the answer did."""


class Answer(NamedTuple):
    """What came back; names of headers are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes = b""

    def json(self) -> Any:
        """Return what the body says."""
        return json.loads(self.body)


class Connection:
    """A connection to this machine that is opened when needed, for one request after the other."""

    def __init__(self, port: int, seconds_max: float) -> None:
        self._port = port
        self._seconds_max = seconds_max
        self._reader: asyncio.StreamReader
        self._writer: asyncio.StreamWriter | None = None

    async def request(
        self, method: str, target: str, headers: dict[str, str] | None = None, content: bytes = b""
    ) -> Answer:
        """Send a request and return the answer."""
        answer = await self.begin(method, target, headers, content)
        async with self._answering():
            length = int(answer.headers.get("content-length", "0"))
            body = b"" if answer.status in (204, 304) else await self._reader.readexactly(length)
        if answer.headers.get("connection") == "close":
            self.close()
        return answer._replace(body=body)

    async def begin(
        self, method: str, target: str, headers: dict[str, str] | None = None, content: bytes = b""
    ) -> Answer:
        """Send a request and return the answer without its body, which is still to come."""
        writer = await self._open()
        lines = {"Host": "localhost", "Content-Length": str(len(content)), **(headers or {})}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        async with self._answering():
            writer.write(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode() + content)
            await writer.drain()
            return _parsed(await self._reader.readuntil(b"\r\n\r\n"))

    @asynccontextmanager
    async def _answering(self) -> AsyncIterator[None]:
        """Bound the time that an answer takes; after any failure the connection is closed."""
        try:
            async with asyncio.timeout(self._seconds_max):
                yield
        except (OSError, EOFError) as error:
            self.close()
            raise UnansweredError from error
        except BaseException:
            self.close()
            raise

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the parts of a body that comes in parts, until it or the connection ends."""
        try:
            while size := int(await self._reader.readuntil(b"\r\n"), 16):
                yield (await self._reader.readexactly(size + 2))[:-2]
        except (OSError, EOFError):
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Let the connection go, whatever is under way on it."""
        if self._writer is not None:
            self._writer.transport.abort()
            self._writer = None

    async def _open(self) -> asyncio.StreamWriter:
        if self._writer is None:
            try:
                async with asyncio.timeout(self._seconds_max):
                    self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
            except OSError as error:
                raise UnsentError from error
        return self._writer


def _parsed(head: bytes) -> Answer:
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    fields = (line.partition(":") for line in lines)
    return Answer(int(first.split(" ")[1]), {name.lower(): value.strip() for name, _, value in fields})
