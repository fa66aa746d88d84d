"""Compaction: fewer segments, the same answers, and what was deleted is gone."""

import asyncio
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from pathlib import Path

import pytest

from durable_sessions.bucket.manifest import CheckpointInfo, Manifests
from durable_sessions.errors import BucketError, ManifestLostError
from durable_sessions.ids import RandomIds
from durable_sessions.node.supervisor import Supervisor
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.catalog import Change
from durable_sessions.tier.segment_unpacker import Runs, WholeSegment
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.storage.world import GONE_SECONDS, LIMITS, World, key

pytestmark = pytest.mark.anyio

DAY_SECONDS = 24 * 3600


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = await World(tmp_path).open()
    yield world
    await world.close()


async def fill(world: World, flushes: int = 4, paths: tuple[str, ...] = ("a", "b")) -> None:
    """Write to each stream before each flush: one segment each."""
    for number in range(flushes):
        for path in paths:
            if number == 0:
                await world.create(path)
            await world.append(path, b'[{"n":%d},"of %s"]' % (number, path.encode()))
        await world.flush()


def checkpoints(world: World) -> list[CheckpointInfo]:
    return list(world.archive.manifest.checkpoints)


async def failure(world: World) -> str:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while world.maintenance.failure is None:
            await asyncio.sleep(0.001)
        return world.maintenance.failure.reason


async def answers(world: World, *paths: str) -> list[bytes]:
    return [await world.read(path) for path in paths]


async def test_enough_small_segments_become_one_and_every_record_stays(world: World) -> None:
    await fill(world, 3)
    assert await world.maintain() == 0
    assert len(world.segments()) == 3
    await world.append("a", b"1")
    await world.flush()
    before = await answers(world, "a", "b")
    old = world.segments()
    assert await world.maintain() == 1
    assert len(world.segments()) == 1
    assert await answers(world, "a", "b") == before
    assert [one.path for one in world.archive.manifest.garbage] == old
    assert all(path in world.store.objects for path in old), "readers may still be at them"


async def test_an_append_of_many_messages_stays_one(world: World) -> None:
    await world.create("a")
    await world.append("a", b"[1,2,3]")
    await world.flush()
    for number in range(3):
        await world.append("a", b"[%d,0]" % number)
        await world.flush()
    await world.maintain()
    durable = world.partition.find(key("a"))
    ends = [await world.partition._reader.append_end(durable, position) for position in range(9)]
    assert ends == [3, 3, 3, 5, 5, 7, 7, 9, 9]


async def test_an_append_that_fills_several_row_groups_stays_one(world: World) -> None:
    message = b'"%s"' % (b"x" * 1_000)
    await world.create("a")
    await world.append("a", b"[" + b",".join([message] * 3_000) + b"]")
    await world.flush()
    for _ in range(3):
        await world.append("a", b"1")
        await world.flush()
    await world.maintain()
    assert len(world.segments()) == 1
    durable = world.partition.find(key("a"))
    ends = [await world.partition._reader.append_end(durable, at) for at in (0, 1_500, 2_999, 3_000)]
    assert ends == [3_000, 3_000, 3_000, 3_001]
    assert await world.read("a", 1 << 20) == (message + b",") * 3_000 + b"1,1,1,"


async def test_bytes_and_json_streams_merge_side_by_side(world: World) -> None:
    await world.partition.create(key("text"), Create(content_type="text/plain"))
    await fill(world, 3)
    for number in range(3):
        await world.partition.append(key("text"), Append(b"<%d>" % number, "text/plain"))
        await world.flush()
    before = await answers(world, "a", "b", "text")
    await world.maintain()
    assert len(world.segments()) == 1
    assert await answers(world, "a", "b", "text") == before
    assert before[2] == b"<0><1><2>"
    durable = world.partition.find(key("text"))
    assert [await world.partition._reader.append_end(durable, at) for at in (0, 2, 3, 8)] == [3, 3, 6, 9]


