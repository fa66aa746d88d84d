"""Connections that have ended are freed at once: old objects are not looked through for cycles."""

import asyncio
import gc

import pytest

from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.connection import Connection
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.limits import DEFAULT_LIMITS
from tests.support.waiting import PATIENCE_SECONDS

from .conftest import echo
from .raw import Peer, get, post

pytestmark = pytest.mark.anyio


def connections() -> int:
    return sum(isinstance(one, Connection) for one in gc.get_objects())


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
