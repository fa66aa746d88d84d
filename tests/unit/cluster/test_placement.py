"""The operator's wishes, as numbered objects of the bucket."""

from pathlib import Path

import pytest

from durable_sessions.bucket.store import Bucket
from durable_sessions.cluster.placement import NO_PLACEMENT, PLACEMENTS, Placements
from durable_sessions.errors import ObjectDamagedError

pytestmark = pytest.mark.anyio


@pytest.fixture
async def bucket(tmp_path: Path) -> Bucket:
    return await Bucket.open(tmp_path / "bucket")


async def test_wishes_are_read_as_they_were_written(bucket: Bucket) -> None:
    placements = Placements(bucket)
    assert await placements.newest() == NO_PLACEMENT
    wanted = NO_PLACEMENT.moved(3, "node-1").drain("node-2")
    assert await placements.replace(wanted)
    assert (await placements.newest()).wishes == wanted.wishes
    assert wanted.wishes.overrides == {3: "node-1"}
    assert wanted.wishes.drained == {"node-2"}


async def test_of_two_who_change_them_one_reads_again(bucket: Bucket) -> None:
    placements = Placements(bucket)
    one, other = NO_PLACEMENT.moved(0, "a"), NO_PLACEMENT.moved(0, "b")
    assert [await placements.replace(one), await placements.replace(other)] == [True, False]
    assert await placements.newest() == one


def test_a_drained_node_is_wished_nothing_and_a_move_can_be_taken_back() -> None:
    wishes = NO_PLACEMENT.moved(0, "a").moved(1, "a").moved(2, "b").drain("a")
    assert (wishes.overrides, wishes.drained) == ({2: "b"}, ("a",))
    assert wishes.moved(2, "").overrides == {}
    assert wishes.undrain("a").undrain("nobody").drained == ()
    assert wishes.number == 4


async def test_old_wishes_are_removed(bucket: Bucket) -> None:
    placements, wanted = Placements(bucket), NO_PLACEMENT
    for _ in range(30):
        wanted = wanted.drain("a").undrain("a")
        assert await placements.replace(wanted)
    assert len(await bucket.list(PLACEMENTS)) <= 11
    assert await placements.newest() == wanted


@pytest.mark.parametrize("damage", [b"", b"{}", b'{"number":9,"sha256":"0"}'])
async def test_a_damaged_object_is_named(bucket: Bucket, damage: bytes) -> None:
    assert await Placements(bucket).replace(NO_PLACEMENT.drain("a"))
    (found,) = await bucket.list(PLACEMENTS)
    await bucket.put(found.path, damage)
    with pytest.raises(ObjectDamagedError, match=PLACEMENTS):
        await Placements(bucket).newest()


async def test_an_object_under_another_number_is_damaged(bucket: Bucket) -> None:
    assert await Placements(bucket).replace(NO_PLACEMENT.drain("a"))
    (found,) = await bucket.list(PLACEMENTS)
    await bucket.create(found.path.replace("1.json", "2.json"), await bucket.get(found.path))
    with pytest.raises(ObjectDamagedError, match="number 1"):
        await Placements(bucket).newest()