async def test_segments_of_different_days_stay_apart(world: World) -> None:
    await fill(world, 3)
    world.clock.advance(DAY_SECONDS)
    for _ in range(3):
        await world.append("a", b"1")
        await world.flush()
    assert await world.maintain() == 0
    before = await answers(world, "a", "b")
    world.clock.advance(DAY_SECONDS)
    assert await world.maintain() == 1, "the first day is over, so that all of it goes together"
    assert len({path.split("/")[1] for path in world.segments()}) == 2
    assert len(world.segments()) == 4
    assert await answers(world, "a", "b") == before


async def test_a_merge_reads_no_more_than_it_may(tmp_path: Path) -> None:
    world = await World(tmp_path, replace(LIMITS, compaction_bytes_max=7_000)).open()
    await fill(world, 4)
    assert 2 < 7_000 / world.archive.manifest.segments[0].bytes < 3
    assert await world.maintenance.step()
    assert len(world.segments()) == 3, "two fit, and became one"
    await world.close()


async def test_the_catalog_made_anew_says_the_same(world: World) -> None:
    await fill(world, 5, ("a", "b", "c"))
    await world.fork("f", "a")
    await world.append("f", b"5")
    await world.delete("a")
    await world.delete("c")
    await world.flush()
    before = await answers(world, "b", "f")
    for _ in range(3):
        said = world.catalog()
        await world.reopen(forget_catalog=True)
        assert world.catalog() == said
        assert await answers(world, "b", "f") == before
        world.clock.advance(GONE_SECONDS / 2)
        await world.maintain()
    assert not said["dirty"]


async def test_what_was_deleted_is_gone_from_the_bucket_in_the_stated_time(world: World) -> None:
    await fill(world, 3, ("kept", "secret-path"))
    await world.append("secret-path", b'{"text":"secret-payload"}')
    await world.append("kept", b'{"text":"kept-payload"}')
    await world.flush()
    assert list(world.holding(b"secret-payload"))
    assert list(world.holding(b"secret-path"))
    await world.delete("secret-path")
    await world.flush()
    await world.maintain_for(GONE_SECONDS)
    assert list(world.holding(b"secret-payload")) == []
    assert list(world.holding(b"secret-path")) == []
    assert list(world.holding(b"kept-payload")) == world.segments()
    assert (await world.read("kept")).endswith(b'{"text":"kept-payload"},')


async def test_it_is_gone_in_time_even_if_the_catalog_is_lost_and_the_bucket_fails_for_a_while(
    world: World,
) -> None:
    await fill(world, 2, ("kept", "secret-path"))
    await world.delete("secret-path")
    await world.flush()
    await world.reopen(forget_catalog=True)
    await world.maintain_for(GONE_SECONDS / 4)
    world.faults.order("fail", times=1_000_000)
    await world.maintain_for(GONE_SECONDS / 4)
    world.faults.heal()
    await world.maintain_for(GONE_SECONDS / 2)
    assert list(world.holding(b"secret-path")) == []
    await world.reopen()
    assert (await world.read("kept")).startswith(b'{"n":0}')


async def test_deletes_wait_for_each_other_so_that_a_segment_is_not_rewritten_for_each(world: World) -> None:
    await fill(world, 1, ("a", "b", "c", "d"))
    for path in ("a", "b", "c"):
        await world.delete(path)
        await world.flush()
        await world.maintain_for(10)
    assert world.maintenance.compactor.merges == 0
    await world.maintain_for(GONE_SECONDS)
    assert world.maintenance.compactor.merges == 1
    assert world.archive.manifest.segments[0].streams == 1


async def test_a_segment_of_which_nothing_is_left_is_not_replaced_by_an_empty_one(world: World) -> None:
    await fill(world, 2, ("a",))
    await world.delete("a")
    await world.flush()
    await world.maintain_for(GONE_SECONDS)
    assert world.archive.manifest.segments == ()
    assert not [path for path in world.store.objects if path.startswith("events/")]


