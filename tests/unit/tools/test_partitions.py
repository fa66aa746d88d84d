"""Verifying, dumping and repairing one of two partitions: the other one is neither read nor changed."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from durable_sessions.bucket.layout import FORMAT
from durable_sessions.bucket.manifest import Manifests
from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.ids import RandomIds
from durable_sessions.partition_id import PartitionId
from durable_sessions.streams.stream import Key
from durable_sessions.tools.dump.streams import load_names, look_up
from durable_sessions.tools.repair import Plan, Repair
from durable_sessions.tools.verify import Findings, verify
from tests.unit.tools.damage import flip
from tests.unit.tools.datadir import DataDirectory, make

pytestmark = pytest.mark.anyio

ZERO, FIVE = PartitionId(0, of=8), PartitionId(5, of=8)
Held = dict[str, list[object]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Held]:
    """Make both partitions; partition 0 goes on for longer, so that its objects have higher numbers."""
    data = tmp_path_factory.mktemp("made") / "data"
    return data, asyncio.run(make_both(data))


async def make_both(data: Path) -> Held:
    held = await make(data, FIVE)
    assert await make(data, ZERO) == held
    async with DataDirectory(data, ZERO) as zero:
        for number in range(12):
            await zero.append("a", b'{"only in zero":%d}' % number)
            await zero.flush()
    return held


@pytest.fixture
def data(made: tuple[Path, Held], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[0], tmp_path / "data"))


def files_of(data: Path, partition: PartitionId) -> dict[str, bytes]:
    """Return everything of a partition, in the bucket and beside it."""
    bucket, own, digits = data / "bucket", partition.directory(data), partition.digits
    found = [*bucket.glob(f"events/*/{digits}-*"), *bucket.glob(f"sessions/{digits}-*")]
    found += [*(bucket / "partitions" / digits).rglob("*"), *own.glob("log/*"), *own.glob("catalog.sqlite*")]
    return {str(path.relative_to(data)): path.read_bytes() for path in found if path.is_file()}


@contextmanager
def untouched(data: Path, partition: PartitionId) -> Iterator[None]:
    before = files_of(data, partition)
    assert len(before) > 5
    yield
    assert files_of(data, partition) == before


async def verified(data: Path, partition: PartitionId) -> Findings:
    return await verify(await Bucket.open(data / "bucket"), partition.directory(data), partition=partition)


async def repaired(data: Path, folder: Path, partition: PartitionId, *, bucket_lost: bool = False) -> Plan:
    folder.mkdir()
    bucket = await Bucket.open(data / "bucket")
    repair = Repair(bucket, partition.directory(data), folder, partition)
    try:
        plan = await repair.plan(bucket_lost=bucket_lost)
        await repair.apply(SystemClock(), RandomIds())
    finally:
        repair.close()
    return plan


async def held_by(data: Path, partition: PartitionId) -> Held:
    async with DataDirectory(data, partition) as opened:
        held = await opened.held()
        numbers = opened.partition._state.by_id.keys() | {opened.partition._state.next_id}
        assert all(number in partition.streams for number in numbers)
        return held


@pytest.mark.parametrize(("own", "other"), [(ZERO, FIVE), (FIVE, ZERO)])
async def test_each_is_verified_on_its_own(data: Path, own: PartitionId, other: PartitionId) -> None:
    with untouched(data, own), untouched(data, other):
        found = await verified(data, own)
        assert found.problems == []
        assert found.checked["catalogs"] == 1
        assert found.checked["batches"]
    for segment in (data / "bucket/events").rglob(f"{other.digits}-*"):
        flip(segment, 100)
    flip(sorted((data / f"bucket/partitions/{other.digits}/manifest").iterdir())[-1], 20)
    assert (await verified(data, own)).problems == []
    assert (await verified(data, other)).problems != []


async def test_a_bucket_with_another_number_of_partitions_is_told(data: Path) -> None:
    (problem,) = (await verified(data, PartitionId(5, of=6))).problems
    assert problem.where == FORMAT
    (problem,) = (await verified(data, PartitionId())).problems
    assert problem.where == FORMAT


@pytest.mark.parametrize(("own", "other"), [(ZERO, FIVE), (FIVE, ZERO)])
async def test_a_stream_is_dumped_from_its_own_partition(
    data: Path, tmp_path: Path, own: PartitionId, other: PartitionId
) -> None:
    bucket, log = await Bucket.open(data / "bucket"), own.directory(data) / "log"
    found = await look_up(bucket, log, Key("default", "a"), tmp_path, own)
    assert found.stream.id in own.streams
    bodies = [record["body"] async for record in found.records()]
    assert (b'{"only in zero":3}' in bodies) == (own is ZERO)
    assert all(number in own.streams for number in (await load_names(bucket, own)).paths)


async def test_a_damaged_segment_is_repaired_in_its_partition(
    made: tuple[Path, Held], data: Path, tmp_path: Path
) -> None:
    for segment in (data / "bucket/events").rglob("05-*"):
        flip(segment, 100)
    with untouched(data, ZERO):
        plan = await repaired(data, tmp_path / "repair", FIVE)
        assert plan.losses
        assert (await verified(data, FIVE)).problems == []
        held = await held_by(data, FIVE)
    assert {path: len(records) for path, records in held.items()} == {
        path: len(records) for path, records in made[1].items()
    }, "positions never move"
    assert (await verified(data, ZERO)).problems == []


@pytest.mark.parametrize("with_catalog", [True, False])
async def test_what_no_manifest_names_is_taken_over_by_its_own_partition(
    made: tuple[Path, Held], data: Path, tmp_path: Path, *, with_catalog: bool
) -> None:
    shutil.rmtree(data / "bucket/partitions/05/manifest")
    shutil.rmtree(FIVE.directory(data) / "log")
    (FIVE.directory(data) / "log").mkdir()
    if not with_catalog:
        for file in FIVE.directory(data).glob("catalog.sqlite*"):
            file.unlink()
    with untouched(data, ZERO):
        plan = await repaired(data, tmp_path / "repair", FIVE, bucket_lost=True)
        named = [action.where for action in plan.actions]
        assert [path for path in named if "/05-" in path], "they are taken over"
        assert not [path for path in named if "/00-" in path], "and those of partition 0 are not looked at"
        assert (await verified(data, FIVE)).problems == []
        held = await held_by(data, FIVE)
    newest = await Manifests(await Bucket.open(data / "bucket"), FIVE).newest()
    assert newest is not None
    assert newest.next_stream == FIVE.streams.start + 6, "as many as it ever had, and one more"
    assert all("/05-" in info.path for info in newest.segments)
    assert all("/05-" in info.path for info in newest.checkpoints)
    for path, records in held.items():
        assert records == made[1][path][: len(records)]
        assert len(records) > 30 or path == "fork"
    async with DataDirectory(data, FIVE) as opened:
        assert "only in zero" not in str(await opened.held())
    assert (await verified(data, ZERO)).problems == []


async def test_the_format_is_made_anew_with_all_partitions(data: Path, tmp_path: Path) -> None:
    file = data / "bucket" / FORMAT
    before = file.read_bytes()
    file.write_bytes(b"{")
    await repaired(data, tmp_path / "repair", FIVE)
    assert file.read_bytes() == before == b'{"format":"durable-sessions","version":1,"partitions":8}'
