"""The end of the server: what is under way is finished, what is new is refused."""

import asyncio
import json
import time

import pytest

from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import Request, Response, StreamingResponse
from durable_sessions.http.carrier.server import HttpServer
from tests.support.waiting import PATIENCE_SECONDS

from .conftest import Serve
from .raw import Peer, get, post
from .test_server_streams import Stream

pytestmark = pytest.mark.anyio


async def test_idle_connections_end_at_once(serve: Serve) -> None:
    server = await serve()
    async with await Peer.connect(server.port) as fresh, await Peer.connect(server.port) as used:
        await used.ask(get())
        await asyncio.wait_for(server.shutdown(3600), PATIENCE_SECONDS)
        assert await fresh.rest() == b""
        assert await used.rest() == b""
    with pytest.raises(OSError):  # noqa: PT011
        await Peer.connect(server.port)


async def test_what_is_under_way_is_finished(serve: Serve) -> None:
    turn = asyncio.Event()

    async def handler(request: Request) -> Response:
        await turn.wait()
        return Response(200, [], b"done")

    server = await serve(handler)
    async with await Peer.connect(server.port) as running, await Peer.connect(server.port) as sending:
        await running.send(get() + get(b"/never"))
        await sending.send(post(b"hello")[:-2])
        await asyncio.sleep(0.02)
        ending = asyncio.create_task(server.shutdown(10))
        await asyncio.sleep(0.02)
        assert server.draining
        await sending.send(b"lo")
        await asyncio.sleep(0.02)
        turn.set()
        for peer in (running, sending):
            reply = await peer.reply()
            assert (reply.body, reply.headers[b"connection"]) == (b"done", b"close")
            assert await peer.rest() == b""
    await asyncio.wait_for(ending, PATIENCE_SECONDS)


async def test_what_is_new_is_refused(serve: Serve) -> None:
    server = await serve()
    async with await Peer.connect(server.port) as peer:
        await peer.send(b"GET / HTTP/1.1\r\n")
        await asyncio.sleep(0.02)
        ending = asyncio.create_task(server.shutdown(10))
        await asyncio.sleep(0.02)
        reply = await peer.ask(b"Host: a\r\n\r\n")
        assert (reply.status, reply.headers[b"connection"]) == (503, b"close")
        assert reply.headers[b"retry-after"] == b"1"
        assert json.loads(reply.body)["error"]["code"] == "shutting_down"
        assert await peer.rest() == b""
    await asyncio.wait_for(ending, PATIENCE_SECONDS)


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("more", [get(b"/never"), b"GET / HT", b"nonsense", get(b"/never") * 500])
async def test_what_comes_after_the_last_request_is_not_looked_at(
    serve: Serve, later: bool, more: bytes
) -> None:
    async def answer_later(request: Request) -> Response:
        await asyncio.sleep(0)
        return Response(200, [], b"done")

    server = await serve(answer_later if later else lambda _: Response(200, [], b"done"))
    async with await Peer.connect(server.port) as peer:
        await peer.send(post(b"hello")[:-2])
        await asyncio.sleep(0.02)
        ending = asyncio.create_task(server.shutdown(10))
        await asyncio.sleep(0.02)
        reply = await peer.ask(b"lo" + more)
        assert (reply.body, reply.headers[b"connection"]) == (b"done", b"close")
        assert await peer.rest() == b""
    await asyncio.wait_for(ending, PATIENCE_SECONDS)


async def test_a_stream_is_told_and_ends(serve: Serve) -> None:
    stream = Stream()
    server = await serve(stream.handler)
    server.on_shutdown.append(lambda: stream.pieces.put_nowait(b"bye"))
    server.on_shutdown.append(lambda: stream.pieces.put_nowait(None))
    async with await Peer.connect(server.port) as peer:
        await peer.send(get())
        await peer.head()
        await asyncio.wait_for(server.shutdown(3600), PATIENCE_SECONDS)
        assert await peer.chunk() == b"bye"
        assert await peer.chunk() == b""
        assert await peer.rest() == b""


async def test_a_stream_that_begins_late_is_the_last_answer(serve: Serve) -> None:
    turn = asyncio.Event()
    stream = Stream()
    stream.pieces.put_nowait(None)

    async def handler(request: Request) -> StreamingResponse:
        await turn.wait()
        return stream.handler(request)

    server = await serve(handler)
    async with await Peer.connect(server.port) as peer:
        await peer.send(get())
        await asyncio.sleep(0.02)
        ending = asyncio.create_task(server.shutdown(10))
        await asyncio.sleep(0.02)
        turn.set()
        assert (await peer.reply()).headers[b"connection"] == b"close"
        assert await peer.rest() == b""
        await ending


async def test_what_outlasts_the_grace_is_cut_and_cleaned_up(serve: Serve) -> None:
    stream = Stream()
    cleaned_up = False

    async def forever(request: Request) -> Response:
        nonlocal cleaned_up
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            cleaned_up = True
        return Response(204, [])

    server = await serve(
        lambda request: forever(request) if request.path == b"/" else stream.handler(request)
    )
    async with await Peer.connect(server.port) as one, await Peer.connect(server.port) as two:
        await one.send(get())
        await two.send(get(b"/stream"))
        await two.head()
        started = time.monotonic()
        await server.shutdown(0.2)
        assert time.monotonic() - started >= 0.2
        assert cleaned_up
        assert stream.closed.is_set()
        assert server.open_connections == 0


async def test_refused_peers_do_not_outlast_the_grace(serve: Serve) -> None:
    server = await serve()
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(b"nonsense\r\n\r\n")).status == 400
        await asyncio.wait_for(server.shutdown(0.1), PATIENCE_SECONDS)


async def test_a_server_that_never_started_can_be_shut_down() -> None:
    server = HttpServer(lambda _: Response(204, []), answer_format=ANSWER_FORMAT)
    assert list(server.sockets) == []
    await server.shutdown(1)


async def test_the_sockets_are_known(serve: Serve) -> None:
    server = await serve()
    assert [sock.getsockname()[1] for sock in server.sockets] == [server.port]
