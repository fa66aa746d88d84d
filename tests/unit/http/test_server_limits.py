"""Every limit at its edge, and input that is no request at all."""

import asyncio
import json
import time

import pytest

from durable_sessions.http.carrier.message import Request, Response
from tests.support.waiting import PATIENCE_SECONDS, until

from .conftest import Serve
from .raw import HOST, Peer, Reply, chunked, get, post

pytestmark = pytest.mark.anyio


def code(reply: Reply) -> str:
    assert reply.headers[b"content-type"] == b"application/json"
    assert reply.headers[b"cache-control"] == b"no-store"
    assert reply.headers[b"x-content-type-options"] == b"nosniff"
    assert reply.headers[b"connection"] == b"close"
    assert b"date" in reply.headers
    error = json.loads(reply.body)["error"]
    assert error["message"]
    return str(error["code"])


async def refused(port: int, request: bytes, status: int, expected: str, *, bytewise: bool = False) -> Reply:
    """Expect ``request`` to be answered with this error and the end of the connection."""
    async with await Peer.connect(port) as peer:
        await (peer.send_bytewise(request) if bytewise else peer.send(request))
        reply = await peer.reply()
        assert (reply.status, code(reply)) == (status, expected)
        assert await peer.rest() == b""
        return reply


@pytest.mark.parametrize("bytewise", [False, True])
async def test_target(serve: Serve, bytewise: bool) -> None:
    server = await serve(target_bytes_max=100)
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(get(b"/" + b"a" * 99))).status == 200
        assert (await peer.ask(get(b"/?" + b"a" * 98))).status == 200
    await refused(server.port, get(b"/" + b"a" * 100), 414, "target_too_long", bytewise=bytewise)


async def test_target_that_never_ends(serve: Serve) -> None:
    server = await serve()
    await refused(server.port, b"GET /" + b"a" * 17_000, 414, "target_too_long")


async def test_default_target_and_headers(serve: Serve) -> None:
    server = await serve()
    largest = get(b"/" + b"t" * (16 * 1024 - 1), b"X: " + b"v" * (64 * 1024 - len("HostlocalhostX")))
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(largest)).status == 200
        for start in range(0, len(largest), 1000):
            await peer.send(largest[start : start + 1000])
            await asyncio.sleep(0)
        assert (await peer.reply()).status == 200
    await refused(server.port, largest.replace(b"X: ", b"X: v"), 431, "headers_too_large")


@pytest.mark.parametrize("bytewise", [False, True])
async def test_header_bytes(serve: Serve, bytewise: bool) -> None:
    server = await serve(header_bytes_max=200)
    room = 200 - len("Host" + "localhost" + "X-Filler")
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(get(b"/", b"X-Filler: " + b"a" * room))).status == 200
    too_much = get(b"/", b"X-Filler: " + b"a" * (room + 1))
    await refused(server.port, too_much, 431, "headers_too_large", bytewise=bytewise)


async def test_repeated_headers_count_too(serve: Serve) -> None:
    server = await serve(header_bytes_max=200)
    room = 200 - len("Host" + "localhost" + "XXaa")
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(get(b"/", b"X: a", b"X: a" + b"b" * room))).status == 200
    await refused(server.port, get(b"/", b"X: a", b"X: a" + b"b" * (room + 1)), 431, "headers_too_large")


@pytest.mark.parametrize("name", [b"X-%d", b"X"])
async def test_header_count(serve: Serve, name: bytes) -> None:
    server = await serve(header_count_max=10)
    lines = [(name % number if b"%" in name else name) + b": 1" for number in range(10)]
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(get(b"/", *lines[:9]))).status == 200
        assert (await peer.ask(get(b"/", *lines[:9]))).status == 200
    await refused(server.port, get(b"/", *lines), 431, "headers_too_large")


async def test_a_header_line_that_never_ends(serve: Serve) -> None:
    server = await serve()
    await refused(server.port, b"GET / HTTP/1.1\r\nX" + b"x" * 100_000, 431, "headers_too_large")
    await refused(server.port, b"GET / HTTP/1.1\r\nX: " + b"x" * 100_000, 431, "headers_too_large")


async def test_body_with_length(serve: Serve) -> None:
    server = await serve(append_body_bytes_max=10_000)
    async with await Peer.connect(server.port) as peer:
        assert len((await peer.ask(post(b"x" * 10_000))).body) > 10_000
    await refused(server.port, post(b"x" * 10_001)[:-10_001], 413, "body_too_large")


