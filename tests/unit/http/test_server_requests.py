"""What the server makes of requests, in whatever portions they come."""

import asyncio
import email.utils
import time

import pytest

from durable_sessions.http.carrier.message import Request, Response

from .conftest import Serve
from .raw import HOST, Peer, chunked, get, post

pytestmark = pytest.mark.anyio


async def test_a_request_is_answered_with_the_common_headers(serve: Serve) -> None:
    server = await serve()
    async with await Peer.connect(server.port) as peer:
        reply = await peer.ask(post(b"hello", b"/a/b%20c?x=1&y=2"))
    assert (reply.status, reply.body) == (200, b"POST /a/b%20c ? x=1&y=2\nhello")
    assert reply.headers[b"content-type"] == b"text/plain"
    assert reply.headers[b"x-content-type-options"] == b"nosniff"
    assert reply.headers[b"cross-origin-resource-policy"] == b"same-origin"
    assert reply.headers[b"content-security-policy"] == b"default-src 'none'; sandbox"
    assert b"access-control-allow-origin" not in reply.headers
    date = email.utils.parsedate_to_datetime(reply.headers[b"date"].decode())
    assert abs(date.timestamp() - time.time()) < 3
    assert b"connection" not in reply.headers


async def test_a_connection_is_used_again(serve: Serve) -> None:
    server = await serve()
    async with await Peer.connect(server.port) as peer:
        for number in range(5):
            assert (await peer.ask(post(b"%d" % number))).body == b"POST / ? \n%d" % number
    assert server.connections_total == 1
    assert server.requests_by_class()["2xx"] == 5
    assert server.bytes_in > 5 * len(post(b"0")) - 10
    assert server.bytes_out > 500


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (post(b"hello", b"/a?b=c", b"X-Empty:", b"Content-Type: text/plain"), b"POST /a ? b=c\nhello"),
        (
            b"PUT /x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"abc", b"defg"),
            b"PUT /x ? \nabcdefg",
        ),
        (
            b"PUT /x HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: Chunked\r\n\r\n"
            b"3;name=value\r\nabc\r\n000\r\nTrailer: 1\r\nTrailer: 2\r\nHost: evil\r\n\r\n",
            b"PUT /x ? \nabc",
        ),
        (b"\r\n\r\n" + get(b"/after-blank-lines"), b"GET /after-blank-lines ? \n"),
        (get(b"http://example:80/a?b"), b"GET /a ? b\n"),
        (get(b"http://example"), b"GET / ? \n"),
        (get(b"http://example?q"), b"GET / ? q\n"),
        (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", b"OPTIONS * ? \n"),
        (b"DELETE /d HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", b"DELETE /d ? \n"),
        (
            post(
                b"abc", b"/u", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AA"
            ),
            b"POST /u ? \nabc",
        ),
        (get(b"/u", b"Connection: upgrade", b"Upgrade: websocket"), b"GET /u ? \n"),
    ],
)
async def test_portions_do_not_matter(serve: Serve, request_bytes: bytes, expected: bytes) -> None:
    server = await serve()
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(request_bytes)).body == expected
        await peer.send_bytewise(request_bytes)
        assert (await peer.reply()).body == expected
        for middle in range(1, len(request_bytes), 7):
            await peer.send(request_bytes[:middle])
            await asyncio.sleep(0)
            assert (await peer.ask(request_bytes[middle:] + get(b"/next"))).body == expected
            assert (await peer.reply()).body == b"GET /next ? \n"


async def test_header_names_are_lower_case_and_repeated_values_joined(serve: Serve) -> None:
    seen: list[Request] = []

    def handler(request: Request) -> Response:
        seen.append(request)
        return Response(204, [])

    server = await serve(handler)
    lines = (b"ACCEPT: a", b"X-Any:  b \t", b"accept: c ", b"Accept: d")
    async with await Peer.connect(server.port) as peer:
        await peer.ask(get(b"/", *lines))
        await peer.ask(get(b"/", b"Accept: e"))
    assert seen[0].headers == {b"host": b"localhost", b"accept": b"a, c, d", b"x-any": b"b"}
    assert seen[1].headers == {b"host": b"localhost", b"accept": b"e"}


