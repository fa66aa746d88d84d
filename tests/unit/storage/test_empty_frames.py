"""A log that grows by nothing but proofs is trimmed, and what was acknowledged stays."""

from pathlib import Path

import pytest

from durable_sessions.testing.memory_log import MemoryLog
from tests.unit.storage.world import World

pytestmark = pytest.mark.anyio


async def prove(log: MemoryLog, times: int) -> None:
    for _ in range(times):
        log.proven_until = 0.0
        await log.prove()


async def test_a_log_without_batches_is_trimmed_to_its_end(tmp_path: Path) -> None:
    world = await World(tmp_path).open()
    await world.create("s", b"[1]")
    await world.flush()
    await prove(world.log, 20)
    assert await world.partition.skip_empty_frames()
    assert world.archive.flushed_through == world.log.ends_at
    assert len(world.log.slots.frames) == 1
    assert not await world.partition.skip_empty_frames()
    await world.append("s", b"[2]")
    await world.reopen()
    assert await world.read("s") == b"1,2,"
    await world.flush()
    await world.reopen(forget_catalog=True)
    assert await world.read("s") == b"1,2,"
    await world.close()


async def test_a_batch_that_is_not_flushed_is_never_skipped(tmp_path: Path) -> None:
    world = await World(tmp_path).open()
    await world.create("s", b"[1]")
    await prove(world.log, 5)
    assert not await world.partition.skip_empty_frames()
    await world.reopen()
    assert await world.read("s") == b"1,"
    await world.close()


async def test_a_batch_under_way_is_never_skipped(tmp_path: Path) -> None:
    world = await World(tmp_path).open()
    await world.create("s", b"[1]")
    await world.flush()
    await prove(world.log, 5)
    through = world.log.ends_at
    await world.append("s", b"[2]")
    await world.partition.skip_empty_frames()
    assert world.archive.flushed_through <= (through or 0)
    await world.reopen()
    assert await world.read("s") == b"1,2,"
    await world.close()
