"""The janitor: what other generations wrote goes when nobody refers to it, and nothing else ever does."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.bucket.format import ensure_format, raise_version
from durable_sessions.bucket.layout import generation_of
from durable_sessions.bucket.manifest import GarbageInfo, Manifest, Manifests, SegmentInfo
from durable_sessions.bucket.objects import ObjectInfo
from durable_sessions.bucket.partition_layout import PartitionLayout, commit_layout
from durable_sessions.clock import ManualClock
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.partition_id import PartitionId
from durable_sessions.testing.bucket import MemoryBucket
from durable_sessions.tier.janitor import Janitor, plan_generations
from durable_sessions.tier.sweeper import GARBAGE, RELEASED, plan

NOW = 1_000_000_000
GRACE_MS = int(DEFAULT_LIMITS.orphan_grace_seconds * 1000)
OLD = NOW - GRACE_MS
LAYOUT = PartitionLayout(generation=2, partitions=2, number=1, created_at_ms=OLD)
SEGMENT = "events/date=2026-01-31/00-000000000050.parquet"


def segment(path: str) -> SegmentInfo:
    return SegmentInfo(path, 1, 1, "", 1, "", 0, 0, 1, 1, 1)


def manifest(*segments: str, garbage: tuple[str, ...] = ()) -> Manifest:
    return Manifest(
        number=50,
        writer="w",
        flushed_through=1,
        next_stream=2,
        created_at_ms=NOW,
        segments=tuple(map(segment, segments)),
        garbage=tuple(GarbageInfo(path=path, since_ms=0) for path in garbage),
    )


def removed(layout: PartitionLayout, manifests: list[Manifest], *paths: str, at_ms: int = OLD) -> list[str]:
    listing = [ObjectInfo(path, 1, at_ms) for path in paths]
    return [one.path for one in plan_generations(layout, manifests, listing, NOW, DEFAULT_LIMITS)]


@pytest.mark.parametrize(
    ("path", "generation"),
    [
        (SEGMENT, 0),
        ("events/date=2026-01-31/12-sys-000000000050-1.parquet", 12),
        ("sessions/3-07-000000000050-part2-1.parquet", 3),
        ("partitions/sys/manifest/000000000050.json", 0),
        ("partitions/1-00/subscriptions/000000000050.batch", 1),
        ("partitions/1-00/catalog/000000000050.snapshot", 1),
        ("partitions/1-00/else/000000000050.snapshot", None),
        ("cluster/layout/000000000001.json", None),
        ("artifacts/default/sha256/ab/abcd", None),
        ("format.json", None),
        ("sessions/00-50.parquet", None),
        ("sessions/0-00-000000000050.parquet", None),
    ],
)
def test_the_generation_is_in_the_name(path: str, generation: int | None) -> None:
    assert generation_of(path) == generation


def test_what_no_partition_names_goes_and_what_one_names_stays() -> None:
    gone, shared, garbage = (SEGMENT.replace("50", number) for number in ("51", "52", "53"))
    manifests = [manifest(shared), manifest(shared, garbage=(garbage,)), manifest()]
    leftover = "sessions/7-00-000000000001.parquet"
    own = "sessions/2-00-000000000001.parquet"
    assert removed(LAYOUT, manifests, gone, shared, garbage, leftover, own, "else") == [gone, leftover]


@pytest.mark.parametrize("later", [0, 1])
def test_both_generations_stay_for_a_while(later: int) -> None:
    layout = msgspec.structs.replace(LAYOUT, created_at_ms=OLD + later)
    assert removed(layout, [manifest()], SEGMENT) == ([] if later else [SEGMENT])
    assert removed(LAYOUT, [manifest()], SEGMENT, at_ms=OLD + later) == ([] if later else [SEGMENT])


NAMES = st.builds(
    "{}{:02d}-{:012d}".format, st.sampled_from(["", "1-", "2-", "3-"]), st.integers(0, 1), st.integers(1, 3)
).map(lambda name: f"sessions/{name}.parquet")


@given(st.lists(st.lists(NAMES), min_size=1, max_size=4), st.lists(NAMES))
def test_it_never_removes_what_is_named_or_of_its_own_generation(
    named: list[list[str]], listed: list[str]
) -> None:
    gone = removed(LAYOUT, [manifest(*paths) for paths in named], *listed)
    assert not any(path in gone for paths in named for path in paths)
    assert not any("/2-" in path for path in gone)


def test_a_partition_forgets_shared_garbage_and_removes_its_own() -> None:
    own = "events/date=2026-01-31/2-00-000000000050.parquet"
    holds = manifest(garbage=(SEGMENT, own))
    assert plan(holds, PartitionId(0, 2, 2), [], NOW, DEFAULT_LIMITS) == [(SEGMENT, RELEASED), (own, GARBAGE)]


@pytest.mark.anyio
async def test_it_does_nothing_where_it_cannot_know() -> None:
    memory, clock = MemoryBucket(), ManualClock(NOW)
    janitor = Janitor(memory, PartitionId(100, 2, 2), clock, DEFAULT_LIMITS)
    memory.objects[SEGMENT] = b""
    assert await janitor.sweep() == 0, "the bucket is new"
    await raise_version(memory, await ensure_format(memory))
    assert await janitor.sweep() == 0, "the bucket is of another generation"
    await commit_layout(memory, msgspec.structs.replace(LAYOUT, created_at_ms=0))
    assert await janitor.sweep() == 0, "no partition says what it needs"
    for one in LAYOUT.all[:-1]:
        await Manifests(memory, one).create_next(msgspec.structs.replace(manifest(), number=1))
    assert await janitor.sweep() == 0, "one partition has not said it"
    await Manifests(memory, LAYOUT.all[-1]).create_next(msgspec.structs.replace(manifest(), number=1))
    clock.advance(GRACE_MS)
    assert await janitor.sweep() == 1
    assert SEGMENT not in memory.objects
    assert janitor.removed == 1
