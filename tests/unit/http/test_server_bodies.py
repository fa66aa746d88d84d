"""Bodies that are larger than an append's: only where the application says so, and within a budget."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from durable_sessions.errors import UnauthenticatedError
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import Admitted, Request
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.limits import DEFAULT_LIMITS

from .conftest import echo
from .raw import HOST, Peer, chunked, post

pytestmark = pytest.mark.anyio

LIMITS = replace(
    DEFAULT_LIMITS,
    append_body_bytes_max=1_000,
    request_bytes_max=100_000,
    incomplete_artifact_bytes_max=300_000,
)


class Asked:
    """Notes what it is asked about; whoever sends a large body must show a key."""

    keys_required = False

    def __init__(self, asked: list[bytes]) -> None:
        self._asked = asked

    def holder(self, request: Request) -> None:
        return None

    def admit(self, request: Request) -> Admitted:
        self._asked.append(request.path)
        assert request.body == b""
        if b"key" not in request.headers and request.path == b"/large":
            raise UnauthenticatedError(problem="Who is there?")
        return Admitted(None, 150_000 if request.path == b"/large" else LIMITS.append_body_bytes_max)


@pytest.fixture
async def asked() -> list[bytes]:
    return []


@pytest.fixture
async def server(asked: list[bytes]) -> AsyncIterator[HttpServer]:
    running = HttpServer(echo, LIMITS, admission=Asked(asked), answer_format=ANSWER_FORMAT)
    await running.start("127.0.0.1", 0)
    yield running
    await running.shutdown(0)
    assert running.request_bytes == 0


def post_chunked(path: bytes, *pieces: bytes) -> bytes:
    head = b"POST %b HTTP/1.1\r\n%bKey: k\r\nTransfer-Encoding: chunked\r\n\r\n" % (path, HOST)
    return head + chunked(*pieces)


async def test_what_comes_in_one_piece_is_not_asked_about(server: HttpServer, asked: list[bytes]) -> None:
    async with await Peer.connect(server.port) as peer:
        for path in (b"/", b"/large"):
            assert (await peer.ask(post(b"x" * 1_000, path))).status == 200
    assert asked == []


async def test_a_large_body_where_it_is_allowed(server: HttpServer) -> None:
    async with await Peer.connect(server.port) as peer:
        for size in (1_001, 150_000):
            for request in (post(b"x" * size, b"/large", b"Key: k"), post_chunked(b"/large", b"x" * size)):
                reply = await peer.ask(request)
                assert (reply.status, len(reply.body)) == (200, len(b"POST /large ? \n") + size)
                small = await peer.ask(post(b"y" * 1_000))
                assert small.status == 200, "the connection goes on"
        assert (await peer.ask(post_chunked(b"/large"))).status == 200
        assert (await peer.ask(post(b"z" * 1_001))).status == 413, (
            "what was allowed there is not allowed here"
        )


@pytest.mark.parametrize("path", [b"/", b"/large"])
async def test_one_byte_more_than_allowed(server: HttpServer, path: bytes) -> None:
    size = 150_001 if path == b"/large" else 1_001
    code = b"artifact_too_large" if path == b"/large" else b"body_too_large"
    for request in (post(b"x" * size, path, b"Key: k"), post_chunked(path, b"x" * size)):
        async with await Peer.connect(server.port) as peer:
            reply = await peer.ask(request)
            assert (reply.status, code in reply.body) == (413, True)


async def test_a_stranger_is_refused_by_the_head(server: HttpServer) -> None:
    for line in (b"Content-Length: 100000", b"Transfer-Encoding: chunked"):
        async with await Peer.connect(server.port) as peer:
            reply = await peer.ask(b"POST /large HTTP/1.1\r\n%b%b\r\n\r\n" % (HOST, line))
            assert (reply.status, reply.headers[b"www-authenticate"]) == (401, b"Bearer")


async def test_large_bodies_do_not_use_up_what_small_ones_may_take(server: HttpServer) -> None:
    head = b"POST /large HTTP/1.1\r\n%bKey: k\r\nContent-Length: 150000\r\n\r\n" % HOST
    async with await Peer.connect(server.port) as first, await Peer.connect(server.port) as second:
        await first.send(head + b"x" * 140_000)
        while server.request_bytes < 140_000:
            await asyncio.sleep(0.01)
        async with await Peer.connect(server.port) as third:
            await third.send(b"POST / HTTP/1.1\r\n%bContent-Length: 900\r\n\r\n" % HOST + b"y" * 800)
            assert (await third.ask(b"y" * 100)).status == 200
        reply = await second.ask(head + b"x" * 140_000)
        assert reply.status == 503
        assert (await first.ask(b"x" * 10_000)).status == 200
