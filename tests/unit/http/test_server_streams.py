"""Answers that take their time: awaited, streamed, unread, failed."""

import asyncio
import time
import tracemalloc
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from durable_sessions.http.carrier.message import Request, Response, StreamingResponse
from tests.support.waiting import PATIENCE_SECONDS, until

from .conftest import Serve
from .raw import HOST, Peer, get, post

pytestmark = pytest.mark.anyio


class Stream:
    """A streamed body that a test drives and looks at."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self.closed = asyncio.Event()
        self.taken = 0

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            while (piece := await self.pieces.get()) is not None:
                if isinstance(piece, Exception):
                    raise piece
                self.taken += 1
                yield piece
        finally:
            self.closed.set()

    def handler(self, request: Request) -> StreamingResponse:
        return StreamingResponse(200, [(b"Content-Type", b"text/event-stream")], self.chunks())


async def test_pieces_are_sent_as_they_come(serve: Serve) -> None:
    stream = Stream()
    server = await serve(stream.handler)
    async with await Peer.connect(server.port) as peer:
        await peer.send(get() + get())
        head = await peer.head()
        assert head.headers[b"transfer-encoding"] == b"chunked"
        assert b"content-length" not in head.headers
        for piece in (b"data: 1\n\n", b"data: 2\n\n", b"x" * 100_000):
            stream.pieces.put_nowait(b"")
            stream.pieces.put_nowait(piece)
            assert await peer.chunk() == piece
            assert await peer.silent(0.01)
        stream.pieces.put_nowait(None)
        assert await peer.chunk() == b""
        stream.pieces.put_nowait(b"again")
        stream.pieces.put_nowait(None)
        assert (await peer.reply()).body == b"again"


async def test_an_awaited_stream(serve: Serve) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"a"
        await asyncio.sleep(0)
        yield b"b"

    async def handler(request: Request) -> StreamingResponse:
        await asyncio.sleep(0)
        return StreamingResponse(200, [], chunks())

    server = await serve(handler)
    async with await Peer.connect(server.port) as peer:
        for _ in range(3):
            assert (await peer.ask(get())).body == b"ab"


async def test_an_old_client_gets_a_stream_up_to_the_end_of_the_connection(serve: Serve) -> None:
    stream = Stream()
    server = await serve(stream.handler)
    async with await Peer.connect(server.port) as peer:
        await peer.send(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
        head = await peer.head()
        assert b"transfer-encoding" not in head.headers
        assert head.headers[b"connection"] == b"close"
        stream.pieces.put_nowait(b"all")
        stream.pieces.put_nowait(None)
        assert await peer.rest() == b"all"


@pytest.mark.parametrize(("method", "status"), [(b"HEAD", 200), (b"GET", 204), (b"GET", 304)])
async def test_a_stream_without_a_body(serve: Serve, method: bytes, status: int) -> None:
    stream = Stream()
    server = await serve(lambda _: StreamingResponse(status, [], stream.chunks()))
    async with await Peer.connect(server.port) as peer:
        request = method + b" / HTTP/1.1\r\n" + HOST + b"\r\n"
        for _ in range(2):
            reply = await peer.ask(request, to_head=True)
            assert reply.status == status
            assert b"transfer-encoding" not in reply.headers
        assert await peer.silent(0.01)


async def test_an_iterator_without_clean_up(serve: Serve) -> None:
    class Numbers:
        def __init__(self) -> None:
            self.left = 3

        def __aiter__(self) -> AsyncIterator[bytes]:
            return self

        async def __anext__(self) -> bytes:
            if not self.left:
                raise StopAsyncIteration
            self.left -= 1
            return b"%d" % self.left

    server = await serve(lambda _: StreamingResponse(200, [], Numbers()))
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(get())).body == b"210"


async def test_a_stream_that_fails_is_cut_off(serve: Serve) -> None:
    stream = Stream()
    server = await serve(stream.handler)
    async with await Peer.connect(server.port) as peer:
        await peer.send(get())
        await peer.head()
        stream.pieces.put_nowait(b"good")
        assert await peer.chunk() == b"good"
        with capture_logs() as logs:
            stream.pieces.put_nowait(ValueError("broken"))
            with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
                await peer.chunk()
        assert logs[0]["event"] == "stream_failed"
        assert str(logs[0]["exc_info"]) == "broken"


async def test_a_clean_up_that_fails_is_logged(serve: Serve) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        try:
            yield b"never sent"
        finally:
            raise ValueError("stuck")

    async def handler(request: Request) -> StreamingResponse:
        started = chunks()
        await anext(started)
        return StreamingResponse(200, [], started)

    server = await serve(handler)
    async with await Peer.connect(server.port) as peer:
        with capture_logs() as logs:
            reply = await peer.ask(b"HEAD / HTTP/1.1\r\n" + HOST + b"\r\n", to_head=True)
            assert reply.status == 200
            assert await peer.silent(0.02)
        assert logs[0]["event"] == "stream_clean_up_failed"


async def test_a_slow_reader_is_waited_for_without_buffering(serve: Serve) -> None:
    stream = Stream()
    server = await serve(stream.handler)
    piece = b"x" * 50_000
    count = 400
    for _ in range(count):
        stream.pieces.put_nowait(piece)
    stream.pieces.put_nowait(None)
    tracemalloc.start()
    async with await Peer.connect(server.port, receive_buffer_bytes=4096) as peer:
        await peer.send(get())
        await peer.head()
        await asyncio.sleep(0.3)
        taken = stream.taken
        await asyncio.sleep(0.3)
        assert stream.taken == taken < count  # most of the rest sits in the kernel's buffers
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
        total = 0
        while chunk := await peer.chunk():
            total += len(chunk)
        assert total == count * len(piece)
    tracemalloc.stop()


async def test_a_reader_that_stops_is_cut(serve: Serve) -> None:
    stream = Stream()
    server = await serve(stream.handler, write_stall_seconds_max=0.4)
    for _ in range(400):
        stream.pieces.put_nowait(b"x" * 50_000)
    async with await Peer.connect(server.port, receive_buffer_bytes=4096) as peer:
        started = time.monotonic()
        await peer.send(get())
        await asyncio.wait_for(stream.closed.wait(), PATIENCE_SECONDS)
        assert time.monotonic() - started >= 0.4
        await until(lambda: server.open_connections == 0)


async def test_a_peer_that_leaves_a_whole_answer_unread_is_cut(serve: Serve) -> None:
    server = await serve(
        lambda _: Response(200, [], b"x" * 10_000_000), write_stall_seconds_max=0.4, idle_seconds_max=0.2
    )
    async with await Peer.connect(server.port, receive_buffer_bytes=4096) as peer:
        await peer.send(get() * 3)
        await asyncio.sleep(0.1)
        assert server.bytes_out < 11_000_000  # the second waits until the first has been read
        await until(lambda: server.open_connections == 0)


async def test_a_slow_but_steady_reader_is_not_cut(serve: Serve) -> None:
    server = await serve(lambda _: Response(200, [], b"x" * 6_000_000), write_stall_seconds_max=2.0)
    async with await Peer.connect(server.port, receive_buffer_bytes=4096) as peer:
        await peer.send(get())
        await peer.head()
        left = 6_000_000
        started = time.monotonic()
        while left:
            left -= len(await peer.reader.readexactly(min(left, 150_000)))
            await asyncio.sleep(0.08)
        assert time.monotonic() - started > 2.0


async def test_many_small_answers_unread(serve: Serve) -> None:
    server = await serve(lambda _: Response(200, [], b"x" * 50_000))
    async with await Peer.connect(server.port, receive_buffer_bytes=4096) as peer:
        sending = asyncio.create_task(peer.send(get() * 2000))
        await asyncio.sleep(0.3)
        assert server.bytes_out < 12_000_000
        for _ in range(2000):
            assert len((await peer.reply()).body) == 50_000
        await sending


@pytest.mark.parametrize("how", ["close", "reset"])
async def test_a_peer_that_leaves_ends_its_stream(serve: Serve, how: str) -> None:
    stream = Stream()
    server = await serve(stream.handler)
    peer = await Peer.connect(server.port)
    await peer.send(get())
    await peer.head()
    if how == "reset":
        peer.writer.transport.abort()
    else:
        await peer.close()
    await asyncio.wait_for(stream.closed.wait(), PATIENCE_SECONDS)
    await until(lambda: server.open_connections == 0)


async def test_a_peer_that_leaves_cancels_the_handler(serve: Serve) -> None:
    entered, cancelled = asyncio.Event(), asyncio.Event()

    async def handler(request: Request) -> Response:
        entered.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cancelled.set()
        return Response(204, [])

    server = await serve(handler)
    peer = await Peer.connect(server.port)
    await peer.send(get() + get())
    await asyncio.wait_for(entered.wait(), PATIENCE_SECONDS)
    await peer.close()
    await asyncio.wait_for(cancelled.wait(), PATIENCE_SECONDS)


async def test_a_peer_that_leaves_at_once(serve: Serve) -> None:
    """Nothing is left behind, not even a coroutine that was never awaited."""
    stream = Stream()

    async def wait(request: Request) -> Response:
        await asyncio.sleep(60)
        return Response(204, [])

    server = await serve(
        lambda request: wait(request) if request.path == b"/wait" else stream.handler(request)
    )
    for path in (b"/wait", b"/stream") * 20:
        peer = await Peer.connect(server.port)
        await peer.send(get(path))
        peer.writer.transport.abort()
    await until(lambda: server.open_connections == 0)


async def test_a_handler_that_answers_nobody(serve: Serve) -> None:
    """A handler may swallow its cancellation; its stream is closed all the same."""
    stream = Stream()
    entered, stubborn = asyncio.Event(), asyncio.Event()

    async def handler(request: Request) -> StreamingResponse:
        entered.set()
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            stubborn.set()
        chunks = stream.chunks()
        stream.pieces.put_nowait(b"x")
        await anext(chunks)
        return StreamingResponse(200, [], chunks)

    server = await serve(handler)
    peer = await Peer.connect(server.port)
    await peer.send(get())
    await asyncio.wait_for(entered.wait(), PATIENCE_SECONDS)
    await peer.close()
    await asyncio.wait_for(stubborn.wait(), PATIENCE_SECONDS)
    await asyncio.wait_for(stream.closed.wait(), PATIENCE_SECONDS)


async def test_futures_are_answered_without_a_task(serve: Serve) -> None:
    waiting: list[asyncio.Future[Response]] = []

    def handler(request: Request) -> asyncio.Future[Response]:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    server = await serve(handler)
    async with await Peer.connect(server.port) as peer:
        tasks = len(asyncio.all_tasks())
        await peer.send(post(b"1") + post(b"2"))
        await until(lambda: waiting)
        assert len(asyncio.all_tasks()) == tasks
        assert len(waiting) == 1
        waiting[0].set_result(Response(200, [], b"one"))
        assert (await peer.reply()).body == b"one"
        await until(lambda: len(waiting) == 2)
        with capture_logs() as logs:
            waiting[1].set_exception(ValueError("bad"))
            assert (await peer.reply()).status == 500
        assert logs[0]["event"] == "handler_failed"
        await peer.send(get())
        await until(lambda: len(waiting) == 3)
        with capture_logs():
            waiting[2].cancel()
            assert (await peer.reply()).status == 500
        await peer.send(get())
        await until(lambda: len(waiting) == 4)
    await until(waiting[3].cancelled)


async def test_a_future_may_bring_a_stream(serve: Serve) -> None:
    stream = Stream()

    def handler(request: Request) -> asyncio.Future[StreamingResponse]:
        future = asyncio.get_running_loop().create_future()
        future.set_result(stream.handler(request))
        return future

    server = await serve(handler)
    stream.pieces.put_nowait(b"x")
    stream.pieces.put_nowait(None)
    async with await Peer.connect(server.port) as peer:
        assert (await peer.ask(get())).body == b"x"


async def fail_later(request: Request) -> Response:
    await asyncio.sleep(0)
    raise ValueError("bad")


def fail_now(request: Request) -> Response:
    raise ValueError("bad")


def split_the_answer(request: Request) -> Response:
    return Response(200, [(b"Location", b"/a\r\nSet-Cookie: evil=1")])


def split_the_stream(request: Request) -> StreamingResponse:
    return StreamingResponse(200, [(b"Location", b"/a\nSet-Cookie: evil=1")], Stream().chunks())


async def give_up(request: Request) -> Response:
    raise asyncio.CancelledError


async def answer_nothing(request: Request) -> Response:
    return None  # type: ignore[return-value]


@pytest.mark.parametrize(
    "handler",
    [fail_now, fail_later, split_the_answer, split_the_stream, answer_nothing, give_up, lambda _: None],
)
async def test_a_handler_that_fails_is_answered_500(serve: Serve, handler: object) -> None:
    server = await serve(handler)
    async with await Peer.connect(server.port) as peer:
        for _ in range(2):
            with capture_logs() as logs:
                reply = await peer.ask(get())
            assert reply.status == 500
            assert b'"internal"' in reply.body
            assert b"set-cookie" not in reply.headers
            assert logs[0]["event"] == "handler_failed"
            assert logs[0]["exc_info"].__traceback__ is not None


async def test_a_stream_of_known_length_is_not_chunked(serve: Serve) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for piece in (b"one", b"", b"two"):
            yield piece

    def handler(request: Request) -> StreamingResponse:
        return StreamingResponse(200, [(b"Content-Length", b"6")], pieces())

    server = await serve(handler)
    async with await Peer.connect(server.port) as peer:
        for _ in range(2):
            reply = await peer.ask(get())
            assert b"transfer-encoding" not in reply.headers
            assert (reply.headers[b"content-length"], reply.body) == (b"6", b"onetwo")
