"""Connections that move between two processes while requests go on on them."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import HandOver, Request, Response
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node.handover import HandOverSender
from tests.support.descriptors import open_sockets
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.unit.http.raw import Peer, get, post

pytestmark = pytest.mark.anyio
CONNECTIONS = 200


@pytest.fixture(params=["uvloop", "asyncio"])
def loop_kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def anyio_backend(loop_kind: str) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": loop_kind == "uvloop"}


class Owner:
    def __init__(self, process: asyncio.subprocess.Process, port: int, path: Path) -> None:
        self.process = process
        self.port = port
        self.path = path


@pytest.fixture
async def owner(anyio_backend: object, loop_kind: str) -> AsyncIterator[Owner]:
    with TemporaryDirectory(prefix="ds") as directory:
        path = Path(directory) / "hand-over"
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.hand_over_owner", str(path), loop_kind),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        yield Owner(process, int(await process.stdout.readline()), path)
        process.stdin.close()
        await process.wait()


@asynccontextmanager
async def entrance(owner: Owner, seconds: float = 3600.0) -> AsyncIterator[HttpServer]:
    limits = replace(DEFAULT_LIMITS, hand_over_seconds_max=seconds)
    sender = HandOverSender(owner.path, limits)

    def handler(request: Request) -> HandOver:
        return HandOver(sender.give, lambda: Response(200, [], b"forwarded"))

    server = HttpServer(handler, limits, answer_format=ANSWER_FORMAT)
    await server.start("127.0.0.1", 0)
    try:
        yield server
    finally:
        await server.shutdown(0)
        sender.close()


async def test_every_connection_moves_and_goes_on(owner: Owner) -> None:
    before = open_sockets()

    async def client(port: int, i: int) -> None:
        async with await Peer.connect(port) as peer:
            for turn in range(5):
                body = b"%d %d" % (i, turn)
                assert (await peer.ask(post(body))).body == b"%d %b" % (owner.process.pid, body)

    async with entrance(owner) as server, await Peer.connect(owner.port) as watcher:

        async def sockets() -> int:
            return int((await watcher.ask(get(b"/sockets"))).body)

        sockets_before = await sockets()
        for start in range(0, CONNECTIONS, 20):
            await asyncio.gather(*[client(server.port, i) for i in range(start, start + 20)])
        assert server.handed_over_total == CONNECTIONS
        assert server.open_connections == 0

        async with asyncio.timeout(PATIENCE_SECONDS):
            while await sockets() > sockets_before + 1:  # and the channel from here
                await asyncio.sleep(0.01)
    await until(lambda: open_sockets() <= before)


async def test_an_owner_that_is_stopped_does_not_serve_what_was_forwarded(owner: Owner) -> None:
    async with entrance(owner, seconds=0.1) as server, await Peer.connect(server.port) as peer:
        os.kill(owner.process.pid, signal.SIGSTOP)
        try:
            assert (await peer.ask(post(b"first"))).body == b"forwarded"
        finally:
            os.kill(owner.process.pid, signal.SIGCONT)
        async with await Peer.connect(owner.port) as own:  # it has woken up, and seen the offer
            assert (await own.ask(get())).status == 200
        assert (await peer.ask(get(b"/", b"Connection: close"))).body == b"forwarded"
        assert await peer.rest() == b"", "nothing else answers on it"


async def test_an_owner_that_is_killed_leaves_the_others_their_connections(owner: Owner) -> None:
    async with entrance(owner) as server:
        async with await Peer.connect(server.port) as moved, await Peer.connect(server.port) as stays:
            assert (await moved.ask(post(b"x"))).body == b"%d x" % owner.process.pid
            owner.process.kill()
            await owner.process.wait()
            try:
                assert await moved.rest() == b""
            except ConnectionError:
                pass
            assert (await stays.ask(get())).body == b"forwarded"
        await until(lambda: server.open_connections == 0)
