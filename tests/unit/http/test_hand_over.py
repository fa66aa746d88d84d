"""Connections that move from one server to another, and those that stay."""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable
from typing import Any

import pytest

from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import (
    Answer,
    HandOver,
    Later,
    Request,
    Response,
    StreamingResponse,
)
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.limits import DEFAULT_LIMITS
from tests.support.descriptors import open_sockets
from tests.support.waiting import PATIENCE_SECONDS, until

from .conftest import Serve
from .raw import Peer, get, post

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[True, False], ids=["uvloop", "asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


class Entrance:
    """The handler of a server that gives connections to an owner, or forwards their requests."""

    def __init__(self, owner: HttpServer) -> None:
        self.owner = owner
        self.takes: bool | None = True  # None: it fails
        self.gate: asyncio.Event | None = None
        self.given = 0
        self.forwarded = 0

    def __call__(self, request: Request) -> HandOver | Response:
        if request.path == b"/here":
            return Response(200, [], b"here")
        return HandOver(self.give, self.forward)

    async def give(self, descriptor: int, request: Request) -> bool:
        self.given += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.takes is None:
            raise ValueError
        if self.takes:
            await self.owner.adopt(socket.socket(fileno=os.dup(descriptor)), request)
        return self.takes

    def forward(self) -> Answer | Awaitable[Answer]:
        self.forwarded += 1
        return Response(200, [], b"forwarded")


def owned(request: Request) -> Any:
    if request.path == b"/sse":
        return StreamingResponse(200, [], events())
    if request.path == b"/later":
        return asyncio.sleep(0.01, Response(200, [], b"later"))
    return Response(200, [], b"owner " + request.method + b" " + bytes(request.body))


async def events() -> AsyncIterator[bytes]:
    for i in range(3):
        await asyncio.sleep(0)
        yield b"%d" % i


class Both:
    """An entrance and an owner."""

    def __init__(self, handler: Entrance, entrance: HttpServer) -> None:
        self.handler = handler
        self.owner = handler.owner
        self.entrance = entrance


@pytest.fixture
async def both(serve: Serve) -> Both:
    owner = await serve(owned)
    handler = Entrance(owner)
    return Both(handler, await serve(handler, hand_over_again_seconds_min=3600.0))


async def test_a_connection_moves_and_goes_on(both: Both) -> None:
    async with await Peer.connect(both.entrance.port) as peer:
        for i in range(5):
            assert (await peer.ask(post(b"%d" % i))).body == b"owner POST %d" % i
        reply = await peer.ask(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", to_head=True)
        assert reply.headers[b"content-length"] == b"11"
        assert both.handler.given == 1, "once for the whole connection"
        assert (both.entrance.open_connections, both.owner.open_connections) == (0, 1)
        assert (both.entrance.handed_over_total, both.owner.adopted_total) == (1, 1)
    await until(lambda: both.owner.open_connections == 0)


@pytest.mark.parametrize("path", [b"/sse", b"/later"])
async def test_the_first_answer_may_be_of_any_kind(both: Both, path: bytes) -> None:
    async with await Peer.connect(both.entrance.port) as peer:
        assert (await peer.ask(get(path))).body == {b"/sse": b"012", b"/later": b"later"}[path]
        assert (await peer.ask(get())).body == b"owner GET "


async def test_the_first_request_may_be_a_head(both: Both) -> None:
    async with await Peer.connect(both.entrance.port) as peer:
        head = await peer.ask(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", to_head=True)
        assert head.headers[b"content-length"] == b"11"
        assert (await peer.ask(get())).body == b"owner GET "


async def test_a_connection_that_was_used_before_moves_too(both: Both) -> None:
    async with await Peer.connect(both.entrance.port) as peer:
        assert (await peer.ask(get(b"/here"))).body == b"here"
        assert (await peer.ask(get())).body == b"owner GET "


@pytest.mark.parametrize("more", [get(b"/here"), b"GET /here HTTP/1.1\r\n"])
async def test_pipelined_requests_are_forwarded(both: Both, more: bytes) -> None:
    async with await Peer.connect(both.entrance.port) as peer:
        await peer.send(get() + more)
        assert (await peer.reply()).body == b"forwarded"
        if not more.endswith(b"\r\n\r\n"):
            await peer.send(b"Host: a\r\n\r\n")
        assert (await peer.reply()).body == b"here"
    assert both.handler.given == 0


async def test_what_waits_behind_a_pipelined_request_is_answered_in_order(both: Both) -> None:
    async with await Peer.connect(both.entrance.port) as peer:
        await peer.send(get() + get(b"/here") + get())
        assert [(await peer.reply()).body for _ in range(3)] == [b"forwarded", b"here", b"forwarded"]
        assert (await peer.ask(get())).body == b"owner GET ", "it is alone"


@pytest.mark.parametrize(
    "last",
    [
        get(b"/", b"Connection: close"),
        b"GET / HTTP/1.0\r\nHost: a\r\n\r\n",
        b"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
    ],
)
async def test_a_connection_that_ends_is_not_worth_moving(both: Both, last: bytes) -> None:
    async with await Peer.connect(both.entrance.port) as peer:
        assert (await peer.ask(last)).body == b"forwarded"
    assert both.handler.given == 0


@pytest.mark.parametrize("takes", [False, None])
async def test_what_the_owner_does_not_take_is_forwarded(both: Both, takes: bool | None) -> None:
    both.handler.takes = takes
    async with await Peer.connect(both.entrance.port) as peer:
        for _ in range(3):
            assert (await peer.ask(get())).body == b"forwarded"
        assert both.handler.given == 1, "not tried again within a second"
        assert (await peer.ask(get(b"/here"))).body == b"here"
        assert both.entrance.open_connections == 1


async def test_a_connection_does_not_move_again_at_once(serve: Serve) -> None:
    """Both think that the other is the owner: the second one forwards."""
    first = await serve(hand_over_again_seconds_min=3600.0)
    handler = Entrance(first)
    second = await serve(handler, hand_over_again_seconds_min=3600.0)
    back = Entrance(second)
    first._state.handler = back
    async with await Peer.connect(second.port) as peer:
        for i in range(1, 4):
            assert (await peer.ask(get())).body == b"forwarded"
            assert (handler.given, back.given, back.forwarded) == (1, 0, i)


async def test_a_connection_moves_again_later(serve: Serve) -> None:
    first = await serve(hand_over_again_seconds_min=0.0)
    second = await serve(Entrance(first), hand_over_again_seconds_min=0.0)
    first._state.handler = lambda request: (
        Response(200, [], b"first")
        if request.body
        else HandOver(Entrance(second).give, Entrance(second).forward)
    )
    second._state.handler = lambda request: (
        HandOver(Entrance(first).give, Entrance(first).forward)
        if request.body
        else Response(200, [], b"second")
    )
    async with await Peer.connect(first.port) as peer:
        for _ in range(10):
            assert (await peer.ask(post(b""))).body == b"second"
            assert (await peer.ask(post(b"x"))).body == b"first"
    assert second.adopted_total == first.adopted_total == 10


async def test_what_arrives_while_it_moves_goes_to_the_owner(both: Both) -> None:
    both.handler.gate = asyncio.Event()
    async with await Peer.connect(both.entrance.port) as peer:
        await peer.send(get())
        await until(lambda: both.handler.given)
        await peer.send(post(b"next"))
        await asyncio.sleep(0.02)
        both.handler.gate.set()
        assert (await peer.reply()).body == b"owner GET "
        assert (await peer.reply()).body == b"owner POST next"


async def test_what_arrives_while_it_does_not_move_is_answered_here(both: Both) -> None:
    both.handler.gate = asyncio.Event()
    both.handler.takes = False
    async with await Peer.connect(both.entrance.port) as peer:
        await peer.send(get())
        await until(lambda: both.handler.given)
        await peer.send(get(b"/here"))
        await asyncio.sleep(0.02)
        both.handler.gate.set()
        assert (await peer.reply()).body == b"forwarded"
        assert (await peer.reply()).body == b"here"


@pytest.mark.parametrize("moves", [True, False])
async def test_a_client_that_leaves_meanwhile_is_noticed(both: Both, moves: bool) -> None:
    both.handler.gate = asyncio.Event()
    both.handler.takes = moves
    async with await Peer.connect(both.entrance.port) as peer:
        await peer.send(get(b"/sse"))
        await until(lambda: both.handler.given)
    both.handler.gate.set()
    await until(lambda: both.entrance.open_connections == both.owner.open_connections == 0)


async def test_a_half_closed_client_is_a_client_that_has_left(both: Both) -> None:
    both.handler.gate = asyncio.Event()
    async with await Peer.connect(both.entrance.port) as peer:
        await peer.send(get())
        await until(lambda: both.handler.given)
        peer.writer.write_eof()
        both.handler.gate.set()
        await until(lambda: both.owner.adopted_total)
        await until(lambda: both.entrance.open_connections == both.owner.open_connections == 0)
        assert (await peer.rest())[:12] in (b"", b"HTTP/1.1 200")


async def test_a_shutdown_waits_for_what_is_moving(both: Both) -> None:
    both.handler.gate = asyncio.Event()
    async with await Peer.connect(both.entrance.port) as peer:
        await peer.send(get())
        await until(lambda: both.handler.given)
        ending = asyncio.create_task(both.entrance.shutdown(3600))
        await asyncio.sleep(0.02)
        assert not ending.done()
        both.handler.gate.set()
        await asyncio.wait_for(ending, PATIENCE_SECONDS)
        assert (await peer.reply()).body == b"owner GET "
        assert (await peer.ask(get())).body == b"owner GET "


async def test_a_shutdown_cuts_what_does_not_move_in_time(both: Both) -> None:
    both.handler.gate = asyncio.Event()
    async with await Peer.connect(both.entrance.port) as peer:
        await peer.send(get())
        await until(lambda: both.handler.given)
        await asyncio.wait_for(both.entrance.shutdown(0), PATIENCE_SECONDS)
        try:
            assert await peer.rest() == b""
        except ConnectionError:
            pass


async def test_nothing_moves_during_a_shutdown(both: Both) -> None:
    async with await Peer.connect(both.entrance.port) as peer:
        await peer.send(post(b"hello")[:-2])
        await until(lambda: both.entrance.request_bytes)
        ending = asyncio.create_task(both.entrance.shutdown(10))
        await asyncio.sleep(0.02)
        assert (await peer.ask(b"lo")).body == b"forwarded"
        assert both.handler.given == 0
        await asyncio.wait_for(ending, PATIENCE_SECONDS)


async def test_an_owner_says_whether_it_has_room(serve: Serve) -> None:
    server = await serve(owned, connections_max=1)
    room = [server.can_adopt]
    async with await Peer.connect(server.port) as peer:
        await peer.ask(get())
        room.append(server.can_adopt)
    await until(lambda: server.can_adopt)
    await server.shutdown(0)
    room.append(server.can_adopt)
    assert room == [True, False, False]


async def test_a_connection_too_many_is_refused_by_its_new_owner_too(serve: Serve) -> None:
    owner = await serve(owned, connections_max=1)
    entrance = await serve(Entrance(owner))
    async with await Peer.connect(owner.port) as first, await Peer.connect(entrance.port) as second:
        await first.ask(get())
        assert (await second.ask(get())).status == 503


async def test_no_descriptor_is_left(both: Both) -> None:
    async def one() -> None:
        async with await Peer.connect(both.entrance.port) as peer:
            assert (await peer.ask(get())).body == b"owner GET "

    await one()
    await until(lambda: both.entrance.open_connections == both.owner.open_connections == 0)
    await asyncio.sleep(0.01)
    before = open_sockets()
    for takes in (True, False):
        both.handler.takes = takes
        for _ in range(20):
            async with await Peer.connect(both.entrance.port) as peer:
                await peer.ask(get())
    await until(lambda: both.entrance.open_connections == both.owner.open_connections == 0)
    await until(lambda: open_sockets() <= before)


async def test_who_cannot_give_a_connection_away_awaits_the_forwarded_answer(both: Both) -> None:
    for forwarded in (Response(200, [], b"a"), asyncio.sleep(0, Response(200, [], b"a"))):
        answer = await HandOver(both.handler.give, lambda: forwarded)  # noqa: B023
        assert isinstance(answer, Response)
        assert answer.body == b"a"


@pytest.mark.parametrize("kind", ["at once", "streamed", "awaited", "failed"])
async def test_what_is_forwarded_may_be_answered_later_in_every_way(both: Both, kind: str) -> None:
    """While a connection cannot move, the forwarded answer comes from a future, usually without a task."""
    both.handler.takes = False
    asked: list[asyncio.Future[None]] = []

    def respond(future: "asyncio.Future[None]") -> Answer | Awaitable[Answer]:
        future.result()
        if kind == "streamed":
            return StreamingResponse(200, [], events())
        answer = Response(200, [], b"012")
        return answer if kind == "at once" else asyncio.sleep(0, answer)

    def forward() -> Later[None]:
        asked.append(asyncio.get_running_loop().create_future())
        return Later(asked[-1], respond)

    both.entrance._state.handler = lambda request: HandOver(both.handler.give, forward)
    async with await Peer.connect(both.entrance.port) as peer:
        for number in range(1, 4):
            await peer.send(get())
            await until(lambda: len(asked) == number)  # noqa: B023
            if kind == "failed":
                asked[-1].set_exception(ValueError())
            else:
                asked[-1].set_result(None)
            reply = await peer.reply()
            assert reply.status == 500 if kind == "failed" else reply.body == b"012"
        assert both.handler.given == 1
        await peer.send(get())
        await until(lambda: len(asked) == 4)
    await until(asked[-1].cancelled)


async def test_several_servers_share_a_port(serve: Serve) -> None:
    first = HttpServer(owned, answer_format=ANSWER_FORMAT)
    second = HttpServer(owned, answer_format=ANSWER_FORMAT)
    await first.start("127.0.0.1", 0, shared_port=True)
    await second.start("127.0.0.1", first.port, shared_port=True)
    assert first.port == second.port
    try:
        while not (first.connections_total and second.connections_total):
            async with await Peer.connect(first.port) as peer:
                assert (await peer.ask(get())).status == 200
        with pytest.raises(OSError):  # noqa: PT011
            await HttpServer(owned, answer_format=ANSWER_FORMAT).start("127.0.0.1", first.port)
    finally:
        await first.shutdown(0)
        await second.shutdown(0)


async def test_a_server_that_has_not_started_takes_no_connection() -> None:
    server = HttpServer(lambda request: Response(200, [], b""), DEFAULT_LIMITS, answer_format=ANSWER_FORMAT)
    takes = [server.can_adopt]
    await server.start("127.0.0.1", 0)
    takes.append(server.can_adopt)
    await server.shutdown(PATIENCE_SECONDS)
    takes.append(server.can_adopt)
    assert takes == [False, True, False]
