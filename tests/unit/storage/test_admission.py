"""What is shed: at each bound of what may wait, and one byte past it."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from durable_sessions.errors import (
    LogFencedError,
    OutcomeUnknownError,
    OverloadedError,
    PartitionMovedError,
    PartitionStoppedError,
)
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.streams.effects import StreamDescribed
from tests.unit.storage.world import LIMITS, World, key

pytestmark = pytest.mark.anyio


async def test_bytes_that_are_not_yet_durable_are_bounded(tmp_path: Path) -> None:
    world = await World(tmp_path, replace(LIMITS, pending_bytes_max=1_000)).open()
    await world.create("s")
    assert world.partition.counts().pending_bytes == 0
    world.partition.admit(1_000)
    with pytest.raises(OverloadedError, match="appends not yet durable"):
        world.partition.admit(1_001)
    world.log.hold()
    appended = asyncio.ensure_future(world.append("s", b'"%b"' % (b"x" * 500)))
    while not world.partition.counts().pending_bytes:
        await asyncio.sleep(0)
    left = 1_000 - world.partition.counts().pending_bytes
    world.partition.admit(left)
    with pytest.raises(OverloadedError, match="appends not yet durable"):
        world.partition.admit(left + 1)
    world.log.release()
    await appended
    world.partition.admit(1_000)
    await world.close()


async def test_bytes_that_are_not_yet_in_the_bucket_are_bounded(tmp_path: Path) -> None:
    world = await World(tmp_path, replace(LIMITS, unflushed_bytes_max=1_000)).open()
    await world.create("s", b'"%b"' % (b"x" * 500))
    held = world.partition.backlog.bytes_held
    assert held == world.partition.counts().unflushed_bytes > 500
    world.partition.admit(1_000 - held)
    with pytest.raises(OverloadedError, match="appends not yet in the bucket"):
        world.partition.admit(1_001 - held)
    with pytest.raises(OverloadedError):
        await world.append("s", b'"%b"' % (b"x" * 1_000))
    assert world.partition.refusal is None, "smaller appends are still accepted"
    await world.flush()
    world.partition.admit(1_000)
    await world.close()


async def test_a_full_backlog_says_why_appends_are_refused(tmp_path: Path) -> None:
    world = await World(tmp_path, replace(LIMITS, unflushed_bytes_max=500)).open()
    await world.create("s", b'"%b"' % (b"x" * 490))
    held = world.partition.backlog.bytes_held
    assert held > 500, "what is stored is larger than the body that was admitted"
    assert world.partition.refusal == f"{held} bytes wait to be flushed to the bucket"
    await world.flush()
    world.partition.admit(500)
    assert world.partition.counts().unflushed_bytes == 0
    await world.close()


async def test_documents_may_take_eight_times_their_budget(tmp_path: Path) -> None:
    world = await World(tmp_path, replace(LIMITS, attribute_bytes_max=100)).open()
    await world.create("s")
    described = StreamDescribed(1, world.clock.now_ms(), {"d": b'"%b"' % (b"x" * 300)})
    await world.partition.commit(lambda *_: ([described], None))
    held = world.partition.counts().document_bytes
    world.partition.admit_document(800 - held)
    with pytest.raises(OverloadedError, match="attribute_bytes_max"):
        world.partition.admit_document(801 - held)
    with pytest.raises(OverloadedError, match="not yet durable"):
        world.partition.admit_document(DEFAULT_LIMITS.pending_bytes_max + 1)
    await world.close()


@pytest.mark.parametrize("fenced", [True, False], ids=["fenced", "failed"])
async def test_after_the_log_is_gone_the_reason_is_told_and_nothing_accepted(
    tmp_path: Path, *, fenced: bool
) -> None:
    world = await World(tmp_path).open()
    await world.create("s")
    if fenced:
        world.log.refuse(LogFencedError(log="memory", problem="epoch 9 was claimed"))
    else:
        world.log.fail("no such device")
    expected = PartitionMovedError if fenced else PartitionStoppedError
    with pytest.raises(PartitionMovedError if fenced else OutcomeUnknownError):
        await world.append("s", b"[1]")
    with pytest.raises(expected):
        await world.append("s", b"[2]")
    with pytest.raises(expected):
        world.partition.require_running()
    refusal = world.partition.refusal
    assert refusal is not None
    assert ("epoch 9" if fenced else "no such device") in refusal
    assert world.partition.counts().stopped
    async with asyncio.timeout(60):
        await world.partition.until_log_failed()
    await world.close()


async def test_a_stream_with_something_unflushed_is_never_evicted(tmp_path: Path) -> None:
    """Loaded again, it would be as it was at the last flush, and acknowledged records would be missing."""
    world = await World(tmp_path, replace(LIMITS, active_streams_max=0)).open()
    await world.create("flushed", b"[1]")
    await world.create("changed", b"[1]")
    await world.create("closed", b"[1]")
    await world.flush()
    await world.append("changed", b"[2]")
    await world.create("new", b"[1]")
    for _ in range(3):
        await world.partition.evict_idle()
    assert world.partition.in_memory(1) is None
    assert world.partition.find(key("changed")).tail == 2
    assert await world.read("new") == b"1,"
    assert sorted(stream.key.path for stream in world.partition.tip.by_id.values()) == ["changed", "new"]
    await world.close()


async def test_a_stream_is_not_evicted_in_the_era_in_which_it_was_used(tmp_path: Path) -> None:
    world = await World(tmp_path, replace(LIMITS, active_streams_max=0)).open()
    await world.create("s", b"[1]")
    await world.flush()
    assert await world.partition.evict_idle() == 0
    world.partition.find(key("s"))
    assert await world.partition.evict_idle() == 0
    assert await world.partition.evict_idle() == 1
    assert world.partition.active_streams == 0
    await world.close()


async def test_nothing_is_evicted_while_there_is_room(tmp_path: Path) -> None:
    world = await World(tmp_path, replace(LIMITS, active_streams_max=2)).open()
    for name in ("a", "b"):
        await world.create(name, b"[1]")
    await world.flush()
    for _ in range(4):
        assert await world.partition.evict_idle() == 0
    assert not world.partition.crowded()
    await world.create("c", b"[1]")
    assert world.partition.crowded()
    assert not world.partition.crowded(2)
    await world.close()
