"""Verification: each kind of problem is found, with its place, and nothing else is."""

import asyncio
import shutil
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from durable_sessions.bucket.directory import Directory
from durable_sessions.bucket.manifest import Manifest, Manifests, SegmentInfo
from durable_sessions.bucket.records import AppendRun, StreamRecords
from durable_sessions.bucket.segment import encode_segment
from durable_sessions.bucket.store import Bucket
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.testing.bucket import FaultyBucket
from durable_sessions.tools.verify import Findings, Problem, verify
from durable_sessions.tools.verify.coverage import check_coverage, gaps
from durable_sessions.tools.verify.inventory import Inventory, SegmentExtent
from durable_sessions.tools.verify.segments import check_segment
from tests.unit.tools.datadir import DataDirectory, make

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("made") / "data"
    asyncio.run(make(data))
    return data


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "data")
    return tmp_path / "data"


async def problems(data: Path) -> list[Problem]:
    return (await verify(await Bucket.open(data / "bucket"), data, partition=ONLY_PARTITION)).problems


# A segment ------------------------------------------------------------------------------


def records(stream: int = 1, count: int = 6) -> StreamRecords:
    message = b'{"n":1},'
    appends = [AppendRun(at, 1_000, (len(message),), message) for at in range(count)]
    return StreamRecords(stream, "default", f"s{stream}", "application/json", appends)


def checked(info: SegmentInfo, data: bytes | None) -> tuple[list[str], Findings]:
    findings = Findings()
    check_segment(info, data, findings)
    return [str(problem) for problem in findings.problems], findings


def test_every_byte_of_a_segment_counts() -> None:
    raw = StreamRecords(
        2, "default", "raw", "text/plain", [AppendRun(0, 5, (), b"abc"), AppendRun(3, 6, (), b"d")]
    )
    segment = encode_segment([records(), raw], group_bytes=24)
    info = segment.info("events/x.parquet")
    said, findings = checked(info, segment.data)
    assert said == []
    assert findings.checked["row groups"] > 2
    assert findings.checked["rows"] == 8
    for at in range(0, len(segment.data), 7):
        damaged = bytearray(segment.data)
        damaged[at] ^= 1
        (problem,) = checked(info, bytes(damaged))[1].problems
        assert problem.where == "events/x.parquet"
        assert problem.byte is not None
        assert problem.byte <= at
    assert "it has" in checked(info, segment.data[:-1])[0][0]


def test_a_damaged_row_group_leaves_the_others() -> None:
    segment = encode_segment([records()], group_bytes=24)
    info = segment.info("events/x.parquet")
    damaged = bytearray(segment.data)
    damaged[len(segment.data) // 50] ^= 1
    findings = Findings()
    found = check_segment(info, bytes(damaged), findings)
    assert found.bad_groups == {0}
    assert not found.intact
    assert found.good_runs(1) == [(3, 6)]
    assert findings.unmendable == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"first": 1}, "position 0 of stream 1, where 1 is expected"),
        ({"next": 7}, "the rows end at 7, not 6"),
        ({"stream": 9}, "the directory says stream 9, the rows [1]"),
        ({"rows": 5}, "the directory says 48 bytes, the rows have 40"),
        ({"rows": 5, "size": 40, "next": 5}, "the directory knows 5 rows, not 6"),
        ({"row": 1}, "the directory continues with row 1"),
        ({"size": 1}, "the directory says 1 bytes, the rows have 48"),
        ({"json": False}, "the directory and the content type application/json disagree"),
    ],
)
def test_a_directory_that_disagrees_with_the_rows_is_no_damage(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, object], said: str
) -> None:
    def wrong(pieces: object) -> Directory:
        assert isinstance(pieces, list)
        columns = [piece._replace(**change) for piece in pieces]
        return original(columns)

    original = Directory.of
    monkeypatch.setattr(Directory, "of", wrong)
    segment = encode_segment([records()])
    info = msgspec.structs.replace(segment.info("x"), stream_min=1, stream_max=1)
    _, findings = checked(info, segment.data)
    assert any(said in problem.problem for problem in findings.problems)
    assert findings.unmendable


# Coverage -------------------------------------------------------------------------------


@pytest.fixture
def inventory(tmp_path: Path) -> Iterator[Inventory]:
    inventory = Inventory(tmp_path / "inventory.sqlite", ONLY_PARTITION)
    yield inventory
    inventory.close()


def stream(number: int, tail: int, **fields: object) -> Stream:
    made = Stream(number, Key("default", f"s{number}"), "application/json", tail, None, None, 1, 1, 1)
    return replace(made, **fields)  # type: ignore[arg-type]


def extents(*runs: tuple[int, int]) -> list[SegmentExtent]:
    return [SegmentExtent(*run, f"segment{index}") for index, run in enumerate(runs)]


def covered(inventory: Inventory) -> list[str]:
    findings = Findings()
    check_coverage(inventory, findings)
    return [problem.problem for problem in findings.problems]


def test_gaps() -> None:
    assert gaps(stream(1, 10), extents((0, 4), (4, 10))) == []
    assert gaps(stream(1, 10), extents((1, 4), (6, 9))) == [(0, 1), (4, 6), (9, 10)]
    assert gaps(stream(1, 10, base=6), extents((6, 10))) == []
    assert gaps(stream(1, 10), []) == [(0, 10)]
    assert gaps(stream(1, 0), []) == []
    assert gaps(stream(1, 10), extents((0, 8), (2, 4), (8, 10))) == []