@pytest.mark.parametrize("size", [1, 100, 5000])
async def test_chunked_body(serve: Serve, size: int) -> None:
    server = await serve(append_body_bytes_max=10_000)
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    pieces = [b"x" * size] * (10_000 // size)
    async with await Peer.connect(server.port) as peer:
        for _ in range(2):
            assert (await peer.ask(head + chunked(*pieces))).body == b"POST / ? \n" + b"x" * 10_000
    await refused(server.port, head + chunked(*pieces, b"x"), 413, "body_too_large")
    await refused(server.port, head + chunked(*pieces, b"x")[:-5], 413, "body_too_large")


@pytest.mark.parametrize("size", [1, 5])
async def test_small_chunked_body(serve: Serve, size: int) -> None:
    server = await serve(append_body_bytes_max=10)
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(head + chunked(*[b"x" * size] * (10 // size)))).status == 200
        assert (await peer.ask(head + chunked(b"x" * 10))).status == 200
    await refused(server.port, head + chunked(b"x" * 11), 413, "body_too_large")
    await refused(server.port, head + chunked(b"x" * 10, b"x"), 413, "body_too_large")


async def test_the_largest_body_by_default(serve: Serve) -> None:
    server = await serve(lambda request: Response(200, [], b"%d" % len(request.body)))
    size = 8 * 1024 * 1024
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(post(b"x" * size))).body == b"%d" % size


@pytest.mark.parametrize("is_chunked", [True, False])
async def test_a_refusal_reaches_a_peer_that_sends_on(serve: Serve, is_chunked: bool) -> None:
    server = await serve(append_body_bytes_max=1000)
    body = b"x" * 20_000_000
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    request = head + chunked(body) if is_chunked else post(body)
    async with await Peer.connect(server.port) as peer:
        await peer.send(request)  # all of it, before it looks for an answer
        reply = await peer.reply()
        assert (reply.status, code(reply)) == (413, "body_too_large")


async def test_a_peer_that_sends_on_is_not_listened_to_for_long(serve: Serve) -> None:
    server = await serve(append_body_bytes_max=1000)
    async with await Peer.connect(server.port) as peer:
        await peer.send(post(b"x" * 2000)[:-1000])
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(trickle(peer), PATIENCE_SECONDS)


async def test_a_peer_that_sends_a_lot_is_cut_sooner(serve: Serve) -> None:
    server = await serve(append_body_bytes_max=1000, linger_bytes_max=100_000)
    async with await Peer.connect(server.port) as peer:
        with pytest.raises(ConnectionError):
            await asyncio.wait_for(peer.send(post(b"x" * 50_000_000)), PATIENCE_SECONDS)


async def trickle(peer: Peer) -> None:
    for _ in range(100):
        await peer.send(b"x")
        await asyncio.sleep(0.1)


async def test_bodies_of_all_connections_together(serve: Serve) -> None:
    server = await serve(request_bytes_max=149_997)
    parts = post(b"x" * 50_000)[:-1]
    async with await Peer.connect(server.port) as one, await Peer.connect(server.port) as two:
        await one.send(parts)
        await two.send(parts)
        while server.request_bytes < 99_998:
            await asyncio.sleep(0.01)
        assert server.request_bytes == 99_998, "two hold a third each, and a third is left for others"
        reply = await refused(server.port, post(b"x" * 50_000)[:-1], 503, "overloaded")
        assert reply.headers[b"retry-after"] == b"1"
        assert (await one.ask(b"x")).status == 200
        assert (await two.ask(b"x")).status == 200


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\nHost: a\n\n",
        b"GET / HTTP/1.2\r\n" + HOST + b"\r\n",
        b"GET / HTTP/2.0\r\n" + HOST + b"\r\n",
        b"GET /\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /\x01 HTTP/1.1\r\n" + HOST + b"\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n",
        b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n folded\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + HOST + b"X: \x00\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999999\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_no_request(serve: Serve, garbage: bytes) -> None:
    server = await serve()
    await refused(server.port, garbage, 400, "malformed_request")
    async with await Peer.connect(server.port) as peer:
        await peer.send(get(b"/good") + garbage)
        assert (await peer.reply()).body == b"GET /good ? \n"
        assert code(await peer.reply()) == "malformed_request"
        assert await peer.rest() == b""


@pytest.mark.parametrize("method", [b"BREW", b"get", b"GETS", b"M-X!", b"CONNECT"])
@pytest.mark.parametrize("bytewise", [False, True])
async def test_unknown_method(serve: Serve, method: bytes, bytewise: bool) -> None:
    server = await serve()
    request = method + b" /x HTTP/1.1\r\n" + HOST + b"\r\n"
    if method == b"CONNECT":
        request = request.replace(b"/x", b"x:80")
        await refused(server.port, request.replace(b"1.1", b"1.0"), 405, "method_not_allowed")
    reply = await refused(server.port, request, 405, "method_not_allowed", bytewise=bytewise)
    assert reply.headers[b"allow"] == b"GET, HEAD, POST, PUT, DELETE, OPTIONS"


async def test_a_refused_head_request_has_no_body(serve: Serve) -> None:
    server = await serve(target_bytes_max=10)
    async with await Peer.connect(server.port) as peer:
        await peer.send(b"HEAD /" + b"x" * 20 + b" HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (await peer.reply(to_head=True)).status == 414
        assert await peer.rest() == b""


async def test_a_refusal_waits_for_its_turn(serve: Serve) -> None:
    turn = asyncio.Event()

    async def handler(request: Request) -> Response:
        await turn.wait()
        return Response(200, [], b"slow")

    server = await serve(handler)
    async with await Peer.connect(server.port) as peer:
        await peer.send(get() + b"nonsense\r\n\r\n")
        await peer.send(get())
        assert await peer.silent()
        turn.set()
        assert (await peer.reply()).body == b"slow"
        assert (await peer.reply()).status == 400
        assert await peer.rest() == b""


async def test_a_refusal_behind_a_full_read_ahead(serve: Serve) -> None:
    turn = asyncio.Event()

    async def handler(request: Request) -> Response:
        await turn.wait()
        return Response(200, [], b"slow")

    server = await serve(handler, pipeline_requests_max=2)
    async with await Peer.connect(server.port) as peer:
        await peer.send(get() * 4 + b"nonsense\r\n\r\n")
        assert await peer.silent()
        turn.set()
        for _ in range(4):
            assert (await peer.reply()).body == b"slow"
        assert (await peer.reply()).status == 400
        assert await peer.rest() == b""


@pytest.mark.parametrize(
    "framing", [b"1;" + b"x" * 100_000, b"0\r\nX: " + b"x" * 100_000, b"1\r\nx\r\n0" + b"0" * 15]
)
async def test_chunk_framing_is_bounded(serve: Serve, framing: bytes) -> None:
    server = await serve()
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    async with await Peer.connect(server.port) as peer:
        await peer.send(head)
        await peer.send(framing)
        if len(framing) > 1000:
            assert code(await peer.reply()) == "headers_too_large"
        else:
            assert (await peer.ask(b"\r\n\r\n")).status == 200


@pytest.mark.parametrize("part", [b"G", b"GET / HT", b"GET / HTTP/1.1\r\nHost: a\r\n"])
async def test_half_a_head_times_out(serve: Serve, part: bytes) -> None:
    server = await serve(header_seconds_max=0.2)
    started = time.monotonic()
    reply = await refused(server.port, part, 408, "request_timeout")
    assert time.monotonic() - started >= 0.2
    assert b"0.2 seconds" in reply.body


@pytest.mark.parametrize("is_chunked", [True, False])
async def test_half_a_body_times_out(serve: Serve, is_chunked: bool) -> None:
    server = await serve(body_seconds_max=0.2, header_seconds_max=60.0)
    head = b"POST / HTTP/1.1\r\n" + HOST
    request = head + b"Transfer-Encoding: chunked\r\n\r\n5\r\nabc" if is_chunked else post(b"hello")[:-2]
    started = time.monotonic()
    await refused(server.port, request, 408, "request_timeout")
    assert time.monotonic() - started >= 0.2


async def test_a_trickle_does_not_prolong(serve: Serve) -> None:
    server = await serve(header_seconds_max=0.5)
    async with await Peer.connect(server.port) as peer:
        await peer.send(b"GET / HTTP/1.1\r\nX: ")
        async with asyncio.timeout(PATIENCE_SECONDS):  # and not for ever
            while await peer.silent(0.05):
                await peer.send(b"x")


async def test_an_idle_connection_is_closed_silently(serve: Serve) -> None:
    server = await serve(idle_seconds_max=0.3)
    async with await Peer.connect(server.port) as fresh, await Peer.connect(server.port) as used:
        started = time.monotonic()
        assert (await used.ask(get())).status == 200
        await used.send(b"\r\n")  # is no request
        assert await fresh.rest() == b""
        assert await used.rest() == b""
        assert time.monotonic() - started >= 0.3


async def test_a_used_connection_is_not_idle(serve: Serve) -> None:
    async def handler(request: Request) -> Response:
        await asyncio.sleep(float(request.query))
        return Response(204, [])

    server = await serve(handler, idle_seconds_max=2.0, header_seconds_max=2.0, body_seconds_max=2.0)
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(get(b"/?4"))).status == 204
        for _ in range(3):
            assert (await peer.ask(get(b"/?1"))).status == 204


async def test_connections(serve: Serve) -> None:
    server = await serve(connections_max=2)
    async with await Peer.connect(server.port) as one, await Peer.connect(server.port) as two:
        assert (await one.ask(get())).status == 200
        assert (await two.ask(get())).status == 200
        reply = await refused(server.port, get(), 503, "overloaded")
        assert reply.headers[b"retry-after"] == b"1"
        assert (await one.ask(get())).status == 200
    await until(lambda: server.open_connections == 0)
    async with await Peer.connect(server.port) as three:
        assert (await three.ask(get())).status == 200


async def test_connections_far_beyond_the_limit_are_cut(serve: Serve) -> None:
    server = await serve(connections_max=1, refused_connections_max=1)
    async with (
        await Peer.connect(server.port) as served,
        await Peer.connect(server.port) as refused_one,
        await Peer.connect(server.port) as cut,
    ):
        assert (await served.ask(get())).status == 200
        assert (await refused_one.reply()).status == 503
        assert await nothing(cut)


async def nothing(peer: Peer) -> bool:
    try:
        return await peer.rest() == b""
    except ConnectionError:
        return True
