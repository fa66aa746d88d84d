"""How a bucket says into which partitions it is divided, and who refuses that."""

import msgspec
import pytest

from durable_sessions.bucket.format import BucketFormat, ensure_format, raise_version, read_format
from durable_sessions.bucket.layout import FORMAT, LAYOUTS
from durable_sessions.bucket.partition_layout import (
    PartitionLayout,
    all_layouts,
    commit_layout,
    encode_layout,
    ensure_layout,
    read_layout,
)
from durable_sessions.errors import BucketRefusedError, ObjectDamagedError, ObjectExistsError
from durable_sessions.partition_id import PartitionId
from durable_sessions.testing.bucket import MemoryBucket

pytestmark = pytest.mark.anyio
FIRST = f"{LAYOUTS}000000000001.json"


async def repartitioned(partitions: int = 3) -> MemoryBucket:
    memory = MemoryBucket()
    await raise_version(memory, await ensure_format(memory))
    layout = PartitionLayout(generation=4, partitions=partitions, number=1, created_at_ms=5)
    await commit_layout(memory, layout)
    return memory


async def test_a_new_bucket_gets_the_layout_that_is_wanted() -> None:
    memory = MemoryBucket()
    assert await read_layout(memory) is None
    assert await all_layouts(memory) == []
    wanted = PartitionLayout(partitions=2)
    assert await ensure_layout(memory, wanted) == wanted
    assert memory.objects == {FORMAT: b'{"format":"durable-sessions","version":1,"partitions":2}'}
    assert await read_layout(memory) == wanted
    assert [one.digits for one in wanted.all] == ["00", "01", "sys"]


async def test_only_the_committed_layout_holds() -> None:
    memory = MemoryBucket()
    found = await ensure_format(memory, BucketFormat(partitions=2))
    await raise_version(memory, found)
    assert memory.objects[FORMAT] == b'{"format":"durable-sessions","version":2,"partitions":2}'
    assert await read_layout(memory) == PartitionLayout(partitions=2)
    later = PartitionLayout(generation=3, partitions=1, number=1, created_at_ms=7)
    await commit_layout(memory, later)
    assert await read_layout(memory) == later
    assert await all_layouts(memory) == [PartitionLayout(partitions=2), later]
    assert await ensure_layout(memory, PartitionLayout.of(PartitionId(0, 1, 3))) == later
    with pytest.raises(ObjectExistsError):
        await commit_layout(memory, msgspec.structs.replace(later, partitions=9))
    assert await read_layout(memory) == later


async def test_the_version_is_raised_once() -> None:
    memory = await repartitioned()
    before = dict(memory.objects)
    found = await read_format(memory)
    assert found is not None
    await raise_version(memory, found)
    assert memory.objects == before


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        (PartitionLayout(), "3 partitions, not 1"),
        (PartitionLayout(partitions=3), "repartitioned: its partitions are of generation 4"),
    ],
)
async def test_another_layout_is_refused(wanted: PartitionLayout, problem: str) -> None:
    with pytest.raises(BucketRefusedError, match=problem):
        await ensure_layout(await repartitioned(), wanted)


async def test_a_repartitioned_bucket_without_its_format_is_refused() -> None:
    with pytest.raises(BucketRefusedError, match="is missing"):
        await ensure_layout(MemoryBucket(), PartitionLayout(generation=1, partitions=3))


@pytest.mark.parametrize("content", [b"", b"{}", encode_layout(PartitionLayout(number=2))])
async def test_a_damaged_layout_is_refused(content: bytes) -> None:
    memory = await repartitioned()
    memory.objects[FIRST] = content
    with pytest.raises(ObjectDamagedError):
        await read_layout(memory)


async def test_a_layout_of_a_newer_program_is_refused() -> None:
    memory = await repartitioned()
    memory.objects[FIRST] = encode_layout(PartitionLayout(number=1, version=2))
    with pytest.raises(BucketRefusedError, match="has version 2, this program reads version 1"):
        await read_layout(memory)
