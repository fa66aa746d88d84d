"""Two partitions side by side on one bucket: neither sees, changes or removes anything of the other."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from durable_sessions.bucket.format import BucketFormat, ensure_format
from durable_sessions.bucket.layout import FORMAT, FlushedNames, sessions_path
from durable_sessions.bucket.manifest import Manifest, Manifests, encode_manifest
from durable_sessions.clock import ManualClock
from durable_sessions.errors import BucketRefusedError
from durable_sessions.partition_id import PartitionId
from durable_sessions.sessions import event_ids
from durable_sessions.storage.archive import NothingArchived
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.create import Create
from durable_sessions.testing.memory_log import MemoryLog
from durable_sessions.tier.ownership import first_manifest
from durable_sessions.tools.verify import verify
from tests.unit.sessions.world import SessionWorld
from tests.unit.storage.world import GONE_SECONDS, LIMITS, World, key

pytestmark = pytest.mark.anyio

ZERO, FIVE = PartitionId(0, of=8), PartitionId(5, of=8)
SESSIONS = ("alpha", "beta", "gone")


def objects_of(world: World) -> dict[str, bytes]:
    names = FlushedNames(world.partition_id)
    return {
        path: data
        for path, data in world.store.objects.items()
        if names.parse(path) is not None or names.manifest_number(path) is not None
    }


@contextmanager
def untouched(world: World) -> Iterator[None]:
    """Fail if anything of this partition changes meanwhile."""
    before = objects_of(world)
    yield
    assert objects_of(world) == before


@pytest.fixture
async def worlds(tmp_path: Path) -> AsyncIterator[tuple[SessionWorld, SessionWorld]]:
    """Open both; they have one clock, so that the same names are created in the same millisecond."""
    zero = await SessionWorld(tmp_path, partition_id=ZERO).open()
    await ensure_format(zero.store, BucketFormat(partitions=8))
    five = await SessionWorld(tmp_path, partition_id=FIVE, beside=zero).open()
    yield zero, five
    await zero.close()
    await five.close()


async def write(world: SessionWorld, count: int) -> None:
    for session in SESSIONS:
        await world.send(session, *({"type": "user.message", "n": n} for n in range(count)))
    await world.send("alpha", {"id": f"mine-{count}", "type": "user.message"}, idempotency=f"key-{count}")


async def ids_of(world: SessionWorld) -> set[str]:
    found: set[str] = set()
    for session in ("alpha", "beta"):
        found.update(event["id"] for event in await world.events(session))
    return {event for event in found if not event.startswith("mine-")}


def numbers_of(world: World) -> set[int]:
    _, flushed = world.archive.streams_after(0, "", 1_000)
    return {*world.partition._state.by_id, *(stream.id for stream in flushed)}


async def test_partitions_share_a_bucket_and_nothing_in_it(
    worlds: tuple[SessionWorld, SessionWorld],
) -> None:
    for count in range(1, 10):
        for own, other in (worlds, worlds[::-1]):
            with untouched(other):
                await write(own, count)
                await own.flush()
        worlds[0].clock.advance(1.0)
    for own, other in (worlds, worlds[::-1]):
        with untouched(other):
            await own.maintain()
            assert own.maintenance.compactor.merges
    orphans = {world: sessions_path(world.partition_id, 1) for world in worlds}
    for own, other in (worlds, worlds[::-1]):
        await own.store.put(orphans[own], b"left by a crash")
        await own.delete("sessions/gone")
        with untouched(other):
            await own.flush()
    kept = [await ids_of(world) for world in worlds]
    for own, other in (worlds, worlds[::-1]):
        with untouched(other):
            for _ in range(4):
                own.clock.advance(GONE_SECONDS)
                await own.maintain()
            assert own.maintenance.sweeper.removed
            assert orphans[own] not in own.store.objects
    for own, other, ids in zip(worlds, worlds[::-1], kept, strict=True):
        assert (await verify(own.store, None, partition=own.partition_id)).problems == []
        with untouched(other):
            await own.reopen(forget_catalog=True)
            assert await ids_of(own) == ids, "made anew from the bucket, without the catalog"
            again = await own.send("alpha", {"id": "mine-9", "type": "user.message"}, idempotency="key-9")
            assert all(isinstance(event, int) for event in again.events), "and it knows what it has taken"
            await write(own, 10)
            await own.send("new", {"type": "user.message"})
            await own.flush()
        assert (await verify(own.store, None, partition=own.partition_id)).problems == []
    zero, five = worlds
    assert numbers_of(zero) == {1, 2, 4, 5}
    assert numbers_of(five) == {(5 << 40) + number for number in numbers_of(zero)}
    given = [await ids_of(world) for world in worlds]
    assert len(given[0]) == len(given[1]) > 90
    assert given[0].isdisjoint(given[1])
    tags = [{event_ids.tag(world.find(one).stream) for one in ("alpha", "beta", "new")} for world in worlds]
    assert tags[0].isdisjoint(tags[1]), "sessions of one name and one moment have different incarnations"
    left = set(zero.store.objects) - set(objects_of(zero)) - set(objects_of(five))
    assert left == {FORMAT}


async def test_a_manifest_that_numbers_streams_as_another_partition_is_refused(
    worlds: tuple[SessionWorld, SessionWorld], tmp_path: Path
) -> None:
    zero, five = worlds
    await five.create("one")
    await five.flush()
    found: Manifest | None = await Manifests(zero.store, FIVE).newest()
    assert found is not None
    six = World(tmp_path, partition_id=PartitionId(6, of=8), beside=zero)
    six.log = five.log
    copied = encode_manifest(msgspec.structs.replace(found, number=7))
    await zero.store.put("partitions/06/manifest/000000000007.json", copied)
    before = dict(zero.store.objects)
    with pytest.raises(BucketRefusedError, match="manifest 7 of partition 6 gives the number 54975"):
        await six.open()
    assert zero.store.objects == before


async def test_the_first_manifest_begins_with_the_first_number(
    worlds: tuple[SessionWorld, SessionWorld],
) -> None:
    for world in worlds:
        number = world.partition_id.streams.start
        assert first_manifest(world.partition_id, world.clock).next_stream == number
        assert world.archive.manifest.next_stream == number


@pytest.mark.parametrize("partition_id", [ZERO, FIVE])
async def test_a_partition_without_a_bucket_numbers_its_streams_too(partition_id: PartitionId) -> None:
    log, first = MemoryLog(), partition_id.streams.start
    for count in range(2):
        partition = await Partition.open(log, ManualClock(), LIMITS, NothingArchived(partition_id))
        assert partition._state.next_id == first + count
        await partition.create(key(f"s{count}"), Create(content_type="text/plain"))
        assert partition.find(key(f"s{count}")).stream.id == first + count
        await partition.close()
