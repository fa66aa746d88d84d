"""A log and its bucket belong together: what goes on, what is adopted, what is refused, and who is fenced."""

import shutil
from pathlib import Path

import msgspec
import pytest

from durable_sessions.bucket.format import ensure_format
from durable_sessions.bucket.manifest import Manifest, Manifests
from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.errors import (
    ArchiveMissingError,
    LogDamagedError,
    LogDivergedError,
    LogForeignError,
    ManifestLostError,
    PartitionFencedError,
)
from durable_sessions.ids import RandomIds
from durable_sessions.log import NEW_LOG_GAP
from durable_sessions.log.file import FileLog
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create
from durable_sessions.streams.stream import Key
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.ownership import require_own
from durable_sessions.tools.repair import Plan, Repair
from durable_sessions.tools.verify import verify
from tests.unit.tools.datadir import LIMITS

pytestmark = pytest.mark.anyio

JSON = "application/json"


class Server:
    """A data directory on a bucket that is not in it, opened up to the partition."""

    def __init__(self, data: Path, bucket: Bucket, segment_bytes_max: int = 1) -> None:
        self.data = data
        self._bucket = bucket
        self._segment_bytes_max = segment_bytes_max
        self.log: FileLog
        self.archive: BucketArchive
        self.partition: Partition

    async def __aenter__(self) -> "Server":
        clock = SystemClock()
        self.log = await FileLog.open(self.data / "log", segment_bytes_max=self._segment_bytes_max)
        try:
            await require_own(self.log, self._bucket, ONLY_PARTITION)
            await ensure_format(self._bucket)
            self.archive = await BucketArchive.open(
                self._bucket,
                self.data / "catalog.sqlite",
                clock,
                RandomIds(),
                LIMITS,
                log=self.log,
                partition=ONLY_PARTITION,
            )
            self.partition = await Partition.open(self.log, clock, LIMITS, self.archive)
        except BaseException:
            await self.log.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.partition.close()
        await self.archive.close()
        await self.log.close()

    async def create(self, path: str) -> None:
        await self.partition.create(Key("default", path), Create(content_type=JSON))

    async def append(self, path: str, body: bytes) -> None:
        await self.partition.append(Key("default", path), Append(body, JSON))

    async def flush(self) -> None:
        while await self.partition.flush():
            pass

    async def read(self, path: str) -> bytes:
        durable = self.partition.find(Key("default", path))
        return (await self.partition.read(durable, 0, 1 << 20)).data


@pytest.fixture
async def bucket(tmp_path: Path) -> Bucket:
    return await Bucket.open(tmp_path / "bucket")


@pytest.fixture
async def first(tmp_path: Path, bucket: Bucket) -> Path:
    """A directory with a flushed stream ``s``, closed."""
    async with Server(tmp_path / "a", bucket) as server:
        await server.create("s")
        await server.append("s", b"1")
        await server.flush()
    return tmp_path / "a"


async def newest(bucket: Bucket) -> Manifest:
    found = await Manifests(bucket, ONLY_PARTITION).newest()
    assert found is not None
    return found


async def without_lineage(data: Path, bucket: Bucket) -> None:
    """Make directory and bucket what a program from before there were lineages leaves."""
    for path in (data / "log").glob("*.lineage"):
        path.unlink()
    before = await newest(bucket)
    older = msgspec.structs.replace(before, number=before.number + 1, lineage="", log_begins=0, frame=None)
    await Manifests(bucket, ONLY_PARTITION).create_next(older)


def names(data: Path, kind: str) -> list[str]:
    return sorted(path.name for path in (data / "log").glob(f"*.{kind}"))


def tree(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and ".staging" not in path.parts]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


async def planned(bucket: Bucket, data: Path, folder: Path, *, do: bool = False, lost: bool = False) -> Plan:
    folder.mkdir()
    repair = Repair(bucket, data, folder, ONLY_PARTITION)
    try:
        plan = await repair.plan(bucket_lost=lost)
        if do and plan.actions:
            await repair.apply(SystemClock(), RandomIds())
    finally:
        repair.close()
    return plan


# What goes on ---------------------------------------------------------------------------


