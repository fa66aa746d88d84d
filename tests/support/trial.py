"""A trial: a server process under load, something that happens to it, and the judgement."""

import asyncio
import json
import os
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from durable_sessions.testing import history
from durable_sessions.testing.checker import assert_correct
from tests.support.load import PATIENCE_SECONDS, Load
from tests.support.process import ServerProcess

SOAK_VARIABLE = "SOAK_SECONDS"
LAP_SECONDS = 30.0
"""A soak is a number of trials of this length, each with a seed of its own."""

HASTY = {
    "maintenance_seconds": 0.1,
    "compaction_segments_min": 2,
    "checkpoints_max": 2,
    "garbage_grace_seconds": 2.0,
    "sweep_seconds": 0.5,
    "orphan_grace_seconds": 2.0,
    "era_seconds": 0.3,
    "active_streams_max": 4,
    "block_cache_bytes_max": 20_000,
    "log_segment_bytes_max": 20_000,
    "flush_retry_seconds": 0.2,
    "expiry_sweep_seconds": 0.2,
}
"""Limits with which a server merges, sweeps, evicts and begins new segments all the time."""
HASTY_OPTIONS = ("--flush-bytes", "4KiB", "--flush-seconds", "0.1", "--memory-bytes", "20KiB")
TAIL_OPTIONS = ("--long-poll-seconds", "1")


class Plan(NamedTuple):
    """How long something is done to a server, and the seed of all choices."""

    seed: int
    seconds: float

    def chance(self) -> random.Random:
        """Return the choices of the one who does harm."""
        return random.Random(f"{self.seed} harm")

    async def rounds(self, at_least: int = 2) -> AsyncIterator[int]:
        """Yield numbers until the time is over, but at least a few."""
        ends = time.monotonic() + self.seconds
        number = 0
        while number < at_least or time.monotonic() < ends:
            yield number
            number += 1


def plans(seconds: float) -> list[Plan]:
    """Return one short plan, or those of a soak if one is asked for."""
    asked = float(os.environ.get(SOAK_VARIABLE, "0"))
    if not asked:
        return [Plan(1, seconds)]
    laps = max(1, round(asked / LAP_SECONDS))
    return [Plan(seed, asked / laps) for seed in range(1, laps + 1)]


@asynccontextmanager
async def trial(server: ServerProcess, plan: Plan, **options: Any) -> AsyncIterator[Load]:
    """Run a server under load for the length of a ``with`` block, then judge what it has done.

    At the end the server is killed and started once more, and all streams are read: what counts
    is what it finds on its disk.
    """
    load = Load(server.port, plan.seed, **options)
    try:
        with server:
            async with load.running():
                yield load
            await restart(server)
            await load.read_all()
        judge(server, load)
    except BaseException as error:
        saved = server.data.with_name("history.jsonl")
        history.save(load.recorder.calls, saved)
        error.add_note(f"seed {plan.seed}; the history is in {saved}, the server's log in {server.log}")
        raise
    finally:
        load.close()


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something is so that a thread of its own has to find out."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await asyncio.to_thread(holds):
            await asyncio.sleep(0.05)


async def restart(server: ServerProcess) -> None:
    """Kill the server and start it again."""
    await asyncio.to_thread(server.kill)
    await asyncio.to_thread(server.start)


def judge(server: ServerProcess, load: Load) -> None:
    """Judge a server that is no longer running: its history, its data and its log lines."""
    assert_correct(load.recorder.calls)
    assert_sound(server)


def assert_sound(server: ServerProcess) -> None:
    """Check that nothing in a stopped server's data is damaged, and that it met no fault of its own."""
    verified = server.run("verify", "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert json.loads(verified.stdout)["ok"]
    assert "Traceback" not in server.log.read_text()


def refusal(server: ServerProcess) -> str:
    """Start a server that must not come up, and return what it said: one line, and no traceback."""
    refused = server.run("serve", "--port", "0")
    assert refused.returncode == 1, refused.stderr
    assert "Traceback" not in refused.stderr
    return refused.stderr.strip().splitlines()[-1]


def newest_segment(data: Path) -> Path:
    """Return the file of the log that was written to last."""
    return max((data / "log").glob("*.log"))
