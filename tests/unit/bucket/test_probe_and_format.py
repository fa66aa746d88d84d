"""Which stores and buckets are accepted at start-up."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from durable_sessions.bucket.format import BucketFormat, ensure_format
from durable_sessions.bucket.layout import FORMAT
from durable_sessions.bucket.objects import Listing, ObjectInfo
from durable_sessions.bucket.probe import probe
from durable_sessions.bucket.store import Bucket
from durable_sessions.errors import BucketRefusedError, ObjectExistsError
from durable_sessions.testing.bucket import FaultyBucket, MemoryBucket, Operation

pytestmark = pytest.mark.anyio


async def test_a_directory_is_accepted_and_left_empty(tmp_path: Path) -> None:
    bucket = await Bucket.open(tmp_path / "bucket")
    await probe(bucket)
    await probe(bucket)
    assert await bucket.list("") == []


class Overwrites(MemoryBucket):
    async def create(self, path: str, data: bytes) -> None:
        await self.put(path, data)


class OverwritesAndComplains(MemoryBucket):
    async def create(self, path: str, data: bytes) -> None:
        known = path in self.objects
        await self.put(path, data)
        if known:
            raise ObjectExistsError(path=path)


class IgnoresRanges(MemoryBucket):
    async def get_range(self, path: str, start: int, length: int) -> bytes:
        return (await self.get(path))[:length]


class ListsLate(MemoryBucket):
    async def list(self, prefix: str, *, after: str = "") -> Listing:
        return []


class ListsWrongSizes(MemoryBucket):
    async def list(self, prefix: str, *, after: str = "") -> Listing:
        return [ObjectInfo(info.path, 0, 0) for info in await super().list(prefix, after=after)]


class KeepsAll(MemoryBucket):
    async def delete(self, paths: Sequence[str]) -> None: ...


@pytest.mark.parametrize(
    ("store", "problem"),
    [
        (Overwrites(), "accepted a conditional create twice, so two servers could overwrite"),
        (OverwritesAndComplains(), "changed when its creation was refused"),
        (IgnoresRanges(), "other bytes than were asked for"),
        (ListsLate(), "does not show an object that was just created"),
        (ListsWrongSizes(), "does not show an object that was just created"),
        (KeepsAll(), "still shows an object that was deleted"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, MemoryBucket) else "",
)
async def test_a_store_that_breaks_a_promise_is_refused(store: MemoryBucket, problem: str) -> None:
    with pytest.raises(BucketRefusedError, match=problem) as caught:
        await probe(store)
    assert "Use a directory, Amazon S3" in str(caught.value)
    assert store.objects == {} or isinstance(store, KeepsAll)


@pytest.mark.parametrize("operation", ["create", "get", "get_range", "list", "delete"])
@pytest.mark.parametrize("skip", [0, 1])
async def test_a_store_that_fails_is_refused_with_what_failed(operation: Operation, skip: int) -> None:
    store = FaultyBucket(MemoryBucket())
    store.order("fail", operation, skip=skip, times=100)
    if skip and operation in ("get", "get_range", "delete"):
        await probe(store)
        return
    with pytest.raises(BucketRefusedError, match=r"failed to .* \(The bucket failed: .* ordered to fail"):
        await probe(store)


async def test_a_new_bucket_gets_its_format_once() -> None:
    memory = MemoryBucket()
    assert await ensure_format(memory) == BucketFormat()
    assert memory.objects[FORMAT] == b'{"format":"durable-sessions","version":1,"partitions":1}'
    assert await ensure_format(memory) == BucketFormat()


async def test_two_servers_may_initialise_a_bucket_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryBucket()
    real = memory.create

    async def second(path: str, data: bytes) -> None:
        await real(path, data)
        await real(path, data)

    monkeypatch.setattr(memory, "create", second)
    assert await ensure_format(memory) == BucketFormat()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is not what this program writes"),
        (b"[]", "is not what this program writes"),
        (b'{"version":"1"}', "is not what this program writes"),
        (b'{"format":"something-else","version":1}', "belongs to 'something-else'"),
        (
            b'{"format":"durable-sessions","version":3,"new":{}}',
            "format version 3, this program reads versions 1 and 2",
        ),
        (b'{"format":"durable-sessions","version":1,"partitions":16}', "16 partitions, not 1"),
    ],
)
async def test_another_format_is_refused_and_kept(content: bytes, problem: str) -> None:
    memory = MemoryBucket()
    memory.objects[FORMAT] = content
    with pytest.raises(BucketRefusedError, match=problem):
        await ensure_format(memory)
    assert memory.objects[FORMAT] == content


async def test_more_partitions_can_be_asked_for() -> None:
    memory = MemoryBucket()
    wanted = BucketFormat(partitions=16)
    assert await ensure_format(memory, wanted) == wanted
    assert await ensure_format(memory, wanted) == wanted
