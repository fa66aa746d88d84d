"""``SIGSTOP`` and ``SIGCONT`` under load: clients give up, the server goes on, nothing is lost or doubled."""

import asyncio
from pathlib import Path

import pytest

from durable_sessions.testing.history import AppendOperation, Unknown
from tests.support.load import Load
from tests.support.process import ServerProcess
from tests.support.trial import TAIL_OPTIONS, Plan, refusal, trial, until

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]


def unanswered(load: Load) -> int:
    return sum(
        isinstance(call.request, AppendOperation) and isinstance(call.outcome, Unknown)
        for call in load.recorder.calls
    )


async def test_paused_and_resumed(tmp_path: Path, plan: Plan) -> None:
    server = ServerProcess(tmp_path / "data", *TAIL_OPTIONS)
    rival = ServerProcess(tmp_path / "data", *TAIL_OPTIONS)
    chance = plan.chance()
    async with trial(server, plan, answer_seconds_max=1) as load:
        async for _ in plan.rounds():
            await load.advance()
            before = unanswered(load)
            server.pause()
            try:
                await until(lambda: unanswered(load) > before)  # noqa: B023 (awaited in the same round)
                await asyncio.sleep(chance.random() * 0.5)
                said = await asyncio.to_thread(refusal, rival)
                assert "in use by another process" in said
            finally:
                server.resume()
        await load.advance()
