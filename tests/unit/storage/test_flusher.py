"""The flusher: when it flushes, what it does while the bucket fails or is lost, and how it ends."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from durable_sessions.errors import BucketError, ManifestLostError
from durable_sessions.limits import Limits
from durable_sessions.node.supervisor import Supervisor
from durable_sessions.storage import flush as flush_module
from durable_sessions.storage.flush import Flusher
from durable_sessions.streams.effects import StreamDescribed
from durable_sessions.tier.bucket_tier import BucketTier
from tests.support.waiting import until
from tests.unit.storage.world import LIMITS, World, key

pytestmark = pytest.mark.anyio

FLUSH_SECONDS = 60.0
TEXT = b'"%b"' % (b"x" * 100)
QUICK = replace(LIMITS, flush_retry_seconds=0.01)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flush_module, "_POLL_SECONDS", 0.001)


@asynccontextmanager
async def opened(folder: Path, limits: Limits = QUICK) -> AsyncIterator[World]:
    world = await World(folder, limits).open()
    yield world
    await world.close()


def flusher_of(world: World) -> Flusher:
    return Flusher(world.partition, world.clock, world.limits, FLUSH_SECONDS)


@asynccontextmanager
async def running(world: World) -> AsyncIterator[Flusher]:
    flusher = flusher_of(world)
    flusher.start(Supervisor(world.clock, world.limits))
    yield flusher
    await flusher.stop()


async def rounds(flusher: Flusher, count: int = 5) -> None:
    """Let the flusher look several times, whether it flushes or not."""
    for _ in range(count):
        looked = asyncio.Event()
        due = flusher._due

        def looking(due: object = due, looked: asyncio.Event = looked) -> bool:
            looked.set()
            return bool(due())  # type: ignore[operator]

        flusher._due = looking  # type: ignore[method-assign]
        async with asyncio.timeout(60):
            await looked.wait()
        flusher._due = due  # type: ignore[method-assign]
        await asyncio.sleep(0)


# When ---------------------------------------------------------------------------------------


async def test_it_flushes_when_the_oldest_batch_is_old_enough_and_not_before(tmp_path: Path) -> None:
    async with opened(tmp_path) as world, running(world) as flusher:
        await world.create("s", b"[1]")
        world.clock.advance(FLUSH_SECONDS - 0.001)
        await rounds(flusher)
        assert flusher.flushes == 0
        world.clock.advance(0.001)
        await until(lambda: flusher.flushes)
        assert world.partition.backlog.oldest is None


async def test_it_flushes_when_enough_bytes_wait_however_young_they_are(tmp_path: Path) -> None:
    async with opened(tmp_path, replace(QUICK, flush_bytes_max=1_000)) as world, running(world) as flusher:
        await world.create("s")
        await rounds(flusher)
        assert flusher.flushes == 0
        await world.append("s", b'"%b"' % (b"x" * 1_000))
        await until(lambda: world.partition.backlog.bytes_held == 0)
        assert flusher.flushes


async def test_what_a_start_finds_in_its_log_is_flushed_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await world.create("s", b"[1]")
        await world.reopen()
        async with running(world) as flusher:
            await until(lambda: flusher.flushes)
            await rounds(flusher)
            await world.append("s", b"[2]")
            await rounds(flusher)
            assert flusher.flushes == 1, "what comes later waits as usual"


async def test_streams_that_fill_memory_are_flushed_once_per_era_so_that_they_can_leave(
    tmp_path: Path,
) -> None:
    limits = replace(QUICK, active_streams_max=2, era_seconds=5.0)
    async with opened(tmp_path, limits) as world, running(world) as flusher:
        for number in range(4):
            await world.create(f"s{number}", b"[1]")
        world.clock.advance(5.0)
        await rounds(flusher)
        assert flusher.flushes == 0, "twice as many as there may be are not crowded yet"
        await world.create("s4", b"[1]")
        await until(lambda: flusher.flushes)


async def test_documents_that_fill_memory_are_evicted_before_the_era_ends(tmp_path: Path) -> None:
    limits = replace(QUICK, attribute_bytes_max=100, era_seconds=3_600.0)
    async with opened(tmp_path, limits) as world:
        for number in range(3):
            await world.create(f"s{number}", b"[1]")
            described = StreamDescribed(number + 1, world.clock.now_ms(), {"d": TEXT})
            await world.partition.commit(lambda *_, one=described: ([one], None))
        await world.flush()
        async with running(world):
            await until(lambda: not world.partition.active_streams)
        assert world.partition.find(key("s1")).attributes == {"d": TEXT}, "read back from the catalog"


async def test_flush_all_takes_what_is_durable_now_and_nothing_newer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy server adds batches all the time: flush_all must end nevertheless."""
    async with opened(tmp_path, replace(QUICK, flush_effects_max=1)) as world:
        await world.create("s", b"[1]")
        await world.append("s", b"[2]")
        flusher, flush = flusher_of(world), world.partition.flush

        async def busy() -> bool:
            await world.append("s", b"[3]")
            return await flush()

        monkeypatch.setattr(world.partition, "flush", busy)
        async with asyncio.timeout(60):
            await flusher.flush_all()
        assert flusher.flushes == 2
        durable = world.partition.find(key("s"))
        assert (durable.flushed, durable.tail) == (2, 4)