async def test_a_start_ties_the_log_and_leaves_a_manifest_with_its_lineage(
    tmp_path: Path, bucket: Bucket
) -> None:
    async with Server(tmp_path / "a", bucket) as server:
        manifest = await newest(bucket)
        assert (manifest.number, manifest.lineage, manifest.frame) == (1, server.log.lineage, None)
        assert names(tmp_path / "a", "lineage") == [f"{manifest.lineage}.lineage"]
        assert not names(tmp_path / "a", "intended")
        await server.create("s")
        await server.flush()
        flushed = await newest(bucket)
        assert flushed.frame == await server.log.checksum(flushed.flushed_through)
    async with Server(tmp_path / "a", bucket):
        again = await newest(bucket)
        assert again.number == flushed.number + 1
        assert (again.lineage, again.frame) == (manifest.lineage, flushed.frame)
        assert again.writer != flushed.writer


@pytest.mark.parametrize("segment_bytes_max", [1, 200, 1 << 20])
async def test_the_flushed_frame_stays_provable(
    tmp_path: Path, bucket: Bucket, segment_bytes_max: int
) -> None:
    for number in range(4):
        async with Server(tmp_path / "a", bucket, segment_bytes_max) as server:
            if not number:
                await server.create("s")
            for count in range(3):
                await server.append("s", b"%d" % (10 * number + count))
                await server.flush()
                assert await server.log.checksum(server.archive.flushed_through) is not None
            if number % 2:
                await server.append("s", b'"not flushed"')
    async with Server(tmp_path / "a", bucket) as server:
        assert (await server.read("s")).count(b",") == 14
    assert not (await verify(bucket, tmp_path / "a", partition=ONLY_PARTITION)).problems


async def test_an_empty_batch_at_the_flushed_position_stays_too(tmp_path: Path) -> None:
    log = await FileLog.open(tmp_path, segment_bytes_max=1)
    positions = [await log.append(b"") for _ in range(3)]
    await log.trim(positions[1])
    assert await log.checksum(positions[1]) is not None
    assert await log.checksum(positions[0]) is None
    assert await log.checksum(positions[1] + 1) is None
    await log.close()


async def test_a_crash_between_manifest_and_trim_is_no_divergence(first: Path, bucket: Bucket) -> None:
    async with Server(first, bucket) as server:
        await server.append("s", b"2")
        trim, server.log.trim = server.log.trim, _nothing  # type: ignore[method-assign]
        await server.flush()
        server.log.trim = trim  # type: ignore[method-assign]
    async with Server(first, bucket) as server:
        assert await server.read("s") == b"1,2,"


async def _nothing(through: int) -> None:
    pass


async def test_a_new_directory_begins_a_new_lineage_far_beyond(
    first: Path, bucket: Bucket, tmp_path: Path
) -> None:
    before = await newest(bucket)
    begins = before.flushed_through
    for name in ("b", "c"):
        async with Server(tmp_path / name, bucket) as server:
            manifest = await newest(bucket)
            begins += NEW_LOG_GAP
            assert manifest.lineage not in ("", before.lineage)
            assert (manifest.flushed_through, manifest.log_begins) == (before.flushed_through, begins)
            assert manifest.frame is None
            await server.append("s", b'"new"')
            assert await server.read("s") == b'1,"new",'
        before = manifest
    async with Server(tmp_path / "c", bucket) as server:
        await server.flush()
        assert await server.read("s") == b'1,"new",'
    assert not (await verify(bucket, tmp_path / "c", partition=ONLY_PARTITION)).problems