async def test_trailers_are_not_headers(serve: Serve) -> None:
    seen: list[Request] = []

    def handler(request: Request) -> Response:
        seen.append(request)
        return Response(204, [])

    server = await serve(handler)
    head = b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    async with await Peer.connect(server.port) as peer:
        await peer.send(head + b"1\r\na\r\n0\r\nAuthorization: evil\r\n\r\n" + get(b"/next"))
        await peer.reply()
        await peer.reply()
    assert seen[0].headers == {b"host": b"localhost", b"transfer-encoding": b"chunked"}
    assert seen[1].headers == {b"host": b"localhost"}


async def test_an_old_client_gets_its_answer_and_the_end(serve: Serve) -> None:
    server = await serve()
    async with await Peer.connect(server.port) as peer:
        reply = await peer.ask(b"GET /old HTTP/1.0\r\n\r\n")
        assert (reply.body, reply.headers[b"connection"]) == (b"GET /old ? \n", b"close")
        assert await peer.rest() == b""


async def test_an_old_client_can_keep_the_connection(serve: Serve) -> None:
    server = await serve()
    async with await Peer.connect(server.port) as peer:
        for _ in range(2):
            reply = await peer.ask(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
            assert reply.headers[b"connection"] == b"keep-alive"


@pytest.mark.parametrize("connection", [b"close", b"Close", b"keep-alive, close"])
async def test_the_client_ends_the_connection(serve: Serve, connection: bytes) -> None:
    server = await serve()
    async with await Peer.connect(server.port) as peer:
        reply = await peer.ask(get(b"/1", b"Connection: " + connection) + get(b"/never"))
        assert (reply.body, reply.headers[b"connection"]) == (b"GET /1 ? \n", b"close")
        assert await peer.rest() == b""


async def test_a_declined_upgrade_may_be_the_last_request(serve: Serve) -> None:
    server = await serve()
    async with await Peer.connect(server.port) as peer:
        reply = await peer.ask(get(b"/u", b"Connection: Upgrade, close", b"Upgrade: h2c"))
        assert (reply.body, reply.headers[b"connection"]) == (b"GET /u ? \n", b"close")
        assert await peer.rest() == b""


async def test_a_kept_connection_says_nothing_about_it(serve: Serve) -> None:
    server = await serve()
    async with await Peer.connect(server.port) as peer:
        for _ in range(2):
            reply = await peer.ask(get(b"/", b"Connection: keep-alive"))
            assert b"connection" not in reply.headers


async def test_head_has_the_length_and_no_body(serve: Serve) -> None:
    server = await serve()
    async with await Peer.connect(server.port) as peer:
        await peer.send(b"HEAD /h HTTP/1.1\r\n" + HOST + b"\r\n" + get(b"/next"))
        reply = await peer.reply(to_head=True)
        assert reply.headers[b"content-length"] == b"%d" % len(b"HEAD /h ? \n")
        assert (await peer.reply()).body == b"GET /next ? \n"


async def test_the_application_may_tell_the_length_for_head(serve: Serve) -> None:
    server = await serve(lambda _: Response(200, [(b"content-LENGTH", b"12345")]))
    async with await Peer.connect(server.port) as peer:
        reply = await peer.ask(b"HEAD / HTTP/1.1\r\n" + HOST + b"\r\n", to_head=True)
    assert reply.headers[b"content-length"] == b"12345"


@pytest.mark.parametrize("status", [204, 304])
async def test_some_statuses_have_neither_body_nor_length(serve: Serve, status: int) -> None:
    server = await serve(lambda _: Response(status, [(b"ETag", b'"1"')], b"ignored"))
    async with await Peer.connect(server.port) as peer:
        for _ in range(2):
            reply = await peer.ask(get())
            assert reply.status == status
            assert reply.headers[b"etag"] == b'"1"'
            assert b"content-length" not in reply.headers
            assert b"transfer-encoding" not in reply.headers


async def test_an_unusual_status_is_sent_as_it_is(serve: Serve) -> None:
    server = await serve(lambda _: Response(299, []))
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(get())).status == 299


