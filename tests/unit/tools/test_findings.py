"""Every kind of problem that verify can report, made by real damage: the file or object is named, and why."""

import asyncio
import shutil
import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from durable_sessions.bucket.checkpoint import SessionRow
from durable_sessions.bucket.fetch import digest
from durable_sessions.bucket.layout import artifact_path
from durable_sessions.bucket.partition_layout import PartitionLayout
from durable_sessions.bucket.store import Bucket
from durable_sessions.log.scan import REPAIR_NAME
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.storage.artifacts import ArtifactInfo
from durable_sessions.streams.stream import Key
from durable_sessions.testing.bucket import FaultyBucket
from durable_sessions.tier import stream_codec
from durable_sessions.tier.snapshot_info import snapshot_of
from durable_sessions.tier.subscription_objects import SUBSCRIPTIONS
from durable_sessions.tools.verify import Findings, verify, verify_all
from tests.unit.tools.damage import (
    flip,
    logs,
    make_with_subscriptions,
    manifests,
    newest,
    rewrite_manifest,
    rewrite_object,
    rewrite_rows,
    subscription_object,
)
from tests.unit.tools.datadir import DataDirectory

pytestmark = pytest.mark.anyio

Damage = Callable[[Path], Awaitable[str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("made") / "data"
    asyncio.run(make_with_subscriptions(data, "first", "second"))
    return data


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    shutil.copytree(made, tmp_path / "data")
    return tmp_path / "data"


async def found(data: Path, *, artifacts: bool = False) -> Findings:
    return await verify_all(await Bucket.open(data / "bucket"), data, PartitionLayout(), artifacts=artifacts)


# Damage: it returns what has to be named ------------------------------------------------


async def segment_gone(data: Path) -> str:
    path = (await newest(data)).segments[0].path
    (data / "bucket" / path).unlink()
    return path


async def segment_cut(data: Path) -> str:
    path = (await newest(data)).segments[0].path
    file = data / "bucket" / path
    file.write_bytes(file.read_bytes()[:-9])
    return path


async def segment_footer(data: Path) -> str:
    path = (await newest(data)).segments[0].path
    flip(data / "bucket" / path, -20)
    return path


async def segment_group(data: Path) -> str:
    path = (await newest(data)).segments[0].path
    flip(data / "bucket" / path, 60)
    return path


async def segment_beginning(data: Path) -> str:
    path = (await newest(data)).segments[0].path
    flip(data / "bucket" / path, 1)
    return path


async def segment_counts(data: Path) -> str:
    first, *others = (await newest(data)).segments
    wrong = msgspec.structs.replace(first, rows=first.rows + 1)
    await rewrite_manifest(data, segments=(wrong, *others))
    return first.path


async def checkpoint_gone(data: Path) -> str:
    path = (await newest(data)).checkpoints[-1].path
    (data / "bucket" / path).unlink()
    return path


async def checkpoint_changed(data: Path) -> str:
    path = (await newest(data)).checkpoints[-1].path
    flip(data / "bucket" / path, 40)
    return path


async def checkpoint_of_something_else(data: Path) -> str:
    *others, last = (await newest(data)).checkpoints
    info = await rewrite_object(data, last, b"no table")
    await rewrite_manifest(data, checkpoints=(*others, info))
    return str(last.path)


async def checkpoint_with_other_rows(data: Path) -> str:
    return await rewrite_rows(data, lambda row: row, rows=77)


async def checkpoint_with_a_broken_state(data: Path) -> str:
    return await rewrite_rows(data, lambda row: msgspec.structs.replace(row, state=b"\x00"))


async def checkpoint_whose_columns_disagree(data: Path) -> str:
    return await rewrite_rows(data, lambda row: msgspec.structs.replace(row, next_position=99_999))


async def newest_manifest(data: Path) -> str:
    return flip(manifests(data)[-1], 5).relative_to(data / "bucket").as_posix()


async def older_manifest(data: Path) -> str:
    return flip(manifests(data)[0], 5).relative_to(data / "bucket").as_posix()


async def format_gone(data: Path) -> str:
    (data / "bucket/format.json").unlink()
    return "format.json"


async def format_rubbish(data: Path) -> str:
    (data / "bucket/format.json").write_bytes(b"{")
    return "format.json"


async def format_of_another_program(data: Path) -> str:
    (data / "bucket/format.json").write_bytes(b'{"format":"another","version":1,"partitions":1}')
    return "format.json"


async def format_of_the_future(data: Path) -> str:
    (data / "bucket/format.json").write_bytes(b'{"format":"durable-sessions","version":9,"partitions":1}')
    return "format.json"


async def subscriptions_gone(data: Path) -> str:
    path = subscription_object(await newest(data)).path
    (data / "bucket" / path).unlink()
    return path


async def subscriptions_changed(data: Path) -> str:
    path = subscription_object(await newest(data)).path
    flip(data / "bucket" / path, 3)
    return path


async def subscriptions_of_something_else(data: Path) -> str:
    held = await newest(data)
    info = await rewrite_object(data, subscription_object(held), b"\x02\x00\x00\x00\xc1\xc1")
    await rewrite_manifest(data, extra={SUBSCRIPTIONS: msgspec.Raw(msgspec.json.encode(info))})
    return str(info.path)


async def snapshot_gone(data: Path) -> str:
    info = snapshot_of(await newest(data))
    assert info is not None
    (data / "bucket" / info.path).unlink()
    return info.path


async def snapshot_changed(data: Path) -> str:
    info = snapshot_of(await newest(data))
    assert info is not None
    flip(data / "bucket" / info.path, info.bytes // 2)
    return info.path


async def log_frame(data: Path) -> str:
    newest_log = logs(data)[-1]
    return str(flip(newest_log, newest_log.stat().st_size // 2))


async def log_header(data: Path) -> str:
    return str(flip(logs(data)[-1], 3))


async def log_segment_gone(data: Path) -> str:
    before, middle, _ = logs(data)[-3:]
    middle.unlink()
    return str(before)


async def log_gone(data: Path) -> str:
    shutil.rmtree(data / "log")
    return str(data / "log")


async def log_of_another_bucket(data: Path) -> str:
    (tied,) = (data / "log").glob("*.lineage")
    tied.rename(tied.with_name(f"log_{'0' * 32}.lineage"))
    return str(data / "log")


async def log_with_two_lineages(data: Path) -> str:
    second = data / "log" / f"log_{'f' * 32}.lineage"
    second.touch()
    return str(second)


async def log_that_another_server_went_on_from(data: Path) -> str:
    held = await newest(data)
    assert held.frame is not None
    await rewrite_manifest(data, frame=held.frame ^ 1)
    return str(data / "log")


async def bucket_gone(data: Path) -> str:
    shutil.rmtree(data / "bucket")
    return str(data / "log")


async def batch_of_the_future(data: Path) -> str:
    async with DataDirectory(data) as opened:
        await opened.log.append(b"\x02\x00\x00\x00\xc1\xc1")
    return str(logs(data)[-1])


async def batch_cut(data: Path) -> str:
    async with DataDirectory(data) as opened:
        await opened.log.append(b"\x09\x00\x00\x00\xc1")
    return str(logs(data)[-1])


async def repair_interrupted(data: Path) -> str:
    (data / "log" / REPAIR_NAME).write_bytes(b"{}")
    return str(data / "log" / REPAIR_NAME)


async def catalog_without_a_word(data: Path) -> str:
    with sqlite3.connect(data / "catalog.sqlite") as connection:
        connection.execute("delete from about")
    connection.close()
    return str(data / "catalog.sqlite")


async def catalog_with_too_many_rows(data: Path) -> str:
    with sqlite3.connect(data / "catalog.sqlite") as connection:
        places = [(77, at, at + 1, "events/none") for at in range(150)]
        connection.executemany("insert into extents values (?, ?, ?, ?)", places)
    connection.close()
    return str(data / "catalog.sqlite")


MENDABLE: list[tuple[Damage, str]] = [
    (segment_gone, "it is missing"),
    (segment_cut, "bytes, not "),
    (segment_footer, "the footer (bytes "),
    (segment_group, "row group 0 (bytes "),
    (segment_beginning, "its first bytes have changed"),
    (checkpoint_gone, "it is missing"),
    (checkpoint_changed, "its bytes have changed"),
    (newest_manifest, "It is the newest, so that no server starts."),
    (older_manifest, "its digest is not that of its content"),
    (format_gone, "it is missing"),
    (format_rubbish, "it is not what a server wrote"),
    (format_of_another_program, "this program does not read"),
    (subscriptions_gone, "it is missing"),
    (subscriptions_changed, "its bytes have changed"),
    (snapshot_gone, "it is missing"),
    (snapshot_changed, "its bytes have changed"),
    (log_frame, "a frame is broken"),
    (log_header, "header"),
    (log_segment_gone, "missing"),
    (log_gone, "it ends at 0, before "),
    (log_of_another_bucket, "it is not the log of this bucket"),
    (log_with_two_lineages, "as if several logs had been copied into one"),
    (log_that_another_server_went_on_from, "a server with a copy of this directory has written"),
    (bucket_gone, "it belongs to a bucket, and this one is empty"),
    (repair_interrupted, "a repair was interrupted; run repair to complete it"),
    (catalog_without_a_word, "it does not say what it is of"),
    (catalog_with_too_many_rows, "there are more differences"),
]
NO_DAMAGE: list[tuple[Damage, str]] = [
    (segment_counts, "the manifest says "),
    (checkpoint_of_something_else, "Parquet"),
    (checkpoint_with_other_rows, " rows, not 77"),
    (checkpoint_with_a_broken_state, "is malformed"),
    (checkpoint_whose_columns_disagree, "is not what the other columns say"),
    (format_of_the_future, "this program does not read"),
    (subscriptions_of_something_else, "it does not give subscriptions"),
    (batch_of_the_future, "a newer program may have written it"),
    (batch_cut, "the batch ends within an effect of 9 bytes"),
]
WITH_A_BYTE = {
    segment_cut,
    segment_footer,
    segment_group,
    segment_beginning,
    log_frame,
    log_header,
    log_segment_gone,
    batch_of_the_future,
    batch_cut,
}


def names(cases: list[tuple[Damage, str]]) -> list[str]:
    return [damage.__name__ for damage, _ in cases]


async def check_named(data: Path, damage: Damage, said: str) -> Findings:
    where = await damage(data)
    findings = await found(data)
    fitting = [one for one in findings.problems if one.where == where and said in one.problem]
    assert fitting, [str(problem) for problem in findings.problems]
    assert (fitting[0].byte is not None) == (damage in WITH_A_BYTE)
    return findings


@pytest.mark.parametrize(("damage", "said"), MENDABLE, ids=names(MENDABLE))
async def test_damage_is_named_with_its_place(data: Path, damage: Damage, said: str) -> None:
    assert (await check_named(data, damage, said)).unmendable == []


@pytest.mark.parametrize(("damage", "said"), NO_DAMAGE, ids=names(NO_DAMAGE))
async def test_what_a_repair_must_not_touch_is_named_as_such(data: Path, damage: Damage, said: str) -> None:
    findings = await check_named(data, damage, said)
    assert any(said in problem.problem for problem in findings.unmendable)


async def test_the_same_directory_without_damage_is_sound(data: Path) -> None:
    findings = await found(data)
    assert findings.problems == []
    assert findings.checked["subscription objects"] == 2


async def test_a_stream_under_another_name_than_its_rows_say_is_no_damage(data: Path) -> None:
    def renamed(row: SessionRow) -> SessionRow:
        if row.deleted or row.session != "a":
            return row
        stream = replace(stream_codec.decode(row.state or b""), key=Key("default", "other"))
        return msgspec.structs.replace(row, session="other", state=stream_codec.encode(stream))

    await rewrite_rows(data, renamed)
    findings = await found(data)
    said = [one for one in findings.unmendable if "the rows of stream 1 say " in one.problem]
    assert said
    assert all(one.where.startswith("events/") for one in said)


async def test_differences_are_told_up_to_a_bound(data: Path) -> None:
    await catalog_with_too_many_rows(data)
    told = [problem for problem in (await found(data)).problems if problem.where.endswith("catalog.sqlite")]
    assert len(told) == 101
    assert told[-1].problem == "there are more differences"


async def test_a_server_that_is_always_faster_is_told_of(data: Path) -> None:
    """Every look meets an object that has just gone, and a newer manifest that does not name it."""
    bucket = await Bucket.open(data / "bucket")

    class Racing(FaultyBucket):
        async def get(self, path: str) -> bytes:
            if path.startswith("events/"):
                held = await newest(data)
                first, *others = held.segments
                if path == first.path:
                    moved = path.replace(".parquet", "-1.parquet")
                    await bucket.create(moved, await bucket.get(path))
                    renamed = msgspec.structs.replace(first, path=moved)
                    await rewrite_manifest(data, segments=(renamed, *others))
                    await bucket.delete([path])
            return await super().get(path)

    (problem,) = (await verify(Racing(bucket), None, partition=ONLY_PARTITION)).problems
    assert str(problem) == "bucket: a running server replaces objects faster than they can be read"


# Artifacts ------------------------------------------------------------------------------


def store(data: Path, content: bytes, *, known: bool = True) -> Path:
    file: Path = data / "bucket" / artifact_path("default", digest(content))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)
    if known:
        about = ArtifactInfo(len(content), "text/plain", 1_000)
        file.with_name(file.name + ".json").write_bytes(msgspec.json.encode(about))
    return file


async def test_artifacts_are_read_only_if_asked_for(data: Path) -> None:
    flip(store(data, b"changed later"), 0)
    assert (await found(data)).problems == []
    findings = await found(data, artifacts=True)
    (problem,) = findings.problems
    assert "they do not have its digest" in problem.problem
    assert findings.unmendable == [problem], "nobody has another copy"


async def test_each_artifact_is_held_against_its_name_and_what_is_known_of_it(data: Path) -> None:
    sound, gone, odd = (store(data, content) for content in (b"sound", b"gone", b"odd"))
    gone.unlink()
    about_odd = odd.with_name(odd.name + ".json")
    about_odd.write_bytes(b"{}")
    unacknowledged = store(data, b"its upload was cut off", known=False)
    findings = await found(data, artifacts=True)
    said = {problem.where: problem.problem for problem in findings.problems}
    bucket = data / "bucket"
    assert said.pop(gone.relative_to(bucket).as_posix()) == "it is missing"
    assert "it does not say what the artifact is" in said.pop(about_odd.relative_to(bucket).as_posix())
    assert said == {}
    (note,) = findings.notes
    name = unacknowledged.relative_to(bucket).as_posix()
    assert note == f"{name} was never acknowledged; storing it again completes it"
    assert findings.checked["artifacts"] == 3
    assert sound.exists()


async def test_an_artifact_that_cannot_be_read_now_is_no_damage(data: Path) -> None:
    store(data, b"sound")
    bucket = FaultyBucket(await Bucket.open(data / "bucket"))
    bucket.order("fail", "get", path="artifacts/")
    (problem,) = (await verify_all(bucket, data, PartitionLayout(), artifacts=True)).problems
    assert "it cannot be read: " in problem.problem
