"""What belongs to a connection is freed when it ends: on a large server, old cycles are never looked for."""

import asyncio
import gc
import json
from collections.abc import Iterator

import pytest

from durable_sessions.http.carrier.answerer import Answerer
from durable_sessions.http.carrier.connection import Connection
from durable_sessions.http.carrier.request_parser import RequestParser
from durable_sessions.testing.server import LocalServer
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

JSON = "application/json"
ROUNDS = 8
KINDS = (Connection, RequestParser, Answerer, asyncio.Task)
LAST_MAX = 1
"""The event loop may still refer to the last one."""
EVENT = {"type": "user.message", "content": []}
BEGINNINGS = {
    "reads": [("GET", "/v1/stream/a?offset=-1"), ("GET", "/v1/sessions/s/events"), ("GET", "/v1/sessions")],
    "appends": [("POST", "/v1/stream/a"), ("POST", "/v1/sessions/s/events")],
    "refused reads": [("GET", "/v1/stream/none?offset=-1"), ("GET", "/v1/sessions/none/events")],
    "refused appends": [("POST", "/v1/stream/none"), ("POST", "/v1/sessions/none/events?create=false")],
    "a refused delete": [("DELETE", "/v1/stream/none"), ("DELETE", "/v1/sessions/none")],
    "a follower": [("GET", "/v1/stream/a?offset=-1&live=sse")],
    "a follower of a session": [("GET", "/v1/sessions/s/events/stream?offset=-1")],
    "a long poll": [("GET", "/v1/stream/a?offset=now&live=long-poll")],
}


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive() -> dict[str, int]:
    found = gc.get_objects()
    return {kind.__name__: sum(type(one) is kind for one in found) for kind in KINDS}


async def send(port: int, *requests: tuple[str, str]) -> None:
    """Send requests over one connection, wait until the last one has an answer or waits, and go away."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for method, target in requests:
        body = json.dumps(EVENT).encode() if method in ("POST", "PUT") else b""
        head = f"{method} {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {JSON}\r\n"
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
        if "long-poll" in target:
            await asyncio.sleep(0.1)
        else:
            await reader.readuntil(b"\r\n\r\n")
    await asyncio.sleep(0.1)
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("requests", BEGINNINGS.values(), ids=BEGINNINGS.keys())
@pytest.mark.usefixtures("uncollected")
async def test_nothing_of_a_connection_stays(server: LocalServer, requests: list[tuple[str, str]]) -> None:
    # The search has tasks of its own from its first event on; they must have begun before they are counted.
    begin = [("PUT", "/v1/stream/a"), ("PUT", "/v1/sessions/s"), ("POST", "/v1/sessions/s/events")]
    await send(server.node.server.port, *begin, ("GET", "/v1/search?q=any"))
    gc.collect()
    before = alive()
    for _ in range(ROUNDS):
        await send(server.node.server.port, *requests)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while any(now > before[kind] + LAST_MAX for kind, now in alive().items()):
            await asyncio.sleep(0.05)