@pytest.mark.parametrize("step", ["intend", "tie"])
async def test_a_first_start_that_was_cut_off_is_taken_up(
    tmp_path: Path, bucket: Bucket, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(self: FileLog, lineage: str) -> None:
        if step == "intend":
            await intend(self, lineage)
        raise RuntimeError("cut off")

    intend = FileLog.intend
    with monkeypatch.context() as patch:
        patch.setattr(FileLog, step, cut)
        with pytest.raises(RuntimeError):
            await Server(tmp_path / "a", bucket).__aenter__()
    intended = names(tmp_path / "a", "intended")
    assert len(intended) == 1
    async with Server(tmp_path / "a", bucket) as server:
        assert f"{server.log.lineage}.intended" in intended
        assert not names(tmp_path / "a", "intended")
        await server.create("s")


# What is adopted ------------------------------------------------------------------------


@pytest.mark.parametrize("unflushed", [False, True])
async def test_a_directory_from_before_there_were_lineages_is_adopted(
    first: Path, bucket: Bucket, unflushed: bool
) -> None:
    if unflushed:
        async with Server(first, bucket) as server:
            await server.append("s", b"2")
    await without_lineage(first, bucket)
    async with Server(first, bucket) as server:
        assert await server.read("s") == (b"1,2," if unflushed else b"1,")
        manifest = await newest(bucket)
        assert manifest.lineage == server.log.lineage
        assert manifest.frame == await server.log.checksum(manifest.flushed_through)
    async with Server(first, bucket) as server:
        await server.flush()
    assert not (await verify(bucket, first, partition=ONLY_PARTITION)).problems


async def test_adoption_that_was_cut_off_is_taken_up(
    first: Path, bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cut(self: FileLog, lineage: str) -> None:
        raise RuntimeError("cut off")

    await without_lineage(first, bucket)
    with monkeypatch.context() as patch:
        patch.setattr(FileLog, "tie", cut)
        with pytest.raises(RuntimeError):
            await Server(first, bucket).__aenter__()
    lineage = (await newest(bucket)).lineage
    async with Server(first, bucket) as server:
        assert server.log.lineage == lineage
        assert await server.read("s") == b"1,"


async def test_of_two_old_copies_only_one_is_adopted(first: Path, bucket: Bucket, tmp_path: Path) -> None:
    await without_lineage(first, bucket)
    shutil.copytree(first, tmp_path / "copy")
    async with Server(first, bucket):
        pass
    with pytest.raises(LogForeignError):
        await Server(tmp_path / "copy", bucket).__aenter__()


# What is refused ------------------------------------------------------------------------


async def test_the_old_log_is_refused_after_a_new_one_was_begun_and_nothing_is_written(
    first: Path, bucket: Bucket, tmp_path: Path
) -> None:
    async with Server(first, bucket) as server:
        await server.append("s", b"2")
        flushed = server.archive.flushed_through
    async with Server(tmp_path / "b", bucket):
        pass
    before = tree(tmp_path / "bucket"), tree(first / "log")
    with pytest.raises(LogForeignError, match=f"after position {flushed} may be there only"):
        await Server(first, bucket).__aenter__()
    assert (tree(tmp_path / "bucket"), tree(first / "log")) == before


async def test_a_log_without_any_batch_does_not_come_back_either(tmp_path: Path, bucket: Bucket) -> None:
    for name in ("a", "b"):
        async with Server(tmp_path / name, bucket):
            pass
    with pytest.raises(LogForeignError):
        await Server(tmp_path / "a", bucket).__aenter__()


@pytest.mark.parametrize("longer", [False, True])
async def test_of_two_copies_the_one_that_did_not_flush_is_refused(
    first: Path, bucket: Bucket, tmp_path: Path, longer: bool
) -> None:
    shared = (await newest(bucket)).flushed_through
    shutil.copytree(first, tmp_path / "copy")
    async with Server(first, bucket) as server:
        for number in range(3 if longer else 1):
            await server.append("s", b'"a%d"' % number)
    async with Server(tmp_path / "copy", bucket) as server:
        await server.append("s", b'"b0"')
        await server.flush()
    found = await verify(bucket, first, partition=ONLY_PARTITION)
    assert any("with a copy of this directory" in one.problem for one in found.problems)
    before = tree(tmp_path / "bucket"), tree(first / "log")
    with pytest.raises(LogDivergedError, match=f"after position {shared} may be there only"):
        await Server(first, bucket).__aenter__()
    assert (tree(tmp_path / "bucket"), tree(first / "log")) == before
    async with Server(tmp_path / "copy", bucket) as server:
        assert await server.read("s") == b'1,"b0",'


async def test_a_log_that_has_a_bucket_is_refused_on_an_empty_one(first: Path, tmp_path: Path) -> None:
    empty = await Bucket.open(tmp_path / "empty")
    with pytest.raises(ArchiveMissingError, match="Point --bucket to the bucket"):
        await Server(first, empty).__aenter__()
    assert tree(tmp_path / "empty") == {}


async def test_two_lineages_in_one_directory_are_refused(first: Path, bucket: Bucket) -> None:
    (first / "log" / ("log_" + "0" * 32 + ".lineage")).touch()
    with pytest.raises(LogDamagedError, match="dump manifest"):
        await Server(first, bucket).__aenter__()
    assert (await verify(bucket, first, partition=ONLY_PARTITION)).problems


# Who is fenced --------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["flush", "look"])
async def test_who_loses_a_manifest_answers_nothing_any_more(
    first: Path, bucket: Bucket, tmp_path: Path, how: str
) -> None:
    async with Server(first, bucket) as server, Server(tmp_path / "b", bucket) as other:
        await server.append("s", b'"a"')
        last = server.archive.flushed_through
        with pytest.raises(ManifestLostError, match=f"after position {last}"):
            await (server.flush() if how == "flush" else server.partition.check_fence())
        assert "another data directory" in str(await server.partition.until_lost())
        with pytest.raises(PartitionFencedError):
            await server.append("s", b'"b"')
        with pytest.raises(PartitionFencedError):
            await server.read("s")
        for again in (server.flush, server.partition.check_fence):
            with pytest.raises(ManifestLostError):
                await again()
        assert str(first / "log") in (server.partition.refusal or "")
        await other.append("s", b'"c"')
        assert await other.read("s") == b'1,"c",'


async def test_what_is_being_written_when_the_bucket_is_lost_has_an_unknown_outcome(
    first: Path, bucket: Bucket, tmp_path: Path
) -> None:
    async with Server(first, bucket) as server, Server(tmp_path / "b", bucket):
        flying = server.partition.append(Key("default", "s"), Append(b"2", JSON))
        with pytest.raises(ManifestLostError):
            await server.partition.check_fence()
        if flying.done() and flying.exception() is None:
            return  # it was acknowledged before
        with pytest.raises(Exception, match="may or may not"):
            await flying


# What a repair says and does ------------------------------------------------------------


@pytest.mark.parametrize("kind", ["copy", "new"])
async def test_a_repair_counts_and_names_what_it_drops_and_then_the_directory_serves(
    first: Path, bucket: Bucket, tmp_path: Path, kind: str
) -> None:
    if kind == "copy":
        shutil.copytree(first, tmp_path / "other")
    async with Server(first, bucket) as server:
        await server.create("mine")
        await server.append("mine", b"[1,2,3]")
        await server.append("s", b'"a"')
    async with Server(tmp_path / "other", bucket) as server:
        await server.append("s", b'"b"')
        await server.flush()
    log = tree(first / "log")
    plan = await planned(bucket, first, tmp_path / "dry")
    assert tree(first / "log") == log
    said = " ".join(action.what for action in plan.actions)
    assert "3 batches after" in said
    assert "4 records in 2 streams" in said
    assert {(loss.path, loss.first, loss.next) for loss in plan.losses} == {
        ("default/mine", 0, 3),
        ("default/s", 1, 2),
    }
    await planned(bucket, first, tmp_path / "done", do=True)
    (copies,) = first.glob("repair-*")
    log.pop("lock")
    assert log.items() <= tree(copies / "log").items()
    async with Server(first, bucket) as server:
        assert await server.read("s") == b'1,"b",'
    assert not (await verify(bucket, first, partition=ONLY_PARTITION)).problems


async def test_a_repair_ties_a_log_again_whose_lineage_file_is_lost(
    first: Path, bucket: Bucket, tmp_path: Path
) -> None:
    async with Server(first, bucket) as server:
        await server.append("s", b"2")
    (first / "log" / names(first, "lineage")[0]).unlink()
    with pytest.raises(LogForeignError):
        await Server(first, bucket).__aenter__()
    plan = await planned(bucket, first, tmp_path / "done", do=True)
    assert not plan.losses
    assert not (await planned(bucket, first, tmp_path / "again")).actions
    async with Server(first, bucket) as server:
        assert await server.read("s") == b"1,2,"


async def test_a_repair_without_the_bucket_ties_the_log_to_a_new_one(tmp_path: Path, bucket: Bucket) -> None:
    async with Server(tmp_path / "a", bucket, 1 << 20) as server:
        await server.create("s")
        await server.append("s", b"1")
    other = await Bucket.open(tmp_path / "other")
    folder = tmp_path / "refused"
    with pytest.raises(ArchiveMissingError):
        await planned(other, tmp_path / "a", folder)
    await planned(other, tmp_path / "a", tmp_path / "done", do=True, lost=True)
    async with Server(tmp_path / "a", other) as server:
        assert await server.read("s") == b"1,"
