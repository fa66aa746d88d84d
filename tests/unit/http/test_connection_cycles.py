"""Connections that have ended are freed at once: old objects are not looked through for cycles."""

import asyncio
import gc

import pytest

from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.answerer import Answerer
from durable_sessions.http.carrier.connection import Connection
from durable_sessions.http.carrier.incomplete_body import IncompleteBody
from durable_sessions.http.carrier.incomplete_head import IncompleteHead
from durable_sessions.http.carrier.message import Request, Response
from durable_sessions.http.carrier.read_ahead import ReadAhead, Refused
from durable_sessions.http.carrier.request_parser import RequestParser
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.limits import DEFAULT_LIMITS
from tests.support.waiting import PATIENCE_SECONDS

from .conftest import Serve, echo
from .raw import Peer, get, post

pytestmark = pytest.mark.anyio


def count(*kinds: type) -> int:
    return sum(isinstance(one, kinds) for one in gc.get_objects())


def connections() -> int:
    assert count(RequestParser) == count(Answerer) == count(Connection)
    return count(Connection)


async def test_a_connection_refers_to_itself_nowhere() -> None:
    server = HttpServer(echo, DEFAULT_LIMITS, answer_format=ANSWER_FORMAT)
    await server.start("127.0.0.1", 0)
    gc.collect()
    before = connections()
    gc.disable()
    try:
        for _ in range(3):
            async with await Peer.connect(server.port) as peer:
                assert (await peer.ask(get(b"/"))).status == 200
                assert (await peer.ask(post(b"x" * 100_000))).status == 200
                assert connections() == before + 1
            while server.open_connections:
                await asyncio.sleep(0.01)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while connections() > before:  # the transport lets go of it in the next rounds of the loop
                    await asyncio.sleep(0.01)
    finally:
        gc.enable()
        await server.shutdown(0)


async def test_an_idle_connection_keeps_nothing_of_what_was_incomplete_or_waited(serve: Serve) -> None:
    waiting: list[asyncio.Future[Response]] = []

    def later(request: Request) -> asyncio.Future[Response]:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    server = await serve(later)
    before = count(ReadAhead, IncompleteHead, IncompleteBody)
    async with await Peer.connect(server.port) as peer, asyncio.timeout(PATIENCE_SECONDS):
        await peer.send(get(b"/first"))
        await peer.send(get(b"/second") + post(b"x" * 100_000)[:-1])
        while not (waiting and count(ReadAhead) and count(IncompleteBody)):
            await asyncio.sleep(0.01)
        await peer.send(b"x" + get(b"/last")[:-4])
        while not count(IncompleteHead):
            await asyncio.sleep(0.01)
        await peer.send(b"\r\n\r\n")
        for answered in range(4):
            while len(waiting) <= answered:
                await asyncio.sleep(0.01)
            waiting[answered].set_result(Response(204, []))
            assert (await peer.reply()).status == 204
        assert server.open_connections == 1
        while count(ReadAhead, IncompleteHead, IncompleteBody) > before:
            await asyncio.sleep(0.01)


async def test_a_refusal_that_waits_for_its_turn_keeps_no_body(serve: Serve) -> None:
    waiting: list[asyncio.Future[Response]] = []

    def later(request: Request) -> asyncio.Future[Response]:
        waiting.append(asyncio.get_running_loop().create_future())
        return waiting[-1]

    server = await serve(later, request_bytes_max=100_000)
    async with await Peer.connect(server.port) as peer, asyncio.timeout(PATIENCE_SECONDS):
        await peer.send(get(b"/first"))
        while not waiting:
            await asyncio.sleep(0.01)
        await peer.send(post(b"x" * 500_000))
        while not any(type(one) is Refused for one in gc.get_objects()):
            await asyncio.sleep(0.01)
        while count(IncompleteBody):
            await asyncio.sleep(0.01)
        waiting[0].set_result(Response(204, []))
        assert [(await peer.reply()).status for _ in range(2)] == [204, 503]
