"""``kill -9`` under load: what was acknowledged is there, once, at its offset."""

import asyncio
from pathlib import Path

import pytest

from tests.support.process import ServerProcess
from tests.support.trial import HASTY, HASTY_OPTIONS, TAIL_OPTIONS, Plan, restart, trial, until

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]


async def test_killed_at_any_moment(tmp_path: Path, plan: Plan) -> None:
    server = ServerProcess(tmp_path / "data", *TAIL_OPTIONS)
    chance = plan.chance()
    async with trial(server, plan) as load:
        async for _ in plan.rounds():
            await load.advance()
            await asyncio.sleep(chance.random())
            await restart(server)


async def test_killed_while_it_flushes_merges_sweeps_and_evicts(tmp_path: Path, plan: Plan) -> None:
    server = ServerProcess(tmp_path / "data", *TAIL_OPTIONS, *HASTY_OPTIONS, limits=HASTY)
    chance = plan.chance()
    async with trial(server, plan) as load:
        async for _ in plan.rounds():
            await load.advance(60)
            await asyncio.sleep(chance.random())
            await restart(server)
        await until(lambda: min(map(server.metric, ("merges_total", "objects_removed_total"))) > 0)


async def test_killed_while_it_starts_and_while_it_stops(tmp_path: Path, plan: Plan) -> None:
    server = ServerProcess(tmp_path / "data", *TAIL_OPTIONS, *HASTY_OPTIONS, limits=HASTY)
    chance = plan.chance()
    async with trial(server, plan) as load:
        async for _ in plan.rounds():
            await load.advance()
            if chance.random() < 0.5:
                server.ask_to_stop()
                await asyncio.sleep(chance.random() * 0.2)
            await asyncio.to_thread(server.kill)
            for _ in range(chance.randrange(3)):
                server.spawn()
                await asyncio.sleep(chance.random() * 0.7)
                await asyncio.to_thread(server.kill)
            await asyncio.to_thread(server.start)
