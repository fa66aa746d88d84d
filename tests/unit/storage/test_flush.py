"""When the flusher flushes, and when the sweep looks: also after the clock was set back."""

import asyncio
from pathlib import Path

import pytest

from durable_sessions.node.supervisor import Supervisor
from durable_sessions.storage import log_flush
from durable_sessions.storage.flush import Flusher
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.storage.world import World, key

pytestmark = pytest.mark.anyio

DAY_SECONDS = 24 * 3600


async def test_a_clock_that_was_set_back_does_not_keep_data_from_the_bucket(tmp_path: Path) -> None:
    world = await World(tmp_path).open()
    flusher = Flusher(world.partition, world.clock, world.limits, flush_seconds=60)
    flusher.start(Supervisor(world.clock, world.limits))
    await world.create("s", b"[1]")
    world.clock.advance(-DAY_SECONDS)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not flusher.flushes:
            await asyncio.sleep(0.05)
    assert world.partition.backlog.oldest is None
    await flusher.close()
    await world.close()


async def test_a_clock_that_was_set_back_does_not_keep_the_sweep_from_looking(tmp_path: Path) -> None:
    world = await World(tmp_path).open()

    async def looks() -> bool:
        before = len(world.faults.calls)
        await world.maintenance.step()
        return any(call.operation == "list" and call.path == "events" for call in world.faults.calls[before:])

    assert [await looks(), await looks()] == [True, False]
    world.clock.advance(-DAY_SECONDS)
    assert [await looks(), await looks()] == [True, False]
    await world.close()


async def test_a_fault_of_ours_stops_the_flusher_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await World(tmp_path).open()
    flusher = Flusher(world.partition, world.clock, world.limits, flush_seconds=0)

    async def flush() -> bool:
        raise AssertionError("effects of a stream are consecutive")

    await world.create("s", b"[1]")
    monkeypatch.setattr(world.partition, "flush", flush)
    flusher.start(Supervisor(world.clock, world.limits))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while flusher.failure is None:
            await asyncio.sleep(0.05)
    assert "consecutive" in flusher.failure.reason
    monkeypatch.undo()
    await flusher.close()
    assert world.partition.backlog.oldest is None
    await world.close()


async def test_a_flush_whose_client_goes_away_leaves_nothing_half_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_flush, "_STEP_STREAMS", 1)
    world = await World(tmp_path).open()
    for number in range(20):
        await world.create(f"s{number}", b"[1]")
    await world.create("gone")
    await world.flush()
    await world.delete("gone")
    for number in range(20):
        await world.append(f"s{number}", b"[2]")
    before = world.archive.flushed_through
    flush = asyncio.create_task(world.partition.flush())
    while world.archive.flushed_through == before:
        await asyncio.sleep(0)
    assert flush.cancel()
    with pytest.raises(asyncio.CancelledError):
        await flush
    assert world.partition.backlog.bytes_held == 0
    assert not world.partition._state.removed
    for number in range(20):
        durable = world.partition.find(key(f"s{number}"))
        assert durable.flushed == durable.tail == 2
        assert (await world.partition.read(durable, 0, 100)).data == b"1,2,"
    await world.close()