def test_gaps_and_overlaps_are_named(inventory: Inventory) -> None:
    inventory.put([stream(1, 10), stream(2, 5, base=3)])
    inventory.place(1, extents((0, 4), (3, 9), (12, 13)))
    inventory.place(2, extents((2, 5)))
    assert covered(inventory) == [
        "no segment holds the positions 9 to 10",
        "segment0 and segment1 both hold the positions 3 to 4",
        "segment2 holds positions up to 13, past its end 10",
        "segment0 holds positions from 2, before its base 3",
    ]


def test_forks_and_paths_must_agree(inventory: Inventory) -> None:
    inventory.put([stream(1, 2, forks=2), stream(2, 4, parent=1, base=4), stream(3, 0, parent=9)])
    inventory.place(1, extents((0, 2)))
    same_path = replace(stream(4, 0), key=Key("default", "s1"))
    inventory.put([same_path])
    assert covered(inventory) == [
        "its path is also that of [4]",
        "it was forked at 4, but its source ends at 2",
        "stream 9, which it was forked from, is missing",
        "it says that it has 2 forks, but there are 1",
    ]


# A data directory -----------------------------------------------------------------------


async def test_a_sound_directory_has_no_problems(data: Path) -> None:
    findings = await verify(await Bucket.open(data / "bucket"), data, partition=ONLY_PARTITION)
    assert findings.problems == []
    assert findings.notes == []
    assert findings.checked["batches"] > 30
    assert findings.checked["catalogs"] == 1


async def manifest_changed(data: Path, **changes: object) -> None:
    bucket = await Bucket.open(data / "bucket")
    newest = await Manifests(bucket, ONLY_PARTITION).newest()
    assert newest is not None
    changed: Manifest = msgspec.structs.replace(newest, number=newest.number + 1, **changes)
    await Manifests(bucket, ONLY_PARTITION).create_next(changed)


async def test_a_log_that_begins_too_late_or_ends_too_early(data: Path) -> None:
    await manifest_changed(data, flushed_through=1)
    assert any("but the bucket holds only what came before 1" in one.problem for one in await problems(data))
    await manifest_changed(data, flushed_through=10**9)
    (problem,) = await problems(data)
    assert problem.where == str(data / "log")
    assert "before 1000000000" in problem.problem


async def test_a_log_that_does_not_follow_from_the_bucket(data: Path) -> None:
    bucket = await Bucket.open(data / "bucket")
    newest = await Manifests(bucket, ONLY_PARTITION).newest()
    assert newest is not None
    async with DataDirectory(data) as opened:
        positions = [position async for position, _ in opened.log.replay(newest.flushed_through)]
        frame = await opened.log.checksum(positions[4])
    await manifest_changed(data, flushed_through=positions[4], frame=frame)
    found = await problems(data)
    assert len(found) == 4, "one per stream, and not one more for each append that follows"
    assert all("before it are lost" in problem.problem for problem in found)
    assert all(problem.byte is not None for problem in found)


async def test_a_catalog_of_another_manifest_is_only_noted(data: Path) -> None:
    await manifest_changed(data)
    findings = await verify(await Bucket.open(data / "bucket"), data, partition=ONLY_PARTITION)
    assert findings.problems == []
    assert "the server rebuilds it" in findings.notes[0]


async def test_catalog_differences(data: Path) -> None:
    connection = sqlite3.connect(data / "catalog.sqlite")
    with connection:
        connection.execute("update streams set state = x'00' where id = 1")
        connection.execute("insert into extents values (77, 0, 5, 'events/none')")
    connection.close()
    said = [problem.problem for problem in await problems(data)]
    assert said == [
        "stream 1 differs",
        "the place of stream 77, positions 0 to 5 in events/none, differs",
    ]
    (data / "catalog.sqlite").write_bytes(b"not a database" * 100)
    (problem,) = await problems(data)
    assert "not a sound database" in problem.problem


async def test_a_server_that_replaces_objects_meanwhile_is_no_problem(data: Path) -> None:
    """The first look finds an object missing that a newer manifest does not name: it starts again."""
    bucket = await Bucket.open(data / "bucket")
    newest = await Manifests(bucket, ONLY_PARTITION).newest()
    assert newest is not None
    moved, *others = newest.segments
    content = await bucket.get(moved.path)

    class Racing(FaultyBucket):
        raced = False

        async def get(self, path: str) -> bytes:
            if path == moved.path and not self.raced:
                self.raced = True
                other = moved.path.replace(".parquet", "-9.parquet")
                await bucket.create(other, content)
                replaced = msgspec.structs.replace(moved, path=other)
                await manifest_changed(data, segments=(replaced, *others))
                await bucket.delete([moved.path])
            return await super().get(path)

    racing = Racing(bucket)
    assert (await verify(racing, None, partition=ONLY_PARTITION)).problems == []
    assert racing.raced


async def test_a_manifest_that_lies_about_its_number(data: Path) -> None:
    folder = data / "bucket/partitions/00/manifest"
    oldest = sorted(folder.glob("*.json"))[0]
    shutil.copy(oldest, folder / "000000000999.json")
    found = await problems(data)
    assert found[0].where == "partitions/00/manifest/000000000999.json"
    assert "it says that it is number" in found[0].problem


def test_problems_say_where() -> None:
    assert str(Problem("file", "it is odd")) == "file: it is odd"
    assert str(Problem("file", "it is odd", 5, 7)) == "file, byte 5, row 7: it is odd"
    assert Problem("file", "it is odd", row=7).detail == "row 7: it is odd"