async def test_records_that_forks_read_stay_until_the_last_fork_goes(world: World) -> None:
    await fill(world, 2, ("source",))
    await world.fork("fork", "source")
    await world.append("fork", b'"own"')
    await world.delete("source")
    await world.flush()
    before = await world.read("fork")
    await world.maintain_for(GONE_SECONDS)
    assert await world.read("fork") == before
    await world.delete("fork")
    await world.flush()
    await world.maintain_for(GONE_SECONDS)
    assert list(world.holding(b"of source")) == []


async def test_a_removal_that_is_not_flushed_drops_nothing_yet(world: World) -> None:
    await fill(world, 4, ("a", "b"))
    await world.delete("a")
    await world.maintain()
    assert list(world.holding(b"of a"))
    await world.reopen(forget_catalog=True)
    await world.flush()
    await world.maintain_for(GONE_SECONDS)
    assert list(world.holding(b"of a")) == []


async def test_readers_across_a_merge_see_every_record(world: World) -> None:
    await fill(world, 8)
    durable = world.partition.find(key("a"))
    before = await world.read("a")

    async def read_slowly() -> bytes:
        data, position = b"", 0
        while position < durable.tail:
            found = await world.partition.read(durable, position, 10)
            data, position = data + found.data, found.next
            await asyncio.sleep(0)
        return data

    world.faults.order("delay", "get_range", times=1_000, seconds=0.001)
    readers = [asyncio.create_task(read_slowly()) for _ in range(5)]
    while not await world.maintenance.step():
        await asyncio.sleep(0)
    while world.segments() and await world.maintain():
        pass
    assert [await reader for reader in readers] == [before] * 5
    assert world.maintenance.compactor.merges


