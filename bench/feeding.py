"""An exact number of requests from many connections, for filling servers; not for measuring latency."""

import asyncio
import time
from collections.abc import Iterable, Iterator
from typing import cast
from urllib.parse import urlsplit

import httptools
import uvloop

from bench.load import EVENT, PREFIX

LANES = 64
SECONDS_MAX = 300.0
"""How long one filling may take altogether."""


def put(path: str, body: bytes = b"") -> bytes:
    """Return the request that creates a stream of JSON messages, with its first ones."""
    return _request("PUT", path, body)


def post(path: str, body: bytes) -> bytes:
    """Return the request that appends a JSON body."""
    return _request("POST", path, body)


def send(url: str, requests: Iterable[bytes], *, lanes: int = LANES) -> float:
    """Send requests, one at a time on each connection; all must succeed. Return the seconds it took."""
    begin = time.perf_counter()
    uvloop.run(_send(url, iter(requests), lanes))
    return time.perf_counter() - begin


def create_streams(url: str, count: int) -> None:
    """Create the streams ``bench-N`` that the loads write to."""
    send(url, (put(f"{PREFIX}{number}") for number in range(count)))


def fill(url: str, path: str, events: int, *, per_request: int = 100, lanes: int = 8) -> None:
    """Create a stream and append so many of the usual events."""
    body = ("[" + ",".join([EVENT] * per_request) + "]").encode()
    send(url, [put(path)])
    send(url, (post(path, body) for _ in range(events // per_request)), lanes=lanes)


def _request(method: str, path: str, body: bytes) -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def _send(url: str, requests: Iterator[bytes], lanes: int) -> None:
    loop = asyncio.get_running_loop()
    parts = urlsplit(url)
    opened: list[_Lane] = []
    try:
        for _ in range(lanes):
            first = next(requests, None)
            if first is None:
                break
            _, lane = await loop.create_connection(
                lambda one=first: _Lane(requests, one, loop.create_future()),  # type: ignore[misc]
                str(parts.hostname),
                parts.port or 80,
            )
            opened.append(lane)
        async with asyncio.timeout(SECONDS_MAX):
            await asyncio.gather(*[lane.done for lane in opened])
    finally:
        for lane in opened:
            lane.close()


class _Lane(asyncio.Protocol):
    """One connection that takes the next request when its last one was answered."""

    def __init__(self, requests: Iterator[bytes], first: bytes, done: "asyncio.Future[None]") -> None:
        self._requests = requests
        self._first = first
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self.done = done

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._first)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(error.__context__ or error)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 300:
            raise ConnectionError(f"a request was answered {status}")
        following = next(self._requests, None)
        if following is not None:
            assert self._transport is not None
            self._transport.write(following)
        elif not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionError("the server closed the connection"))

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)
