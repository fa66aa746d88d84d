"""Sweeping: what nothing refers to goes in time, and nothing else ever does."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.bucket.manifest import CheckpointInfo, GarbageInfo, Manifest, Manifests
from durable_sessions.bucket.objects import ObjectInfo
from durable_sessions.errors import BucketError, ManifestLostError
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from durable_sessions.streams.effects import SubscriptionCreated
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.next_manifest import referred
from durable_sessions.tier.subscription_objects import CHANGES, SUBSCRIPTIONS
from durable_sessions.tier.sweeper import GARBAGE, OLD_MANIFEST, ORPHAN, Removal, plan
from tests.unit.storage.world import LIMITS, World

pytestmark = pytest.mark.anyio

GRACE, ORPHANED = LIMITS.garbage_grace_seconds, LIMITS.orphan_grace_seconds
NOW = 1_000_000_000
OLD = NOW - int(DEFAULT_LIMITS.orphan_grace_seconds * 1000)


def manifest(number: int = 50, **members: object) -> Manifest:
    made = Manifest(number=number, writer="w", flushed_through=1, next_stream=2, created_at_ms=NOW)
    return msgspec.structs.replace(made, **members)


def checkpoint(path: str) -> CheckpointInfo:
    return CheckpointInfo(path=path, bytes=1, rows=1, sha256="")


def listing(*paths: str, at_ms: int = OLD) -> list[ObjectInfo]:
    return [ObjectInfo(path, 1, at_ms) for path in paths]


def planned(
    holds: Manifest,
    found: list[ObjectInfo],
    now_ms: int = NOW,
    partition: PartitionId = ONLY_PARTITION,
) -> list[Removal]:
    return plan(holds, partition, found, now_ms, DEFAULT_LIMITS)


EVENTS = "events/date=2026-01-31/00-000000000050.parquet"


@pytest.mark.parametrize(
    "path",
    [
        EVENTS,
        "events/date=2026-01-31/00-000000000003-7.parquet",
        "sessions/00-000000000003.parquet",
        "sessions/00-000000000003-part2.parquet",
        "sessions/00-000000000003-part2-1.parquet",
        "partitions/00/subscriptions/000000000003.batch",
        "partitions/00/subscriptions/000000000003-1.batch",
        "partitions/00/subscriptions/000000000003-1.changes",
    ],
)
def test_an_object_of_ours_that_nothing_refers_to_goes_when_it_is_old(path: str) -> None:
    assert planned(manifest(), listing(path)) == [Removal(path, ORPHAN)]
    assert planned(manifest(), listing(path, at_ms=OLD + 1)) == []
    assert planned(manifest(checkpoints=(checkpoint(path),)), listing(path)) == []
    place = msgspec.Raw(msgspec.json.encode(checkpoint(path)))
    assert planned(manifest(extra={SUBSCRIPTIONS: place}), listing(path)) == []
    places = msgspec.Raw(msgspec.json.encode([checkpoint(path)]))
    assert planned(manifest(extra={CHANGES: places}), listing(path)) == []


@pytest.mark.parametrize(
    "path",
    [
        "events/date=2026-01-31/00-000000000051.parquet",  # the next manifest may refer to it
        "events/date=2026-01-31/01-000000000003.parquet",  # another partition's
        "events/mine.parquet",
        "events/date=2026-01-31/00-000000000003.parquet.bak",
        "sessions/notes.txt",
        "partitions/00/manifest/000000000041.json",
        "partitions/00/manifest/000000000050.json",
        "partitions/00/manifest/000000000051.json",
        "partitions/00/manifest/readme.json",
        "partitions/00/other/000000000003.batch",
        "partitions/01/manifest/000000000001.json",
        "artifacts/sha256/ab/ab12",
        "format.json",
    ],
)
def test_whatever_else_is_in_the_bucket_stays(path: str) -> None:
    assert planned(manifest(), listing(path, at_ms=0)) == []


@pytest.mark.parametrize("number", [0, 5])
def test_a_partition_sweeps_its_own_objects_only(number: int) -> None:
    names = (
        "events/date=2026-01-31/{}-000000000003.parquet",
        "sessions/{}-000000000003.parquet",
        "partitions/{}/subscriptions/000000000003.batch",
        "partitions/{}/manifest/000000000003.json",
    )
    everything = listing(*(name.format(f"{each:02d}") for each in range(8) for name in names))
    removals = planned(manifest(), everything, partition=PartitionId(number, of=8))
    assert [one.path for one in removals] == [name.format(f"{number:02d}") for name in names]


def test_all_but_the_newest_manifests_go() -> None:
    paths = [f"partitions/00/manifest/{number:012d}.json" for number in range(38, 51)]
    assert planned(manifest(), listing(*paths, at_ms=NOW)) == [
        Removal(path, OLD_MANIFEST) for path in paths[:3]
    ]


def test_garbage_goes_after_its_grace_time_listed_or_not() -> None:
    since = NOW - int(DEFAULT_LIMITS.garbage_grace_seconds * 1000)
    holds = manifest(garbage=(GarbageInfo("events/x", since), GarbageInfo(EVENTS, since + 1)))
    assert planned(holds, []) == [Removal("events/x", GARBAGE)]
    assert planned(holds, listing("events/x", EVENTS)) == [Removal("events/x", GARBAGE)]
    assert planned(holds, [], NOW + 1) == [Removal("events/x", GARBAGE), Removal(EVENTS, GARBAGE)]


names = st.builds(
    lambda kind, number, suffix: kind.format(number) + suffix,
    st.sampled_from(["events/date=2026-01-31/00-{:012d}", "sessions/00-{:012d}"]),
    st.integers(0, 60),
    st.sampled_from([".parquet", "-1.parquet"]),
)


@given(
    live=st.sets(names, max_size=5),
    garbage=st.lists(st.tuples(names, st.integers(0, NOW)), max_size=5),
    others=st.lists(st.tuples(names, st.integers(0, NOW)), max_size=10),
)
def test_a_plan_never_names_what_the_manifest_refers_to_or_what_may_come_to_be_referred_to(
    live: set[str], garbage: list[tuple[str, int]], others: list[tuple[str, int]]
) -> None:
    holds = manifest(
        checkpoints=tuple(map(checkpoint, sorted(live))),
        garbage=tuple(GarbageInfo(path, since) for path, since in garbage),
    )
    found = [ObjectInfo(path, 1, at) for path, at in {**dict.fromkeys(live, 0), **dict(others)}.items()]
    for removal in planned(holds, found):
        assert removal.path not in live
        if removal.reason == ORPHAN:
            assert dict(others)[removal.path] <= OLD
            assert int(removal.path.split("00-")[1][:12]) <= holds.number
            assert removal.path not in dict(garbage)


# In a bucket ----------------------------------------------------------------------------------


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = await World(tmp_path).open()
    yield world
    await world.close()


async def fill(world: World, flushes: int = 4) -> None:
    await world.create("a")
    for number in range(flushes):
        await world.append("a", b"%d" % number)
        await world.flush()


def unreferred(world: World) -> set[str]:
    kept = referred(world.archive.manifest)
    return {path for path in world.store.objects if path not in kept and "manifest" not in path}


async def test_replaced_segments_go_after_the_grace_time(world: World) -> None:
    await fill(world)
    await world.maintain()
    assert len(unreferred(world)) == 4
    world.clock.advance(GRACE - 0.001)
    await world.maintain()
    assert len(unreferred(world)) == 4
    world.clock.advance(0.001)
    await world.maintain()
    assert not unreferred(world)
    assert world.archive.manifest.garbage == ()
    assert await world.read("a") == b"0,1,2,3,"


async def test_orphans_and_old_manifests_go_when_the_bucket_is_listed(world: World) -> None:
    await fill(world, 2)
    world.faults.order("fail", "create", path="manifest")
    await world.append("a", b'"once more"')
    with pytest.raises(BucketError):
        await world.flush()
    await world.reopen()  # what was tried is forgotten, and written anew beside it
    await world.flush()
    assert len(unreferred(world)) == 2
    world.clock.advance(ORPHANED - 1)
    await world.maintain()
    assert len(unreferred(world)) == 2
    world.clock.advance(ORPHANED)
    await world.maintain()
    assert not unreferred(world)
    for number in range(15):
        await world.append("a", b"%d" % number)
        await world.flush()
        await world.maintain()
    world.clock.advance(ORPHANED)
    await world.maintain()
    world.clock.advance(ORPHANED)
    await world.maintain()
    assert len([path for path in world.store.objects if "manifest" in path]) == LIMITS.manifests_kept_max
    assert (await world.read("a")).startswith(b'0,1,"once more",')


async def test_a_replaced_record_of_subscriptions_goes(world: World) -> None:
    count = LIMITS.subscription_changes_max + 2
    for number in range(count):
        made = SubscriptionCreated(
            "default", f"s{number}", b'{"type":"pull-wake","lease_ttl_ms":1000}', "", 0
        )
        await world.partition.commit(lambda state, now_ms, made=made: ([made], None))  # type: ignore[misc]
        await world.flush()
    whole, *changes = [one.path for one in world.archive.manifest.garbage]
    assert whole == "partitions/00/subscriptions/000000000002.batch"
    assert len(changes) == count - 2
    assert all(path.endswith(".changes") for path in changes)
    world.clock.advance(GRACE)
    await world.maintain()
    assert not [path for path in unreferred(world) if "subscriptions" in path]
    await world.reopen()
    assert len(world.partition._state.subscriptions.snapshot()) == count


async def test_garbage_goes_after_a_restart_too_although_nothing_is_written(world: World) -> None:
    await fill(world)
    await world.maintain()
    await world.reopen()
    world.clock.advance(GRACE)
    await world.maintain()
    assert not unreferred(world)


async def test_a_sweep_with_nothing_to_remove_writes_no_manifest(world: World) -> None:
    await fill(world, 1)
    await world.reopen()
    opened = world.archive.manifest.number
    world.clock.advance(1_000)
    await world.maintain()
    assert world.archive.manifest.number == opened


async def test_who_was_overtaken_removes_nothing(world: World, tmp_path: Path) -> None:
    await fill(world)
    await world.maintain()
    rival = await BucketArchive.open(
        world.store,
        tmp_path / "r.sqlite",
        world.clock,
        RandomIds(),
        LIMITS,
        log=None,
        partition=ONLY_PARTITION,
    )
    world.clock.advance(GRACE)
    await rival.confirmed()
    before = dict(world.store.objects)
    for _ in range(2):
        with pytest.raises(ManifestLostError):
            await world.maintenance.step()
    assert world.store.objects == before
    await rival.close()


@pytest.mark.parametrize("kind", ["fail", "lose_answer"])
async def test_a_failure_at_any_call_of_a_sweep_changes_no_answer(tmp_path: Path, kind: str) -> None:
    failed, skip = True, 0
    while failed:
        folder = tmp_path / str(skip)
        folder.mkdir()
        world = await World(folder, replace(LIMITS, manifests_kept_max=2)).open()
        await fill(world)
        await world.maintain()
        world.faults.order("fail", "create", path="manifest")
        await world.append("a", b"4")
        with pytest.raises(BucketError):
            await world.flush()
        await world.reopen()
        await world.flush()
        world.clock.advance(ORPHANED + GRACE)
        world.faults.order(kind, skip=skip)  # type: ignore[arg-type]
        try:
            await world.maintain()
            failed = False
        except BucketError:
            pass
        world.faults.heal()
        assert await world.read("a") == b"0,1,2,3,4,"
        await world.reopen(forget_catalog=bool(skip % 2))
        assert await world.read("a") == b"0,1,2,3,4,"
        await world.maintain_for(2 * ORPHANED)
        assert not unreferred(world)
        assert await world.read("a") == b"0,1,2,3,4,"
        newest = await Manifests(world.store, ONLY_PARTITION).newest()
        assert newest is not None
        assert newest.garbage == ()
        await world.close()
        skip += 1
    assert skip > 8
