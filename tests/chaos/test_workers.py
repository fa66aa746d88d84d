"""Workers that are killed under load: what was acknowledged is there, once, at its offset."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from tests.support.process import ServerProcess
from tests.support.trial import HASTY, HASTY_OPTIONS, TAIL_OPTIONS, Plan, trial, until
from tests.support.worker_processes import worker_pids

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

WORKERS = 2


async def test_a_random_worker_is_killed(tmp_path: Path, plan: Plan) -> None:
    options = (*TAIL_OPTIONS, *HASTY_OPTIONS, "--workers", str(WORKERS))
    server = ServerProcess(tmp_path / "data", *options, limits=HASTY)
    chance = plan.chance()
    async with trial(server, plan) as load:
        async for _ in plan.rounds():
            await load.advance()
            await asyncio.sleep(chance.random())
            victim = chance.choice(worker_pids(server))
            os.kill(victim, signal.SIGKILL)
            await until(lambda: victim not in worker_pids(server))  # noqa: B023
            if chance.random() < 0.5:  # another one while this one starts
                await asyncio.sleep(chance.random())
                os.kill(chance.choice(worker_pids(server) or [victim]), signal.SIGKILL)
            await until(lambda: is_ready(server))


def is_ready(server: ServerProcess) -> bool:
    """Say whether all workers serve."""
    return len(worker_pids(server)) == WORKERS and server.answers_ready()