async def test_flush_all_of_nothing_writes_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        before = world.archive.manifest
        await flusher_of(world).flush_all()
        assert world.archive.manifest is before


# Failures -----------------------------------------------------------------------------------


async def test_while_the_bucket_fails_it_is_tried_again_and_both_are_told(tmp_path: Path) -> None:
    async with opened(tmp_path) as world, running(world) as flusher:
        await world.create("s", b"[1]")
        world.faults.order("fail", "create", times=3)
        since_ms = world.clock.now_ms() + int(FLUSH_SECONDS * 1000)
        world.clock.advance(FLUSH_SECONDS)
        failure = await until(lambda: flusher.failure)
        assert failure is not None
        assert failure.since_ms == since_ms
        assert "was ordered to fail" in failure.reason
        await until(lambda: flusher.flushes)
        assert flusher.failure is None
        assert await world.read("s") == b"1,"


async def test_a_failure_is_as_old_as_the_first_of_several(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await world.create("s", b"[1]")
        flusher, began_ms = flusher_of(world), world.clock.now_ms()
        world.faults.order("fail", "create", times=2)
        for _ in range(2):
            with pytest.raises(BucketError):
                await flusher.flush_all()
            world.clock.advance(30)
        assert flusher.failure is not None
        assert flusher.failure.since_ms == began_ms
        await flusher.flush_all()
        assert flusher.failure is None


async def test_a_server_that_is_idle_still_finds_out_that_it_lost_the_bucket(tmp_path: Path) -> None:
    async with opened(tmp_path / "first") as world, running(world):
        rival = await World(tmp_path / "rival", QUICK, beside=world).open()
        assert world.partition.lost is None
        world.clock.advance(FLUSH_SECONDS)
        async with asyncio.timeout(60):
            lost = await world.partition.until_lost()
        assert isinstance(lost, ManifestLostError)
        await rival.close()


async def test_a_flush_that_is_under_way_is_the_only_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await world.create("s", b"[1]")
        flusher = flusher_of(world)
        await asyncio.gather(*(flusher.flush_all() for _ in range(4)))
        assert flusher.flushes == 1


# The end ------------------------------------------------------------------------------------


async def test_the_last_flush_takes_everything(tmp_path: Path) -> None:
    async with opened(tmp_path) as world:
        await world.create("s", b"[1]")
        flusher = flusher_of(world)
        flusher.start(Supervisor(world.clock, world.limits))
        await flusher.close()
        assert world.partition.backlog.oldest is None


@pytest.mark.parametrize("how", ["fails", "hangs"])
async def test_a_bucket_that_is_away_does_not_keep_the_server_from_ending(tmp_path: Path, how: str) -> None:
    async with opened(tmp_path, replace(QUICK, last_flush_seconds_max=0.05)) as world:
        await world.create("s", b"[1]")
        if how == "fails":
            world.faults.order("fail", "create")
        else:
            world.faults.order("delay", "create", seconds=3_600.0)
        flusher = flusher_of(world)
        async with asyncio.timeout(60):
            await flusher.close()
        assert world.partition.backlog.oldest is not None, "it stays in the log until the next start"
        world.faults.heal()
        await world.reopen()
        await world.flush()
        assert await world.read("s") == b"1,"


async def test_a_server_that_lost_the_bucket_ends_without_a_word_more(tmp_path: Path) -> None:
    async with opened(tmp_path / "first") as world:
        await world.create("s", b"[1]")
        rival = await World(tmp_path / "rival", QUICK, beside=world).open()
        await flusher_of(world).close()
        assert isinstance(world.partition.lost, ManifestLostError)
        await rival.close()


# What operators see -------------------------------------------------------------------------


async def test_the_counts_tell_what_was_done_and_what_is_there(tmp_path: Path) -> None:
    limits = replace(QUICK, snapshot_rows_min=1, snapshot_seconds=0.0, block_cache_bytes_max=1 << 20)
    async with opened(tmp_path, limits) as world:
        flusher = flusher_of(world)
        tier = BucketTier(world.archive, flusher, world.maintenance)
        empty = tier.counts()
        assert (empty.flushes, empty.segments, empty.segment_bytes, empty.snapshots) == (0, 0, 0, 0)
        assert empty.snapshot_age_seconds is None
        for number in range(limits.compaction_segments_min):
            await world.create(f"s{number}", b"[1]")
            through = await tier.flush_all()
        assert through.manifest == world.archive.manifest.number
        assert through.flushed_through == world.archive.flushed_through > 0
        await world.maintain()
        await world.maintain_for(limits.garbage_grace_seconds)
        await world.read("s0")
        await world.read("s0")
        counts = tier.counts()
        assert counts.flushes == limits.compaction_segments_min
        assert (counts.merges, counts.segments) == (1, 1)
        assert counts.segment_bytes == world.archive.manifest.segments[0].bytes
        assert counts.objects_removed >= limits.compaction_segments_min
        assert counts.snapshots >= 1
        assert counts.snapshot_age_seconds is not None
        assert counts.cache_misses >= 1
        assert counts.cache_hits >= 1
        assert counts.cache_bytes > 0
        assert (counts.flush_failing, counts.maintenance_failing, tier.failure) == (False, False, None)
        world.faults.order("fail", "create")
        await world.append("s0", b"[2]")
        with pytest.raises(BucketError):
            await tier.flush_all()
        assert tier.counts().flush_failing
        assert tier.failure is not None
