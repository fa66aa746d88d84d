"""What one key may hold of memory and connections, so that others are served."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import replace

import pytest

from durable_sessions.errors import UnauthenticatedError
from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import KEYLESS, Admitted, Request, Response
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.http.carrier.unread_answers import UnreadAnswers
from durable_sessions.limits import DEFAULT_LIMITS
from tests.support.waiting import PATIENCE_SECONDS

from .conftest import echo
from .raw import HOST, Peer, get, post

pytestmark = pytest.mark.anyio

LIMITS = replace(
    DEFAULT_LIMITS,
    append_body_bytes_max=60_000,
    request_bytes_max=100_000,
    connections_max=8,
    refused_connections_max=1,
    short_head_bytes_max=4_096,
    incomplete_head_bytes_max=20_000,
)


class Doorman:
    """Lets everybody in who shows a key; the key is the holder."""

    keys_required = True

    def holder(self, request: Request) -> str:
        return request.headers.get(b"x-api-key", b"").decode() or KEYLESS

    def admit(self, request: Request) -> Admitted:
        holder = self.holder(request)
        if holder == KEYLESS:
            raise UnauthenticatedError(problem="Who is there?")
        return Admitted(holder, LIMITS.append_body_bytes_max)


def handle(request: Request) -> Response:
    return echo(request) if b"x-api-key" in request.headers else Response(401, [])


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    running = HttpServer(handle, LIMITS, admission=Doorman(), answer_format=ANSWER_FORMAT)
    await running.start("127.0.0.1", 0)
    yield running
    await running.shutdown(0)
    assert running.request_bytes == 0


def key(name: bytes) -> bytes:
    return b"X-Api-Key: " + name


async def holding(server: HttpServer, size: int) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while server.request_bytes != size:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("more", [b"", b"Expect: 100-continue\r\n"])
async def test_who_shows_no_key_is_refused_before_the_body(server: HttpServer, more: bytes) -> None:
    async with await Peer.connect(server.port) as peer:
        reply = await peer.ask(b"POST / HTTP/1.1\r\n%b%bContent-Length: 50000\r\n\r\n" % (HOST, more))
        assert (reply.status, reply.headers[b"connection"]) == (401, b"close")
        assert server.request_bytes == 0


async def test_nothing_is_kept_of_a_body_without_a_key(server: HttpServer) -> None:
    for _ in range(4):
        async with await Peer.connect(server.port) as peer:
            reply = await peer.ask(post(b"x" * 50_000)[:-1])
            assert reply.status == 401
    assert server.request_bytes == 0


async def test_who_shows_a_key_is_asked_to_go_on(server: HttpServer) -> None:
    async with await Peer.connect(server.port) as peer:
        lines = HOST + key(b"a") + b"\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\n"
        await peer.send(b"POST / HTTP/1.1\r\n" + lines)
        assert await peer.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await peer.ask(b"abc")).status == 200


async def test_a_key_gets_half_and_another_is_served_meanwhile(server: HttpServer) -> None:
    part = post(b"x" * 25_001, b"/", key(b"greedy"))[:-1]
    async with await Peer.connect(server.port) as one, await Peer.connect(server.port) as two:
        await one.send(part)
        await two.send(part)
        await holding(server, 50_000)
        async with await Peer.connect(server.port) as three:
            refused = await three.ask(post(b"x" * 10_000, b"/", key(b"greedy"))[:-1])
            assert (refused.status, refused.headers[b"retry-after"]) == (429, b"1")
            assert b"share_exceeded" in refused.body
            assert b"request_bytes_max" in refused.body
        async with await Peer.connect(server.port) as other:
            await other.send(post(b"y" * 25_000, b"/", key(b"modest"))[:-1])
            await holding(server, 50_000 + 24_999)
            assert (await other.ask(b"y")).status == 200
        assert (await one.ask(b"x")).status == 200
        assert (await two.ask(b"x")).status == 200


async def test_a_key_may_have_half_of_the_connections(server: HttpServer) -> None:
    async with AsyncExitStack() as stack:
        peers = [await stack.enter_async_context(await Peer.connect(server.port)) for _ in range(5)]
        for peer in peers[:4]:
            assert (await peer.ask(get(b"/", key(b"greedy")))).status == 200
        refused = await peers[4].ask(get(b"/", key(b"greedy")))
        assert (refused.status, refused.headers[b"retry-after"]) == (429, b"1")
        assert b"connections_max" in refused.body
        async with await Peer.connect(server.port) as other:
            assert (await other.ask(get(b"/", key(b"modest")))).status == 200
        assert (await peers[0].ask(get(b"/", key(b"greedy")))).status == 200
        await peers[1].close()
        async with asyncio.timeout(PATIENCE_SECONDS):
            while server.open_connections > 3:
                await asyncio.sleep(0.005)
        async with await Peer.connect(server.port) as again:
            assert (await again.ask(get(b"/", key(b"greedy")))).status == 200


async def test_connections_without_a_key_make_room_for_others(server: HttpServer) -> None:
    async with AsyncExitStack() as stack:
        idle = [await stack.enter_async_context(await Peer.connect(server.port)) for _ in range(8)]
        assert (await idle[0].ask(get(b"/", key(b"known")))).status == 200
        assert (await idle[1].ask(get())).status == 401
        for _ in range(3):
            other = await stack.enter_async_context(await Peer.connect(server.port))
            assert (await other.ask(get(b"/", key(b"modest")))).status == 200
        assert server.open_connections == 8
        assert (await idle[0].ask(get(b"/", key(b"known")))).status == 200, "who has shown a key stays"


async def test_long_heads_do_not_keep_short_ones_out(server: HttpServer) -> None:
    head = b"GET / HTTP/1.1\r\n" + HOST + key(b"a") + b"\r\nX: "
    async with await Peer.connect(server.port) as one, await Peer.connect(server.port) as two:
        await one.send(head + b"v" * 15_000)
        await holding(server, len(head) + 15_000)
        refused = await two.ask(head + b"v" * 15_000)
        assert refused.status == 503
        async with await Peer.connect(server.port) as three:
            await three.send(head[:20])
            assert (await three.ask(head[20:] + b"v" * 3_000 + b"\r\n\r\n")).status == 200
        assert (await one.ask(b"\r\n\r\n")).status == 200


def test_slow_readers_of_one_key_do_not_cost_another_its_own() -> None:
    untaken: UnreadAnswers[str] = UnreadAnswers(100)
    assert untaken.add("modest", "b", bytes(20)) == []
    for number in range(4):
        assert untaken.add(f"greedy {number}", "a", bytes(19) + b"%d" % number) == []
    assert untaken.add("greedy 4", "a", bytes(20)) == ["greedy 0"], "of the key that holds most, the oldest"
    untaken.remove("modest")
    assert untaken.bytes_held == 80
