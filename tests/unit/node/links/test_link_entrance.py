"""A client whose requests come in at one process and are answered by another."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import SHARED, Request, Response, StreamingResponse
from durable_sessions.http.carrier.server import HttpServer
from tests.support.waiting import until
from tests.unit.http.raw import Peer, get, post

from .conftest import Connect, Pair

pytestmark = pytest.mark.anyio


async def entrance(pair: Pair) -> HttpServer:
    server = HttpServer(lambda request: pair.link.ask(0, request), answer_format=ANSWER_FORMAT)
    await server.start("127.0.0.1", 0)
    return server


async def test_answers_come_back_to_the_client(connect: Connect) -> None:
    def handler(partition: int, asked: Request) -> Response:
        asked.audience = SHARED
        return Response(200, [(b"Id", asked.id)], bytes(asked.body))

    server = await entrance(await connect(handler))
    async with await Peer.connect(server.port) as peer:
        for i in range(20):
            reply = await peer.ask(post(b"%d" % i))
            assert reply.body == b"%d" % i
            assert reply.headers[b"id"] == reply.headers[b"request-id"]
            for name, value in ANSWER_FORMAT.common_headers[SHARED]:
                assert reply.headers[name.lower()] == value
    await server.shutdown(0)


async def test_a_client_that_leaves_ends_the_work_of_the_owner(connect: Connect) -> None:
    ended: list[bytes] = []

    async def chunks() -> AsyncIterator[bytes]:
        try:
            yield b"first"
            await asyncio.Event().wait()
        finally:
            ended.append(b"/stream")

    async def waits() -> Response:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(b"/wait")
        raise AssertionError

    def handler(partition: int, asked: Request) -> Any:
        return StreamingResponse(200, [], chunks()) if asked.path == b"/stream" else waits()

    pair = await connect(handler)
    server = await entrance(pair)
    async with await Peer.connect(server.port) as streaming, await Peer.connect(server.port) as waiting:
        await streaming.send(get(b"/stream"))
        await waiting.send(get(b"/wait"))
        assert (await streaming.head()).status == 200
        assert await streaming.chunk() == b"first"
        await until(lambda: pair.server.counts.open_requests == 2)
    await until(lambda: sorted(ended) == [b"/stream", b"/wait"])
    await server.shutdown(0)


async def test_a_client_sees_that_its_answer_broke_off(connect: Connect) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"first"
        await asyncio.Event().wait()

    pair = await connect(lambda partition, asked: StreamingResponse(200, [], chunks()))
    server = await entrance(pair)
    async with await Peer.connect(server.port) as peer:
        await peer.send(get())
        assert (await peer.head()).status == 200
        assert await peer.chunk() == b"first"
        await pair.server.close()
        try:
            rest = await peer.rest()
        except ConnectionError:
            rest = b""
        assert rest == b"", "no final chunk"
    await server.shutdown(0)
