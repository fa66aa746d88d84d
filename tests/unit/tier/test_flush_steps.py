"""The steps of a flush, each by itself: plain values in, plain values out."""

import asyncio
from datetime import UTC, datetime

import msgspec
import pytest

from durable_sessions.bucket.checkpoint import read_checkpoint
from durable_sessions.bucket.manifest import Manifest, Manifests
from durable_sessions.clock import ManualClock
from durable_sessions.errors import BucketError, ManifestLostError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.storage import batch
from durable_sessions.streams.effects import (
    Effect,
    PathFreed,
    RecordsAppended,
    ScopeCreated,
    StreamCreated,
    StreamRemoved,
)
from durable_sessions.streams.state import NothingCold
from durable_sessions.testing.bucket import FaultyBucket
from durable_sessions.tier import stream_codec
from durable_sessions.tier.catalog_view import About
from durable_sessions.tier.flush_contents import FlushContents, flush_contents
from durable_sessions.tier.flush_objects import write_objects
from durable_sessions.tier.manifest_chain import ManifestChain
from durable_sessions.tier.next_manifest import FlushPoint, after_flush, referred, successor
from tests.unit.storage.store import MemoryStore

DAY_MS = 86_400_000
AT_MS = 20_000 * DAY_MS
FIRST = Manifest(number=1, writer="writer_1", flushed_through=0, next_stream=1, created_at_ms=0)


def created(number: int, path: str) -> StreamCreated:
    return StreamCreated(number, "default", path, "application/json", AT_MS)


def appended(number: int, first: int, at_ms: int = AT_MS) -> RecordsAppended:
    return RecordsAppended(number, first, at_ms, (2,), None, None, False, b"1,")


def contents() -> FlushContents:
    effects: list[Effect] = [
        created(1, "kept"),
        created(2, "removed"),
        appended(1, 0),
        appended(2, 0),
        appended(1, 1, AT_MS + DAY_MS),
        StreamRemoved(stream=2),
    ]
    return flush_contents([b"".join(map(batch.encode, effects))], NothingCold(), 1)


def store() -> MemoryStore:
    return MemoryStore(ManualClock())


def test_folding_gives_segments_by_day_and_the_changes_without_a_bucket() -> None:
    found = contents()
    day = datetime.fromtimestamp(AT_MS / 1000, UTC).date()
    assert [one.day.toordinal() - day.toordinal() for one in found.segments] == [0, 1]
    assert [stream_codec.decode(state).key.path for state in found.states] == ["kept"]
    assert found.removed == [2]
    assert found.next_stream == 3
    assert found.checkpoint.rows == 2


def test_what_an_older_program_would_pass_over_raises_the_version_of_the_manifest_for_good() -> None:
    async def main() -> None:
        bucket = store()
        fork = StreamCreated(2, "default", "fork", "application/json", AT_MS, parent=1)
        effects: list[Effect] = [created(1, "s"), fork, StreamRemoved(1, soft=True), PathFreed(1)]
        newer = flush_contents([b"".join(map(batch.encode, effects))], NothingCold(), 1)
        manifest, point = FIRST, FlushPoint(77, 5)
        versions = []
        scope = ScopeCreated(1, "default", "__memory/user:ann", "application/json", AT_MS)
        scopes = flush_contents([batch.encode(scope)], NothingCold(), 1)
        for found in (contents(), newer, contents(), scopes, newer, contents()):
            written = await write_objects(bucket, ONLY_PARTITION, manifest, found, DEFAULT_LIMITS)
            manifest = after_flush(manifest, found, written, point, AT_MS).manifest
            versions.append(manifest.version)
        assert versions == [1, 2, 2, 3, 3, 3]

    asyncio.run(main())


def test_objects_are_written_under_the_next_number_and_no_manifest() -> None:
    async def main() -> None:
        bucket = store()
        written = await write_objects(bucket, ONLY_PARTITION, FIRST, contents(), DEFAULT_LIMITS)
        assert {info.path for info in written.segments} | {written.checkpoint.path} == bucket.objects.keys()
        assert all("00-000000000002" in path for path in bucket.objects)
        rows = await read_checkpoint(bucket, written.checkpoint)
        assert {row.stream: row.deleted for row in rows} == {1: False, 2: True}

    asyncio.run(main())


def test_the_next_manifest_and_the_change_of_the_catalog_are_values() -> None:
    async def main() -> None:
        bucket, found = store(), contents()
        written = await write_objects(bucket, ONLY_PARTITION, FIRST, found, DEFAULT_LIMITS)
        following = after_flush(FIRST, found, written, FlushPoint(77, 5), AT_MS)
        manifest, change, flushed = following
        assert (manifest.number, manifest.flushed_through, manifest.frame) == (2, 77, 5)
        assert manifest.next_stream == 3
        assert referred(manifest) == bucket.objects.keys()
        assert change.about == About(2, 77)
        places = [(place.stream, place.first, place.next) for one in change.placed for place in one]
        assert places == [(1, 0, 1), (1, 1, 2)]
        assert change.dirty == [written.checkpoint.path]
        assert flushed is not None
        assert (flushed.tails, flushed.removed, flushed.through) == ({1: 2}, [2], 77)

    asyncio.run(main())


def test_a_manifest_is_committed_once_however_often_it_is_tried() -> None:
    async def main() -> None:
        bucket = FaultyBucket(store())
        await Manifests(bucket, ONLY_PARTITION).create_next(FIRST)
        chain, following = ManifestChain(bucket, ONLY_PARTITION, FIRST), successor(FIRST, 5)
        bucket.order("lose_answer", "create")
        with pytest.raises(BucketError):
            await chain.commit(following)
        assert chain.newest is FIRST
        await chain.commit(following)
        await chain.commit(following)
        assert chain.newest is following
        assert await Manifests(bucket, ONLY_PARTITION).newest() == following

    asyncio.run(main())


def test_whoever_finds_the_number_taken_is_fenced_for_good() -> None:
    async def main() -> None:
        bucket, told = store(), list[ManifestLostError]()
        await Manifests(bucket, ONLY_PARTITION).create_next(FIRST)
        chain = ManifestChain(bucket, ONLY_PARTITION, FIRST)
        chain.on_lost = told.append
        rival = msgspec.structs.replace(successor(FIRST, 5), writer="writer_2")
        await Manifests(bucket, ONLY_PARTITION).create_next(rival)
        with pytest.raises(ManifestLostError):
            await chain.commit(successor(FIRST, 6))
        with pytest.raises(ManifestLostError):
            await chain.commit(successor(FIRST, 7))
        with pytest.raises(ManifestLostError):
            await chain.check_fence()
        assert len(told) == 1
        assert await Manifests(bucket, ONLY_PARTITION).newest() == rival

    asyncio.run(main())
