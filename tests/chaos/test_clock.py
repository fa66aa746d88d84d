"""A clock that jumps by hours, forward and back, under load: order, tails and what has not expired stay."""

import asyncio
from pathlib import Path

import httpx2
import pytest

from tests.support.client import JSON
from tests.support.load import Load
from tests.support.process import ServerProcess
from tests.support.shim import Shim
from tests.support.trial import HASTY, TAIL_OPTIONS, Plan, assert_sound, restart, trial, until
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

HOUR = 3600
# Nothing is flushed for its size, only for its age: that must not stop when the clock goes back.
OPTIONS = (*TAIL_OPTIONS, "--flush-seconds", "0.1", "--memory-bytes", "20KiB")


async def assert_alive(server: ServerProcess, load: Load) -> None:
    """Appends, both kinds of live tails, and flushes go on."""
    before = dict(load.known.done)
    flushes = await asyncio.to_thread(server.metric, "flushes_total")
    for role in ("PlainRole", "ProducerRole", "PollerRole", "FollowerRole"):
        await until(lambda: load.known.done[role] > before.get(role, 0) + 3)  # noqa: B023
    await until(lambda: server.metric("flushes_total") > flushes)


async def test_the_clock_jumps(tmp_path: Path, plan: Plan, shim: Shim) -> None:
    server = ServerProcess(tmp_path / "data", *OPTIONS, environment=shim.environment, limits=HASTY)
    chance = plan.chance()
    async with trial(server, plan, ttl_seconds=100 * HOUR) as load:
        async for number in plan.rounds(4):
            await load.advance()
            shim.move_clock(HOUR * (chance.uniform(1, 40) if number % 2 else -chance.uniform(1, 40)))
            await assert_alive(server, load)
            if chance.random() < 0.5:
                await restart(server)
        shim.move_clock(0)
        await assert_alive(server, load)


def test_a_jump_expires_what_it_must_and_nothing_else(tmp_path: Path, shim: Shim) -> None:
    server = ServerProcess(tmp_path / "data", *OPTIONS, environment=shim.environment, limits=HASTY)
    with (
        server,
        httpx2.Client(base_url=server.url + "/v1/stream", verify=False, timeout=PATIENCE_SECONDS) as client,
    ):

        def status(path: str) -> int:
            return client.get(path).status_code

        for path, ttl in (("/brief", HOUR), ("/used", HOUR), ("/long", 10 * HOUR)):
            client.put(path, headers={**JSON, "Stream-TTL": str(ttl)}, content='["first"]')
        shim.move_clock(-5 * HOUR)
        assert client.post("/used", headers=JSON, content='["second"]').status_code == 204
        shim.move_clock(0)
        server.kill()
        server.start()
        assert status("/used") == 200, "it was used a moment ago, whatever the clock said meanwhile"
        shim.move_clock(2 * HOUR)
        assert (status("/brief"), status("/used"), status("/long")) == (404, 404, 200)
        shim.move_clock(0)
        assert status("/brief") == 404, "what was seen to be gone does not come back"
        server.kill()
        server.start()
        assert (status("/brief"), status("/used")) == (404, 404)
        assert client.get("/long").json() == ["first"]
    assert_sound(server)
