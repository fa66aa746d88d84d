"""Repair under random damage: the server starts, nothing readable is lost, nothing else is claimed."""

import asyncio
import random
import shutil
from pathlib import Path

import pytest

from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.errors import ArchiveMissingError, BucketRefusedError, LogVersionError
from durable_sessions.ids import RandomIds
from durable_sessions.log.frame import HEADER_BYTES, SegmentHeader
from durable_sessions.log.repair import interrupted
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.testing.bucket import FaultyBucket
from durable_sessions.tools.repair import Plan, Repair
from durable_sessions.tools.repair.missing_ranges import MissingRanges
from durable_sessions.tools.verify import verify
from tests.unit.tools.datadir import MARKER, DataDirectory, make

pytestmark = pytest.mark.anyio

Records = dict[str, list[object]]
KINDS = (
    ("log/",),
    ("bucket/events",),
    ("bucket/sessions",),
    ("bucket/partitions",),
    ("log/", "bucket/", "catalog"),
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Records]:
    data = tmp_path_factory.mktemp("made") / "data"
    return data, asyncio.run(make(data))


@pytest.fixture
def data(made: tuple[Path, Records], tmp_path: Path) -> Path:
    shutil.copytree(made[0], tmp_path / "data")
    return tmp_path / "data"


def damage(data: Path, chance: random.Random) -> list[str]:
    """Damage one to four files, and say how."""
    said = []
    kinds = chance.choice(KINDS)
    for _ in range(chance.choice((1, 1, 2, 4))):
        files = [
            path
            for path in sorted(data.rglob("*"))
            if path.is_file() and path.name != "lock" and path.relative_to(data).as_posix().startswith(kinds)
        ]
        if not files:
            break
        path = chance.choice(files)
        content = bytearray(path.read_bytes() or b"x")
        at, length = chance.randrange(len(content)), chance.choice((1, 8, 300))
        how = chance.choice(("flip", "flip", "delete", "cut", "zero", "rubbish"))
        if how == "flip":
            content[at] ^= 1 << chance.randrange(8)
        elif how == "cut":
            del content[at:]
        elif how == "zero":
            content[at : at + length] = bytes(len(content[at : at + length]))
        elif how == "rubbish":
            content[at : at + length] = chance.randbytes(len(content[at : at + length]))
        path.write_bytes(content)
        if how == "delete":
            path.unlink()
        said.append(f"{how} {path.relative_to(data)} at {at}")
    if chance.random() < 0.3:
        (data / "catalog.sqlite").unlink(missing_ok=True)
        said.append("no catalog")
    return said


async def planned(data: Path, folder: Path, *, do: bool = False) -> Plan:
    folder.mkdir()
    repair = Repair(await Bucket.open(data / "bucket"), data, folder, ONLY_PARTITION)
    try:
        plan = await repair.plan(bucket_lost=True)
        if do and plan.actions:
            await repair.apply(SystemClock(), RandomIds())
    finally:
        repair.close()
    return plan


@pytest.mark.parametrize("seed", range(60))
async def test_random_damage(made: tuple[Path, Records], data: Path, tmp_path: Path, seed: int) -> None:
    said = damage(data, random.Random(seed))
    bucket = await Bucket.open(data / "bucket")
    found = await verify(bucket, data, partition=ONLY_PARTITION)
    plan = await planned(data, tmp_path / "first", do=True)
    assert bool(plan.actions) == bool(found.problems), said
    left = await verify(bucket, data, partition=ONLY_PARTITION)
    assert left.problems == [], said
    assert (await planned(data, tmp_path / "second")).actions == [], said
    async with DataDirectory(data) as opened:
        held = await opened.held()
        if "a" in held:
            await opened.append("a", b'"new"')
        await opened.flush()
    assert (await verify(bucket, data, partition=ONLY_PARTITION)).problems == [], said
    async with DataDirectory(data) as opened:
        again = await opened.held()
    if "a" in held:
        assert again["a"].pop() == "new", said
    assert again == held, said
    marked = {
        (loss.path, position)
        for loss in plan.losses
        if loss.outcome == "marked"
        for position in range(loss.first, loss.next)
    }
    for path, before in made[1].items():
        marker: object = 0 if path == "text" else MARKER
        for position, (was, now) in enumerate(zip(before, held.get(path, []), strict=False)):
            if now != was:
                assert now == marker, (said, path, position)
                owners = {f"default/{path}", "default/a"} if path == "fork" else {f"default/{path}"}
                assert any((owner, position) in marked for owner in owners), (said, path, position)


