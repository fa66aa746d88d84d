"""Connections in masses: idle, opened and closed, half closed, reset at every moment."""

import asyncio
from pathlib import Path
from random import Random

import pytest

from tests.hostile.answers import take_apart
from tests.hostile.arena import LIMITS, MIB, SETTINGS, Arena
from tests.hostile.crowding import most_connections, strangers
from tests.hostile.rounds import SEEDS
from tests.hostile.stranger import Stranger, request
from tests.support.process import ServerProcess

pytestmark = pytest.mark.anyio

IDLE = 4000
FLOOD = 800
AT_ONCE = 50
APPEND = request(b"POST", b"/v1/stream/flooded", b"Content-Type: text/plain", body=b"x" * 1000)
READ = request(b"GET", b"/v1/stream/flood-large")


async def test_thousands_of_idle_connections(arena: Arena) -> None:
    async with arena.attacked() as others, strangers(arena, most_connections(IDLE)) as idle:
        await others.progress()
        for stranger in idle[::100]:
            assert (await stranger.ask(request(b"GET", b"/livez"))).status == 200


@pytest.mark.parametrize("seed", SEEDS)
async def test_connections_that_are_left_in_every_way(arena: Arena, seed: int) -> None:
    large = request(b"PUT", b"/v1/stream/flood-large", b"Content-Type: text/plain", body=b"y" * MIB)
    left = iter(range(FLOOD))
    async with arena.attacked() as others:
        await arena.ask(request(b"PUT", b"/v1/stream/flooded", b"Content-Type: text/plain", body=b""))
        await arena.ask(large)

        async def come_and_go() -> None:
            for number in left:
                await misbehave(arena, Random(f"{seed}/{number}"))

        await asyncio.gather(*(come_and_go() for _ in range(AT_ONCE)))
        await others.progress()
        end = (await arena.ask(request(b"GET", b"/v1/stream/flooded?offset=now"))).headers[
            b"stream-next-offset"
        ]
        assert end.endswith(b"000"), "an append is whole or not there"
        assert set(await arena.content(b"flooded")) == set(b"x")


async def misbehave(arena: Arena, chance: Random) -> None:
    """Do some part of something, then leave one way or another."""
    received = b""
    async with await Stranger.connect(arena.port) as stranger:
        match chance.randrange(5):
            case 0:
                pass
            case 1:
                await stranger.send(APPEND[: chance.randrange(len(APPEND))])
            case 2:
                await stranger.send(APPEND * 3)
            case 3:
                await stranger.send(READ * 4)
                received = await stranger.some(chance.randrange(1, 100_000))
            case _:
                await stranger.send(READ + APPEND + READ[: chance.randrange(len(READ))])
        match chance.randrange(4):
            case 0:
                stranger.reset()
            case 1:
                stranger.half_close()
                take_apart(received + await stranger.rest())
            case 2:
                stranger.half_close()


async def test_more_connections_than_files(tmp_path: Path) -> None:
    """A process that may open few files takes few connections: the log must never lack one."""
    with FewFiles(tmp_path / "data", *SETTINGS, limits=LIMITS) as server:
        arena = Arena(server)
        async with await Stranger.connect(arena.port) as served:
            assert (await served.ask(request(b"GET", b"/livez"))).status == 200
            create = request(b"PUT", b"/v1/stream/s", b"Content-Type: text/plain", body=b"")
            assert (await served.ask(create)).status == 201
            async with strangers(arena, FewFiles.files + 200) as crowd:
                large = request(b"POST", b"/v1/stream/s", b"Content-Type: text/plain", body=b"x" * 4 * MIB)
                for _ in range(10):  # more than one file of the log
                    assert (await served.ask(large)).status == 204
                assert (await served.ask(request(b"POST", b"/v1/admin/flush", body=b""))).status == 200
                turned_away = [take_apart(await one.until_quiet(0.001)) for one in crowd]
                statuses = [answer.status for answers in turned_away for answer in answers]
                assert statuses
                assert set(statuses) == {503}
            assert (await served.ask(request(b"GET", b"/readyz"))).status == 200


class FewFiles(ServerProcess):
    """A server whose process may open few files."""

    files = 700

    def _command(self, name: str, *arguments: str) -> list[str]:
        limited = f'ulimit -n {self.files} && exec "$@"'
        return ["sh", "-c", limited, "sh", *super()._command(name, *arguments)]