async def test_reads_while_the_catalog_goes_over_to_a_merge(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The catalog's thread commits before the event loop hears of it: reads in between must find all."""
    await fill(world, 4)
    before, seen = await answers(world, "a", "b"), []
    apply = world.archive.catalog.apply

    async def slowly(change: Change) -> None:
        seen.append(await answers(world, "a", "b"))
        await apply(change)
        seen.append(await answers(world, "a", "b"))

    monkeypatch.setattr(world.archive.catalog, "apply", slowly)
    assert await world.maintenance.step()
    assert seen == [before, before]


async def test_a_reader_whose_segment_vanishes_under_it_goes_on_in_the_one_that_replaced_it(
    world: World,
) -> None:
    await fill(world, 4)
    before = await world.read("a")
    world.faults.order("delay", "get_range", times=1, seconds=0.05)
    reading = asyncio.create_task(world.read("a"))
    await asyncio.sleep(0.01)
    await world.maintain()
    for one in world.archive.manifest.garbage:
        del world.store.objects[one.path]
    assert await reading == before


async def test_a_damaged_segment_is_left_alone_and_the_others_are_merged(world: World) -> None:
    await fill(world, 5)
    bad = world.segments()[1]
    good = world.store.objects[bad]
    world.store.objects[bad] = bytes(len(good))
    await world.delete("b")
    await world.flush()
    await world.maintain()
    assert len(world.segments()) == 2
    assert bad in world.segments()
    world.store.objects[bad] = good
    world.clock.advance(LIMITS.damaged_retry_seconds)
    await world.maintain()
    assert bad not in world.segments(), "it was repaired, and is tried again after a while"
    assert list(world.holding(b"of b")) == [bad]
    assert len(await world.read("a")) == 5 * len(b'{"n":0},"of a",')


@pytest.mark.parametrize("kind", ["fail", "lose_answer"])
@pytest.mark.parametrize("restart", ["no", "with the catalog", "without it"])
async def test_a_failure_at_any_call_of_a_merge_changes_no_answer(
    tmp_path: Path, kind: str, restart: str
) -> None:
    failed, skip = True, 0
    while failed:
        folder = tmp_path / str(skip)
        folder.mkdir()
        world = await World(folder).open()
        await fill(world, 4, ("a", "b", "c"))
        await world.delete("c")
        await world.flush()
        before = await answers(world, "a", "b")
        world.clock.advance(GONE_SECONDS / 2)
        world.faults.order(kind, skip=skip)  # type: ignore[arg-type]
        failed = False
        try:
            await world.maintain()
        except BucketError:
            failed = True
        world.faults.heal()
        assert await answers(world, "a", "b") == before
        if restart != "no":
            await world.reopen(forget_catalog=restart == "without it")
            assert await answers(world, "a", "b") == before
        await world.append("a", b'"after"')
        await world.flush()
        assert await world.read("a") == before[0] + b'"after",'
        await world.maintain_for(2 * GONE_SECONDS)
        assert await answers(world, "a", "b") == [before[0] + b'"after",', before[1]]
        assert list(world.holding(b"of c")) == []
        said = world.catalog()
        await world.reopen(forget_catalog=True)
        assert world.catalog() == said
        await world.close()
        skip += 1
    assert skip > 10


async def test_a_flush_settles_a_merge_whose_outcome_is_unknown(world: World) -> None:
    await fill(world, 4)
    world.faults.order("lose_answer", "create", path="manifest")
    with pytest.raises(BucketError):
        await world.maintenance.step()
    assert len(world.segments()) == 4
    await world.append("a", b"1")
    await world.flush()
    assert len(world.segments()) == 2
    assert len((await world.read("a")).split(b",")) == 10


async def test_a_manifest_that_comes_back_damaged_is_looked_at_again(world: World) -> None:
    await fill(world, 3)
    await world.append("a", b"1")
    world.faults.order("lose_answer", "create", path="manifest")
    world.faults.order("corrupt", "get", path="manifest", times=2)
    for _ in range(3):
        with pytest.raises(BucketError):
            await world.flush()
    await world.flush()
    assert len(world.segments()) == 4


async def test_a_merge_waits_until_a_flush_of_unknown_outcome_is_settled_by_a_flush(world: World) -> None:
    await fill(world, 4)
    await world.append("a", b"1")
    world.faults.order("lose_answer", "create", path="manifest")
    with pytest.raises(BucketError):
        await world.flush()
    assert not await world.maintenance.step()
    await world.flush()
    assert world.partition.backlog.oldest is None
    assert await world.maintenance.step()


async def test_a_late_write_of_a_manifest_that_seemed_lost_is_no_other_than_the_one_tried_again(
    world: World,
) -> None:
    """The request comes to the store after we have looked for it: the second try must be the same."""
    await fill(world, 1)
    await world.append("a", b"1")
    held: list[tuple[str, bytes]] = []
    create = world.store.create

    async def late(path: str, data: bytes) -> None:
        if "manifest" in path:
            held.append((path, data))
            raise BucketError(reason="no answer")
        await create(path, data)

    world.store.create = late  # type: ignore[method-assign]
    with pytest.raises(BucketError):
        await world.flush()

    async def overtaken(path: str, data: bytes) -> None:
        world.store.create = create  # type: ignore[method-assign]
        await create(*held[0])
        await create(path, data)

    world.store.create = overtaken  # type: ignore[method-assign]
    await world.append("a", b"2")
    await world.flush()
    before = await world.read("a")
    await world.reopen(forget_catalog=True)
    assert await world.read("a") == before


async def test_who_was_overtaken_by_another_writer_changes_nothing(world: World, tmp_path: Path) -> None:
    await fill(world, 4)
    rival = await BucketArchive.open(
        world.store,
        tmp_path / "rival.sqlite",
        world.clock,
        RandomIds(),
        LIMITS,
        log=None,
        partition=ONLY_PARTITION,
    )
    await rival.confirmed()
    with pytest.raises(ManifestLostError):
        await world.maintenance.step()
    newest = await Manifests(world.store, ONLY_PARTITION).newest()
    assert newest is not None
    assert newest.writer == rival.manifest.writer
    assert len(world.segments()) == 4
    await rival.close()


async def test_many_checkpoints_become_a_full_one_in_parts(tmp_path: Path) -> None:
    world = await World(tmp_path, replace(LIMITS, checkpoints_max=5, checkpoint_rows_max=3)).open()
    for number in range(5):
        await world.create(f"s{number}", b"[1]", ttl_seconds=1_000)
        await world.create(f"t{number}")
        await world.flush()
    await world.delete("t0")
    await world.flush()
    assert len(checkpoints(world)) == 6
    await world.maintain()
    parts = checkpoints(world)
    assert [part.rows for part in parts] == [3, 3, 3]
    said = world.catalog()
    await world.reopen(forget_catalog=True)
    assert world.catalog() == said
    for _ in range(3):
        await world.append("s1", b"2")
        await world.flush()
        await world.maintain()
    assert checkpoints(world)[:3] == parts, "parts of a full one do not count"
    assert world.maintenance.compactor.full_checkpoints == 0
    await world.close()


async def test_parts_of_a_full_checkpoint_are_bounded_by_their_size_too(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("durable_sessions.tier.checkpoints._STATE_BYTES_MAX", 100)
    for number in range(9):
        await world.create(f"s{number}")
    await world.delete("s0")
    await world.flush()
    said = world.catalog()["streams"]
    await world.maintain_for(GONE_SECONDS)
    assert [part.rows for part in checkpoints(world)] == [2, 2, 2, 2]
    await world.reopen(forget_catalog=True)
    assert world.catalog()["streams"] == said


async def test_merging_pauses_while_nothing_can_be_removed(tmp_path: Path) -> None:
    world = await World(tmp_path, replace(LIMITS, garbage_max=4)).open()
    await fill(world, 4)
    assert await world.maintain() == 1
    for _ in range(4):
        await world.append("a", b"1")
        await world.flush()
    assert await world.maintain() == 0
    world.clock.advance(LIMITS.garbage_grace_seconds)
    assert await world.maintain() == 2, "the garbage goes, then the merge is made"
    await world.close()


async def test_a_merge_that_is_given_up_at_any_call_changes_no_answer(tmp_path: Path) -> None:
    """As when the server stops: what was begun is finished by the next flush, or forgotten."""
    cancelled, skip = True, 0
    while cancelled:
        folder = tmp_path / str(skip)
        folder.mkdir()
        world = await World(folder).open()
        await fill(world, 4)
        before = await answers(world, "a", "b")
        world.faults.order("delay", skip=skip, seconds=3600)
        step = asyncio.create_task(world.maintain())
        while not step.done() and all(fault.times for fault in world.faults._faults):
            await asyncio.sleep(0.001)
        step.cancel()
        cancelled = (await asyncio.gather(step, return_exceptions=True))[0] != 1
        world.faults.heal()
        assert await answers(world, "a", "b") == before
        await world.append("a", b'"after"')
        await world.flush()
        await world.maintain()
        assert await answers(world, "a", "b") == [before[0] + b'"after",', before[1]]
        await world.reopen(forget_catalog=bool(skip % 2))
        assert await answers(world, "a", "b") == [before[0] + b'"after",', before[1]]
        await world.close()
        skip += 1
    assert skip > 5


async def test_in_the_background_it_goes_on_when_the_bucket_works_again(tmp_path: Path) -> None:
    world = await World(tmp_path, replace(LIMITS, maintenance_seconds=0.001)).open()
    await fill(world, 4)
    world.faults.order("fail", times=1_000_000)
    world.maintenance.start(Supervisor(world.clock, world.limits))
    assert "ordered to fail" in await failure(world)
    world.faults.heal()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while world.maintenance.failure is not None or len(world.segments()) > 1:
            await asyncio.sleep(0.001)
    await world.maintenance.close()
    await world.close()


async def test_a_fault_of_ours_stops_it_and_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = await World(tmp_path, replace(LIMITS, maintenance_seconds=0.001)).open()
    await fill(world, 4)
    before = await world.read("a")

    def drop_something(segment: WholeSegment, streams: Collection[int]) -> Runs:
        return dict(list(whole(segment, streams).items())[1:])

    whole = WholeSegment.appends
    monkeypatch.setattr(WholeSegment, "appends", drop_something)
    world.maintenance.start(Supervisor(world.clock, world.limits))
    assert "loses and adds nothing" in await failure(world)
    assert len(world.segments()) == 4
    assert await world.read("a") == before
    await world.maintenance.close()
    await world.close()
