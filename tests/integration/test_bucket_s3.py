"""The bucket on real S3 servers: one that keeps its word, and one that must be refused."""

import asyncio
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from uuid import uuid4

import pytest

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.format import ensure_format
from durable_sessions.bucket.layout import events_path
from durable_sessions.bucket.manifest import Manifest, Manifests
from durable_sessions.bucket.numbered import NumberedObjects
from durable_sessions.bucket.probe import probe
from durable_sessions.bucket.records import AppendRun, StreamRecords
from durable_sessions.bucket.segment import encode_segment
from durable_sessions.bucket.segment_reader import SegmentReader
from durable_sessions.bucket.store import Bucket
from durable_sessions.errors import (
    BucketDeniedError,
    BucketError,
    BucketRefusedError,
    ObjectDamagedError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from durable_sessions.partition_id import ONLY_PARTITION
from tests.support.s3 import S3Server, rclone, seaweedfs

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def weed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with seaweedfs(tmp_path_factory.mktemp("weed")) as server:
        yield server


@pytest.fixture
def url(weed: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    for name, value in weed.environment.items():
        monkeypatch.setenv(name, value)
    return weed.url(f"some/prefix/{uuid4()}")


async def test_a_real_store_is_accepted_and_nothing_is_left_in_it(url: str) -> None:
    bucket = await Bucket.open(url)
    await probe(bucket)
    assert await bucket.list("") == []
    assert (await ensure_format(bucket)).partitions == 1
    assert (await ensure_format(bucket)).partitions == 1


async def test_objects_are_created_once_read_in_part_listed_and_deleted(url: str) -> None:
    bucket = await Bucket.open(url)
    path = "events/date=2026-11-15/00-000000000001.parquet"
    data = bytes(range(256)) * 40_000
    await bucket.create(path, data)
    with pytest.raises(ObjectExistsError):
        await bucket.create(path, b"other")
    assert await bucket.get(path) == data
    assert await bucket.get_range(path, 5_000_000, 1_000) == data[5_000_000:5_001_000]
    for beyond in (len(data) - 5, len(data) + 5):
        with pytest.raises(ObjectDamagedError):
            await bucket.get_range(path, beyond, 10)
    await bucket.put("artifacts/a", b"one")
    await bucket.put("artifacts/a", b"two")
    assert await bucket.get("artifacts/a") == b"two"
    assert [(info.path, info.size) for info in await bucket.list("")] == [
        ("artifacts/a", 3),
        (path, len(data)),
    ]
    assert [info.path for info in await bucket.list("events/date=2026-11-15")] == [path]
    assert await bucket.list("event") == []
    assert [info.path for info in await bucket.list("", after="artifacts/a")] == [path]
    assert [info.path for info in await bucket.list("events", after=path[:-1])] == [path]
    assert await bucket.list("events", after=path) == []
    await bucket.delete([path, "artifacts/a", "never/was"])
    assert await bucket.list("") == []
    for missing in (bucket.get(path), bucket.get_range(path, 0, 1)):
        with pytest.raises(ObjectNotFoundError):
            await missing


async def test_of_sixteen_rivals_for_a_number_one_wins(url: str) -> None:
    buckets = [await Bucket.open(url) for _ in range(16)]
    rivals = [NumberedObjects(bucket, "partitions/00/manifest/", ".json") for bucket in buckets]
    outcomes = await asyncio.gather(
        *(rival.create(1, b"rival %d" % n) for n, rival in enumerate(rivals)), return_exceptions=True
    )
    winners = [n for n, outcome in enumerate(outcomes) if outcome is None]
    assert len(winners) == 1, outcomes
    assert all(isinstance(outcome, ObjectExistsError) for outcome in outcomes if outcome is not None), (
        outcomes
    )
    assert await rivals[0].newest() == (1, b"rival %d" % winners[0])


async def test_a_segment_is_flushed_and_read_back(url: str) -> None:
    bucket = await Bucket.open(url)
    messages = [b'{"type":"test","n":%d},' % n for n in range(5_000)]
    runs = [AppendRun(n, 1_794_700_000_000, (len(message),), message) for n, message in enumerate(messages)]
    encoded = encode_segment([StreamRecords(7, "w", "s", "application/json", runs)], group_bytes=20_000)
    path = events_path(date(2026, 11, 15), ONLY_PARTITION, 1)
    await bucket.create(path, encoded.data)
    manifest = Manifest(
        number=1,
        writer="a",
        flushed_through=99,
        next_stream=8,
        created_at_ms=1,
        segments=(encoded.info(path),),
    )
    await Manifests(bucket, ONLY_PARTITION).create_next(manifest)
    newest = await Manifests(bucket, ONLY_PARTITION).newest()
    assert newest == manifest
    cache = BlockCache()
    reader = SegmentReader(bucket, newest.segments[0], cache)
    position, found = 0, b""
    while position < 5_000:
        pieces, position, _ = await reader.read(7, position, 5_000, 30_000)
        found += b"".join(pieces)
    assert found == b"".join(messages)
    await cache.close()


async def test_a_store_that_ignores_conditions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rclone(tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        bucket = await Bucket.open(server.url("prefix"))
        with pytest.raises(BucketRefusedError, match="accepted a conditional create twice"):
            await probe(bucket)


async def test_a_bucket_that_is_not_there_is_refused(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    bucket = await Bucket.open(url)
    with pytest.raises(BucketError):
        await bucket.get("x")
    with pytest.raises(BucketRefusedError, match="failed to create an object"):
        await probe(bucket)


async def test_wrong_credentials_are_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with rclone(tmp_path) as server:
        for name, value in server.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
        bucket = await Bucket.open(server.url("prefix"))
        with pytest.raises(BucketDeniedError, match="Check its name, the credentials"):
            await bucket.create("x", b"y")
