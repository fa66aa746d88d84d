"""Create the next number if nobody has."""

import asyncio
from pathlib import Path

import pytest

from durable_sessions.bucket.numbered import POSITION_DIGITS, NumberedObjects, create_beside
from durable_sessions.bucket.store import Bucket
from durable_sessions.errors import (
    BucketError,
    BucketRefusedError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from durable_sessions.log import NEW_LOG_GAP
from durable_sessions.testing.bucket import FaultyBucket, MemoryBucket

pytestmark = pytest.mark.anyio

NUMBER_MAX = 10**12 - 1


def numbered(bucket: MemoryBucket | FaultyBucket | Bucket) -> NumberedObjects:
    return NumberedObjects(bucket, "p/", ".json")


async def test_numbers_are_twelve_digits_and_sort() -> None:
    memory = MemoryBucket()
    objects = numbered(memory)
    assert await objects.newest() is None
    for number in (1, 2, 10, NUMBER_MAX):
        await objects.create(number, b"%d" % number)
    assert sorted(memory.objects) == [
        *("p/000000000001.json", "p/000000000002.json", "p/000000000010.json", "p/999999999999.json")
    ]
    assert await objects.numbers() == [1, 2, 10, NUMBER_MAX]
    assert await objects.newest() == (NUMBER_MAX, b"999999999999")
    assert await objects.get(10) == b"10"
    with pytest.raises(ObjectNotFoundError):
        await objects.get(3)
    for number in (-1, NUMBER_MAX + 1):
        with pytest.raises(BucketRefusedError, match=r"objects under p/ have 12 digits"):
            await objects.create_newest(number, b"")
    assert len(memory.objects) == 4


async def test_positions_of_a_log_have_room_for_the_gap_that_each_new_log_leaves() -> None:
    memory = MemoryBucket()
    objects = NumberedObjects(memory, "p/log/", "", POSITION_DIGITS)
    assert NEW_LOG_GAP > NUMBER_MAX, "which 12 digits cannot hold"
    numbers = [1, NUMBER_MAX, NUMBER_MAX + 1, NEW_LOG_GAP, NEW_LOG_GAP + 1, 1_000 * NEW_LOG_GAP, 2**64 - 1]
    for number in reversed(numbers):
        await objects.create(number, b"%d" % number)
    assert await objects.numbers() == numbers
    assert sorted(memory.objects) == [objects.path(number) for number in numbers], "names sort as numbers do"
    assert objects.path(NEW_LOG_GAP) == "p/log/00000001099511627776"
    assert await objects.newest() == (2**64 - 1, b"18446744073709551615")
    await objects.delete_before(NEW_LOG_GAP + 1)
    assert await objects.numbers() == numbers[4:]
    assert objects.path(10**20 - 1) == "p/log/" + "9" * 20
    with pytest.raises(BucketRefusedError, match="have 20 digits"):
        objects.path(10**20)


async def test_names_of_another_width_or_alphabet_are_not_numbers() -> None:
    memory = MemoryBucket()
    for name in ("p/1000000000000", "p/00000001099511627776", "p/" + "\u0661" * 12):
        memory.objects[name + ".json"] = b""
    assert await numbered(memory).numbers() == []


async def test_other_names_are_left_alone() -> None:
    memory = MemoryBucket()
    for name in ("p/1.json", "p/000000000001.parquet", "p/000000000001.json.bak", "p/x/000000000009.json"):
        memory.objects[name] = b""
    assert await numbered(memory).numbers() == []


@pytest.mark.parametrize("rivals", [2, 16])
async def test_one_rival_wins_in_a_directory(tmp_path: Path, rivals: int) -> None:
    for number in range(1, 6):
        buckets = [await Bucket.open(tmp_path) for _ in range(rivals)]
        outcomes = await asyncio.gather(
            *(numbered(bucket).create_newest(number, b"%d" % n) for n, bucket in enumerate(buckets)),
            return_exceptions=True,
        )
        winners = [n for n, outcome in enumerate(outcomes) if outcome is None]
        assert len(winners) == 1
        assert sum(isinstance(outcome, ObjectExistsError) for outcome in outcomes) == rivals - 1
        assert await numbered(buckets[0]).newest() == (number, b"%d" % winners[0])


async def test_a_rival_far_ahead_is_noticed_although_the_number_is_free_again() -> None:
    memory = MemoryBucket()
    objects = numbered(memory)
    for number in range(1, 8):
        await objects.create_newest(number, b"")
    await objects.delete_before(6)
    assert await objects.numbers() == [6, 7]
    with pytest.raises(ObjectExistsError):
        await objects.create_newest(3, b"stale")
    newest = await objects.newest()
    assert newest is not None
    assert newest[0] == 7


async def test_the_newest_is_looked_for_again_when_it_vanishes(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryBucket()
    objects = numbered(memory)
    await objects.create(1, b"one")
    real = memory.get

    async def replaced(path: str) -> bytes:
        if path.endswith("01.json"):
            await objects.create(2, b"two")
            await memory.delete([path])
        return await real(path)

    monkeypatch.setattr(memory, "get", replaced)
    assert await objects.newest() == (2, b"two")

    async def missing(path: str) -> bytes:
        raise ObjectNotFoundError(path=path)

    monkeypatch.setattr(memory, "get", missing)
    with pytest.raises(BucketError, match="keeps vanishing"):
        await objects.newest()


async def test_an_object_goes_beside_what_has_its_name() -> None:
    memory = MemoryBucket()
    paths = [await create_beside(memory, "e/00-000000000042.parquet", b"%d" % n) for n in range(3)]
    assert paths == [
        *("e/00-000000000042.parquet", "e/00-000000000042-1.parquet", "e/00-000000000042-2.parquet")
    ]
    assert [memory.objects[path] for path in paths] == [b"0", b"1", b"2"]