async def test_a_crash_between_bucket_and_log_is_made_good_by_the_next_run(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = sorted((data / "log").glob("*.log"))[-1]
    content = bytearray(newest.read_bytes())
    content[len(content) // 2] ^= 1
    newest.write_bytes(content)
    manifest = sorted((data / "bucket/partitions/00/manifest").glob("*.json"))[-1]
    manifest.write_bytes(b"rubbish")

    def cut(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("durable_sessions.tools.repair.log.replace_segments", cut)
        with pytest.raises(KeyboardInterrupt):
            await planned(data, tmp_path / "first", do=True)
    with monkeypatch.context() as patched:
        patched.setattr("durable_sessions.log.repair.complete", cut)
        with pytest.raises(KeyboardInterrupt):
            await planned(data, tmp_path / "second", do=True)
    assert interrupted(data / "log")
    bucket = await Bucket.open(data / "bucket")
    assert (await verify(bucket, data, partition=ONLY_PARTITION)).problems
    (action,) = (await planned(data, tmp_path / "third", do=True)).actions
    assert "interrupted" in action.what
    await planned(data, tmp_path / "fourth", do=True)
    assert (await verify(bucket, data, partition=ONLY_PARTITION)).problems == []


async def test_a_bucket_that_does_not_answer_is_not_taken_for_a_damaged_one(
    data: Path, tmp_path: Path
) -> None:
    bucket = FaultyBucket(await Bucket.open(data / "bucket"))
    bucket.order("fail", "get", path="events/", times=1)
    repair = Repair(bucket, data, tmp_path, ONLY_PARTITION)
    with pytest.raises(BucketRefusedError, match="no damage"):
        await repair.plan()
    repair.close()
    bucket.order("fail", "get", path="events/", times=1)
    (problem,) = [
        one
        for one in (await verify(bucket, data, partition=ONLY_PARTITION)).problems
        if "cannot be read" in one.problem
    ]
    assert problem.where.startswith("events/")


async def test_what_a_newer_program_wrote_is_left_alone(data: Path, tmp_path: Path) -> None:
    async with DataDirectory(data) as opened:
        await opened.log.append(b"\x02\x00\x00\x00\xc1\xc1")
    with pytest.raises(Exception, match="a newer program may have written it"):
        await planned(data, tmp_path / "effects")
    newest = sorted((data / "log").glob("*.log"))[-1]
    content = newest.read_bytes()
    salt = int.from_bytes(content[24:32], "little")
    newest.write_bytes(SegmentHeader(int(newest.stem), salt, 2).encode() + content[HEADER_BYTES:])
    with pytest.raises(LogVersionError):
        await planned(data, tmp_path / "version")


async def test_an_empty_bucket_under_a_log_that_has_one_is_refused(data: Path, tmp_path: Path) -> None:
    shutil.rmtree(data / "bucket")
    repair = Repair(await Bucket.open(data / "bucket"), data, tmp_path, ONLY_PARTITION)
    with pytest.raises(ArchiveMissingError):
        await repair.plan()
    repair.close()


async def test_a_directory_that_was_never_used_needs_no_repair(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with DataDirectory(data):
        pass
    assert (await planned(data, tmp_path / "folder")).actions == []
    assert (await verify(await Bucket.open(data / "bucket"), data, partition=ONLY_PARTITION)).problems == []


def test_wanted_positions() -> None:
    wanted = MissingRanges()
    assert not wanted
    wanted.add(1, [(0, 10), (20, 30)])
    wanted.add(2, [])
    assert wanted.of(1, (5, 25)) == [(5, 10), (20, 25)]
    copy = wanted.copy()
    wanted.found(1, (5, 25))
    assert list(wanted) == [(1, (0, 5)), (1, (25, 30))]
    wanted.found(1, (0, 100))
    assert not wanted
    assert list(copy) == [(1, (0, 10)), (1, (20, 30))]