async def test_a_wanted_body_is_asked_for(serve: Serve) -> None:
    server = await serve()
    request = post(b"hello", b"/", b"Expect: 100-Continue")
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(request[:-5])).status == 100
        assert (await peer.ask(request[-5:])).body == b"POST / ? \nhello"
        request = post(b"", b"/", b"Expect: 100-continue")
        assert (await peer.ask(request)).status == 200


async def test_an_unwanted_body_is_not_asked_for(serve: Serve) -> None:
    server = await serve(append_body_bytes_max=4)
    async with await Peer.connect(server.port) as peer:
        reply = await peer.ask(post(b"hello", b"/", b"Expect: 100-continue")[:-5])
        assert reply.status == 413
        assert await peer.rest() == b""


async def test_asking_for_a_body_waits_for_its_turn(serve: Serve) -> None:
    turn = asyncio.Event()

    async def handler(request: Request) -> Response:
        if request.path == b"/slow":
            await turn.wait()
        return Response(200, [], request.path + request.body)

    server = await serve(handler)
    async with await Peer.connect(server.port) as peer:
        await peer.send(get(b"/slow") + post(b"hello", b"/", b"Expect: 100-continue")[:-5])
        assert await peer.silent()
        turn.set()
        assert (await peer.reply()).body == b"/slow"
        assert (await peer.reply()).status == 100
        assert (await peer.ask(b"hello")).body == b"/hello"


async def test_pipelined_requests_are_answered_in_order(serve: Serve) -> None:
    turn = asyncio.Event()
    order: list[bytes] = []

    async def slow(request: Request) -> Response:
        await turn.wait()
        order.append(request.path)
        return Response(200, [], request.path)

    def handler(request: Request) -> object:
        if request.path == b"/0":
            return slow(request)
        order.append(request.path)
        return Response(200, [], request.path)

    server = await serve(handler)
    async with await Peer.connect(server.port) as peer:
        await peer.send(b"".join(get(b"/%d" % number) for number in range(9)))
        assert await peer.silent()
        assert order == []
        turn.set()
        for number in range(9):
            assert (await peer.reply()).body == b"/%d" % number
    assert order == [b"/%d" % number for number in range(9)]


@pytest.mark.parametrize("at_once", [True, False])
async def test_reading_ahead_is_bounded(serve: Serve, at_once: bool) -> None:
    turn = asyncio.Event()

    async def handler(request: Request) -> Response:
        await turn.wait()
        return Response(200, [], request.body[:10])

    server = await serve(handler, pipeline_requests_max=4)
    count = 3000
    everything = [post(b"%010d" % number + b"x" * 1000) for number in range(count)]
    async with await Peer.connect(server.port) as peer:
        if at_once:
            sending = asyncio.create_task(peer.send(b"".join(everything)))
        else:
            sending = asyncio.create_task(_send_each(peer, everything))
        await asyncio.sleep(0.2)
        # What the kernel buffers for the sender is not ours; what is parsed must stay small.
        assert server.bytes_in < 1024 * 1024
        turn.set()
        for number in range(count):
            assert (await peer.reply()).body == b"%010d" % number
        await sending


async def _send_each(peer: Peer, requests: list[bytes]) -> None:
    for request in requests:
        await peer.send(request)


async def test_large_bodies_are_not_read_ahead(serve: Serve) -> None:
    turn = asyncio.Event()

    async def handler(request: Request) -> Response:
        await turn.wait()
        return Response(200, [], b"%d" % len(request.body))

    server = await serve(handler)
    size = 1024 * 1024
    async with await Peer.connect(server.port) as peer:
        sending = asyncio.create_task(peer.send(post(b"x" * size) * 12))
        await asyncio.sleep(0.2)
        assert server.bytes_in < 4 * size
        turn.set()
        for _ in range(12):
            assert (await peer.reply()).body == b"%d" % size
        await sending
