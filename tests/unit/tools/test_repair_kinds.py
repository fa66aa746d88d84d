"""Each kind of damage that the documentation lists, one at a time: what is kept, marked, dropped and said.

The plan is compared with what is really gone, record by record: it may neither hide nor invent a loss.
"""

import asyncio
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path

import pytest

from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import ManualClock, SystemClock
from durable_sessions.errors import DurableSessionsError
from durable_sessions.ids import RandomIds
from durable_sessions.log.scan import Frame, scan
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create, Fork
from durable_sessions.streams.effects import Effect, RecordsAppended, StreamCreated, StreamRemoved
from durable_sessions.streams.stream import Key, Producer
from durable_sessions.tier.snapshot_info import snapshot_of
from durable_sessions.tools.conflicts import Undecodable, decode_leniently
from durable_sessions.tools.repair import Plan, Repair
from durable_sessions.tools.repair.backups import Backups
from durable_sessions.tools.verify import verify
from tests.unit.tools.damage import (
    flip,
    logs,
    make_with_subscriptions,
    manifests,
    newest,
    subscription_object,
    subscriptions_of,
)
from tests.unit.tools.datadir import MARKER, DataDirectory

pytestmark = pytest.mark.anyio

Records = dict[str, list[object]]


@dataclass(frozen=True)
class Repaired:
    """A repair that was carried out: its plan, and the folder with the backups."""

    plan: Plan
    backups: Path

    def said(self, where: object) -> str:
        """Return what the plan says of a file or an object."""
        return "; ".join(one.what for one in self.plan.actions if one.where == str(where))

    @property
    def marked(self) -> set[tuple[str | None, int]]:
        """The positions that the plan says are replaced by markers."""
        losses = [loss for loss in self.plan.losses if loss.outcome == "marked"]
        return {(loss.path, position) for loss in losses for position in range(loss.first, loss.next)}


async def records_of(data: Path) -> Records:
    async with DataDirectory(data) as opened:
        return await opened.held()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Records]:
    data = tmp_path_factory.mktemp("made") / "data"
    asyncio.run(make_with_subscriptions(data, "first", "second"))
    copy = tmp_path_factory.mktemp("copy") / "data"
    shutil.copytree(data, copy)
    return data, asyncio.run(records_of(copy))


@pytest.fixture
def data(made: tuple[Path, Records], tmp_path: Path) -> Path:
    return Path(shutil.copytree(made[0], tmp_path / "data"))


@pytest.fixture
def before(made: tuple[Path, Records]) -> Records:
    return made[1]


async def repair(data: Path, folder: Path) -> Repaired:
    """Repair a directory; afterwards it must be sound, and a second repair must find nothing to do."""
    bucket = await Bucket.open(data / "bucket")
    folder.mkdir(parents=True)
    one = Repair(bucket, data, folder, ONLY_PARTITION)
    try:
        plan = await one.plan()
        backups = await one.apply(SystemClock(), RandomIds())
    finally:
        one.close()
    assert backups is not None
    assert (await verify(bucket, data, partition=ONLY_PARTITION)).problems == []
    (folder / "again").mkdir()
    again = Repair(bucket, data, folder / "again", ONLY_PARTITION)
    try:
        assert (await again.plan()).actions == []
    finally:
        again.close()
    return Repaired(plan, backups)


def frames(data: Path) -> list[Frame]:
    return list(scan(data / "log").frames())


def effects(frame: Frame) -> list[Effect]:
    return [one for _, one in decode_leniently(frame.payload) if not isinstance(one, Undecodable)]


def break_frame(frame: Frame) -> Path:
    return flip(frame.segment.path, frame.offset + 12)


def marked_in(before: Records, after: Records) -> set[tuple[str | None, int]]:
    """Return the positions that have changed; all of them must be markers now."""
    changed: set[tuple[str | None, int]] = set()
    for path, records in before.items():
        assert len(after[path]) == len(records), "positions never move"
        for position, (was, now) in enumerate(zip(records, after[path], strict=True)):
            if was != now:
                assert now == (0 if path == "text" else MARKER), (path, position)
                changed.add((f"default/{path}", position))
    return changed


async def check_marked(data: Path, before: Records, done: Repaired) -> None:
    """Check that exactly what the plan calls lost is lost; a fork shows the markers of its source, too."""
    found = marked_in(before, await records_of(data))
    inherited = {("default/fork", at) for path, at in done.marked if path == "default/a"}
    assert found <= done.marked | inherited
    assert done.marked <= found, "nothing is called lost that is there"


# The log --------------------------------------------------------------------------------


async def test_a_frame_of_the_log_costs_its_own_records(data: Path, before: Records, tmp_path: Path) -> None:
    unflushed = [one for one in frames(data) if one.position > (await newest(data)).flushed_through]
    broken = unflushed[len(unflushed) // 2]
    (lost,) = [one for one in effects(broken) if isinstance(one, RecordsAppended)]
    path = break_frame(broken)
    done = await repair(data, tmp_path / "folder")
    assert "batches behind it can be read and are kept" in done.said(path)
    assert done.marked == {("default/a", position) for position in range(lost.first, lost.next)}
    await check_marked(data, before, done)
    assert (done.backups / "log" / path.name).exists()


async def test_a_header_of_the_log_costs_nothing(data: Path, before: Records, tmp_path: Path) -> None:
    path = flip(logs(data)[-1], 3)
    done = await repair(data, tmp_path / "folder")
    assert done.plan.losses == []
    assert "header" in done.said(path)
    assert await records_of(data) == before


async def test_a_missing_segment_of_the_log_costs_its_records(
    data: Path, before: Records, tmp_path: Path
) -> None:
    middle = logs(data)[-2]
    gone = [effect for one in frames(data) if one.segment.path == middle for effect in effects(one)]
    middle.unlink()
    done = await repair(data, tmp_path / "folder")
    expected = {
        ("default/a", position)
        for one in gone
        if isinstance(one, RecordsAppended) and one.stream == 1
        for position in range(one.first, one.next)
    }
    assert expected
    assert done.marked == expected
    await check_marked(data, before, done)


async def test_the_last_record_of_a_stream_is_not_missed_by_anyone(
    data: Path, before: Records, tmp_path: Path
) -> None:
    """Nobody can tell that there was one, so it is not called lost, and its position is used again."""
    last = frames(data)[-1]
    (lost,) = effects(last)
    assert isinstance(lost, RecordsAppended)
    with last.segment.path.open("r+b") as file:
        file.truncate(last.offset)
    done_nothing = await verify(await Bucket.open(data / "bucket"), data, partition=ONLY_PARTITION)
    assert done_nothing.problems == [], "a server would not refuse this log either"
    after = await records_of(data)
    assert after["fork"] == before["fork"][:-1]
    async with DataDirectory(data) as opened:
        await opened.append("fork", b'"again"')
        assert (await opened.held())["fork"] == [*before["fork"][:-1], "again"]


async def test_a_log_that_is_gone_leaves_what_was_flushed(
    data: Path, before: Records, tmp_path: Path
) -> None:
    flushed = (await newest(data)).flushed_through
    shutil.rmtree(data / "log")
    done = await repair(data, tmp_path / "folder")
    assert f"it reaches from 0 to 0; the bucket to {flushed}" in done.said(data / "log")
    async with DataDirectory(data) as opened:
        after = await opened.held()
        await opened.append("a", b'"new"')
        assert opened.log.ends_at is not None
        assert opened.log.ends_at > flushed, "no position of the log is used twice"
        assert (await opened.held())["a"] == [*after["a"], "new"]
    for path, records in after.items():
        assert records == before[path][: len(records)]
    assert len(after["a"]) >= 80


async def test_a_log_of_another_bucket_is_set_aside_and_named(
    data: Path, before: Records, tmp_path: Path
) -> None:
    (tied,) = (data / "log").glob("*.lineage")
    tied.rename(tied.with_name(f"log_{'0' * 32}.lineage"))
    there = {path.name for path in logs(data)}
    done = await repair(data, tmp_path / "folder")
    assert "it is not the log of this bucket, and is set aside" in done.said(data / "log")
    dropped = {loss.path: loss for loss in done.plan.losses if loss.outcome == "dropped"}
    assert set(dropped) >= {"default/a", "default/fork"}
    assert dropped["default/a"].next == len(before["a"])
    assert {path.name for path in (done.backups / "log").glob("*.log")} == there, (
        "all of it is in the backups"
    )
    after = await records_of(data)
    assert all(records == before[path][: len(records)] for path, records in after.items())


async def test_a_log_that_a_start_has_only_begun_needs_no_repair(data: Path, tmp_path: Path) -> None:
    """A server was started on the bucket with an empty data directory, and stopped before any append."""
    shutil.rmtree(data / "log")
    (data / "catalog.sqlite").unlink()
    async with DataDirectory(data) as opened:
        assert opened.log.ends_at is None
    bucket = await Bucket.open(data / "bucket")
    assert (await verify(bucket, data, partition=ONLY_PARTITION)).problems == []
    one = Repair(bucket, data, tmp_path, ONLY_PARTITION)
    try:
        assert (await one.plan()).actions == []
    finally:
        one.close()


# What the log says of streams -----------------------------------------------------------


@pytest.fixture
async def story(tmp_path: Path) -> Path:
    """A directory whose log tells of streams that are created, forked, closed and removed."""
    data = tmp_path / "data"
    async with DataDirectory(data) as opened:
        create, delete = opened.partition.create, opened.partition.delete
        json = "application/json"
        await create(Key("default", "kept"), Create(content_type=json, body=b"[0]"))
        await opened.flush()
        await create(Key("default", "late"), Create(content_type=json))
        await opened.append("late", b'[{"n":0},{"n":1}]')
        await create(Key("default", "source"), Create(content_type=json))
        await opened.append("source", b'[{"s":0},{"s":1}]')
        await create(Key("default", "forked"), Create(fork=Fork("source")))
        await opened.append("forked", b'{"f":2}')
        await create(Key("default", "removed"), Create(content_type=json, body=b"[5]"))
        await delete(Key("default", "removed"))
        await opened.append("kept", b"1")
    return data


async def streams_in(data: Path) -> dict[str, str]:
    """Return every stream of a directory, with its records as text."""
    found: dict[str, str] = {}
    async with DataDirectory(data) as opened:
        for page in opened.partition.path_pages("default"):
            for _, path in page:
                durable = opened.partition.find(Key("default", path))
                found[path] = (await opened.partition.read(durable, 0, 1 << 16)).data.decode()
    return found


def frame_of(data: Path, kind: type, path: str) -> Frame:
    """Return the frame with an effect of a kind on the stream that is created at a path."""
    created = [one for frame in frames(data) for one in effects(frame) if isinstance(one, StreamCreated)]
    (number,) = [one.stream for one in created if one.path == path]
    (frame, *_) = [
        frame
        for frame in frames(data)
        for one in effects(frame)
        if isinstance(one, kind) and getattr(one, "stream", None) == number
    ]
    return frame


async def test_a_stream_whose_creation_is_lost_is_found_again(story: Path, tmp_path: Path) -> None:
    whole = await streams_in(Path(shutil.copytree(story, tmp_path / "whole")))
    frame = frame_of(story, StreamCreated, "late")
    (created,) = [one for one in effects(frame) if isinstance(one, StreamCreated)]
    break_frame(frame)
    done = await repair(story, tmp_path / "folder")
    after = await streams_in(story)
    assert after.pop(f"lost-and-found/{created.stream}") == whole.pop("late")
    assert after == whole
    assert done.plan.losses == []
    assert any("it is found again as lost-and-found/" in one.what for one in done.plan.actions)


async def test_records_without_stream_or_successor_are_named_as_dropped(story: Path, tmp_path: Path) -> None:
    """Both the creation and the first records are lost: what follows is found again, with markers before."""
    async with DataDirectory(story) as opened:
        await opened.append("late", b'{"n":2}')
    created, appended = frame_of(story, StreamCreated, "late"), frame_of(story, RecordsAppended, "late")
    break_frame(created)
    break_frame(appended)
    done = await repair(story, tmp_path / "folder")
    (loss,) = done.plan.losses
    assert (loss.first, loss.next, loss.outcome) == (0, 2, "marked")
    after = await streams_in(story)
    lost = '{"type":"durable_sessions.lost"},'
    assert after[f"lost-and-found/{loss.stream}"] == lost * 2 + '{"n":2},'


async def test_a_stream_whose_removal_is_lost_is_there_again(story: Path, tmp_path: Path) -> None:
    whole = await streams_in(Path(shutil.copytree(story, tmp_path / "whole")))
    break_frame(frame_of(story, StreamRemoved, "removed"))
    done = await repair(story, tmp_path / "folder")
    assert await streams_in(story) == {**whole, "removed": "5,"}
    assert done.plan.losses == []


async def test_a_lost_removal_shows_when_its_path_was_used_again(story: Path, tmp_path: Path) -> None:
    async with DataDirectory(story) as opened:
        again = Create(content_type="application/json", body=b"[6]")
        await opened.partition.create(Key("default", "removed"), again)
    whole = await streams_in(Path(shutil.copytree(story, tmp_path / "whole")))
    first = next(frame for frame in frames(story) for one in effects(frame) if isinstance(one, StreamRemoved))
    break_frame(first)
    done = await repair(story, tmp_path / "folder")
    assert await streams_in(story) == whole
    assert any("the removal of stream" in one.what for one in done.plan.actions)


async def test_a_fork_whose_source_is_lost_stands_alone(story: Path, tmp_path: Path) -> None:
    created, appended = frame_of(story, StreamCreated, "source"), frame_of(story, RecordsAppended, "source")
    break_frame(created)
    break_frame(appended)
    done = await repair(story, tmp_path / "folder")
    after = await streams_in(story)
    assert after["forked"] == '{"type":"durable_sessions.lost"},' * 2 + '{"f":2},'
    assert "source" not in after
    assert any("which it was forked from, is lost" in one.what for one in done.plan.actions)
    assert [(loss.first, loss.next) for loss in done.plan.losses] == [(0, 2)]


async def test_a_source_gets_markers_up_to_where_it_was_forked(story: Path, tmp_path: Path) -> None:
    break_frame(frame_of(story, RecordsAppended, "source"))
    done = await repair(story, tmp_path / "folder")
    after = await streams_in(story)
    lost = '{"type":"durable_sessions.lost"},' * 2
    assert (after["source"], after["forked"]) == (lost, lost + '{"f":2},')
    (loss,) = done.plan.losses
    assert loss.path == "default/source"


async def test_a_producer_stays_known_when_a_record_before_its_last_is_lost(tmp_path: Path) -> None:
    data, key = tmp_path / "data", Key("default", "p")
    async with DataDirectory(data) as opened:
        await opened.partition.create(key, Create(content_type="application/json"))
        for number in range(3):
            producer = Producer("one", 0, number)
            await opened.partition.append(key, Append(b"%d" % number, "application/json", producer))
    break_frame(frames(data)[2])
    await repair(data, tmp_path / "folder")
    async with DataDirectory(data) as opened:
        repeated = Append(b"2", "application/json", Producer("one", 0, 2))
        result = await opened.partition.append(key, repeated)
        assert result.duplicate
        assert opened.partition.find(key).tail == 3


# The bucket -----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["group", "footer", "missing", "cut"])
async def test_a_damaged_segment_costs_what_the_log_no_longer_has(
    data: Path, before: Records, tmp_path: Path, how: str
) -> None:
    path = (await newest(data)).segments[0].path
    file = data / "bucket" / path
    if how == "missing":
        file.unlink()
    elif how == "cut":
        file.write_bytes(file.read_bytes()[:-9])
    else:
        flip(file, 60 if how == "group" else -20)
    done = await repair(data, tmp_path / "folder")
    assert done.said(path)
    assert done.marked
    await check_marked(data, before, done)
    assert path not in [info.path for info in (await newest(data)).segments]
    assert (done.backups / "bucket" / path).exists() == (how != "missing")
    assert not file.exists()


async def test_what_the_log_still_has_is_taken_from_there(tmp_path: Path) -> None:
    """A segment that was flushed is gone, but the log's newest file still has all of its records."""
    data = tmp_path / "data"
    async with DataDirectory(data) as opened:
        await opened.partition.create(Key("default", "a"), Create(content_type="application/json"))
        for number in range(5):
            await opened.append("a", b"%d" % number)
        await opened.partition.flush()
        await opened.append("a", b"5")
    (info,) = (await newest(data)).segments
    (data / "bucket" / info.path).unlink()
    done = await repair(data, tmp_path / "folder")
    assert done.plan.losses == []
    assert done.said(data / "log") == "it still holds 5 positions that are missing in the bucket"
    assert (await records_of(data))["a"] == list(range(6))


async def test_a_damaged_checkpoint_costs_nothing_beside_a_catalog(
    data: Path, before: Records, tmp_path: Path
) -> None:
    path = (await newest(data)).checkpoints[-1].path
    flip(data / "bucket" / path, 40)
    done = await repair(data, tmp_path / "folder")
    assert "it still knows all streams" in done.said(data / "catalog.sqlite")
    assert done.plan.losses == []
    assert await records_of(data) == before
    assert (done.backups / "bucket" / path).exists()


@pytest.mark.parametrize("catalog", ["missing", "damaged", "older"])
async def test_a_damaged_checkpoint_costs_only_what_no_other_object_says(
    data: Path, before: Records, tmp_path: Path, catalog: str
) -> None:
    """The rows say where records are, but not which stream the fork was made from."""
    path = (await newest(data)).checkpoints[-1].path
    flip(data / "bucket" / path, 40)
    if catalog == "missing":
        (data / "catalog.sqlite").unlink()
    elif catalog == "damaged":
        (data / "catalog.sqlite").write_bytes(b"not a database" * 100)
    else:
        connection = sqlite3.connect(data / "catalog.sqlite")
        with connection:
            connection.execute("update about set manifest = manifest - 1")
        connection.close()
    done = await repair(data, tmp_path / "folder")
    assert "it still knows all streams" not in done.said(data / "catalog.sqlite")
    assert {path for path, _ in done.marked} == {"default/fork"}
    await check_marked(data, before, done)
    told = [one.what for one in done.plan.actions if one.where.endswith("(default/fork)")]
    assert told == [
        "its checkpoint is lost; records, names and content type come back from its rows, but not its"
        " producers, TTL, fork source and whether it was closed or deleted"
    ]


async def test_the_newest_manifest_is_replaced_by_what_its_objects_say(
    data: Path, before: Records, tmp_path: Path
) -> None:
    path = flip(manifests(data)[-1], 5)
    done = await repair(data, tmp_path / "folder")
    assert "It is the newest, so that no server starts." in done.said(path.relative_to(data / "bucket"))
    assert done.plan.losses == []
    assert await records_of(data) == before
    assert not path.exists()
    assert int(manifests(data)[-1].stem) > int(path.stem)


async def test_an_older_manifest_is_removed_and_nothing_else_changes(
    data: Path, before: Records, tmp_path: Path
) -> None:
    path, held = flip(manifests(data)[0], 5), await newest(data)
    done = await repair(data, tmp_path / "folder")
    assert {one.where for one in done.plan.actions} == {
        path.relative_to(data / "bucket").as_posix(),
        str(data / "catalog.sqlite"),
    }
    assert await newest(data) == held
    assert not path.exists()
    assert await records_of(data) == before


async def test_subscriptions_that_are_lost_are_those_of_an_earlier_flush(data: Path, tmp_path: Path) -> None:
    (changes,) = sorted((data / "bucket/partitions/00/subscriptions").glob("*.changes"))
    flip(changes, 3)
    done = await repair(data, tmp_path / "folder")
    whole = subscription_object(await newest(data)).path
    assert any(one.what.startswith("the subscriptions are those of flush ") for one in done.plan.actions)
    assert await subscriptions_of(data) == ["first"]
    assert whole != changes.relative_to(data / "bucket").as_posix()


async def test_a_damaged_snapshot_is_dropped_and_the_next_one_written(
    data: Path, before: Records, tmp_path: Path
) -> None:
    info = snapshot_of(await newest(data))
    assert info is not None
    flip(data / "bucket" / info.path, info.bytes // 2)
    done = await repair(data, tmp_path / "folder")
    assert "its bytes have changed" in done.said(info.path)
    assert snapshot_of(await newest(data)) is None
    assert (done.backups / "bucket" / info.path).exists()
    assert await records_of(data) == before
    async with DataDirectory(data) as opened:
        await opened.flush()
    later = snapshot_of(await newest(data))
    assert later is not None
    assert later.path != info.path


async def test_a_format_that_cannot_be_read_is_written_again(
    data: Path, before: Records, tmp_path: Path
) -> None:
    file, held = data / "bucket/format.json", await newest(data)
    good = file.read_bytes()
    file.write_bytes(b"{")
    done = await repair(data, tmp_path / "folder")
    assert "it is not what a server wrote" in done.said("format.json")
    assert file.read_bytes() == good
    assert (done.backups / "bucket/format.json").read_bytes() == b"{"
    assert await newest(data) == held, "no manifest is written for that"
    assert await records_of(data) == before


async def test_a_catalog_that_disagrees_is_removed(data: Path, before: Records, tmp_path: Path) -> None:
    connection = sqlite3.connect(data / "catalog.sqlite")
    with connection:
        connection.execute("delete from extents where stream = 1")
    connection.close()
    held = await newest(data)
    done = await repair(data, tmp_path / "folder")
    (action,) = done.plan.actions
    assert action.where == str(data / "catalog.sqlite")
    assert action.what.endswith("it is removed; the server rebuilds it")
    assert not (data / "catalog.sqlite").exists()
    assert (done.backups / "catalog.sqlite").exists()
    assert await newest(data) == held
    assert await records_of(data) == before


# Backups --------------------------------------------------------------------------------


async def test_backups_put_back_undo_a_repair(data: Path, before: Records, tmp_path: Path) -> None:
    """The damage is as it was, so that somebody who finds a good copy can restore that instead."""
    path = (await newest(data)).segments[0].path
    damaged = flip(data / "bucket" / path, 60).read_bytes()
    done = await repair(data, tmp_path / "folder")
    assert (done.backups / "bucket" / path).read_bytes() == damaged
    manifests(data)[-1].unlink()  # the one that the repair wrote
    (data / "bucket" / path).write_bytes(damaged)
    flip(data / "bucket" / path, 60)
    assert (await verify(await Bucket.open(data / "bucket"), data, partition=ONLY_PARTITION)).problems == []
    assert await records_of(data) == before


async def test_two_repairs_within_a_second_keep_their_backups_apart(tmp_path: Path) -> None:
    clock = ManualClock()
    folders = [Backups(tmp_path, clock.now_ms()).folder for _ in range(3)]
    assert len(set(folders)) == 3
    assert [folder.name.removeprefix(folders[0].name) for folder in folders] == ["", "-1", "-2"]
    assert all(folder.stat().st_mode & 0o777 == 0o700 for folder in folders)


async def test_a_missing_object_has_no_backup_and_is_no_error(tmp_path: Path) -> None:
    bucket = await Bucket.open(tmp_path / "bucket")
    backups = Backups(tmp_path, 0)
    await backups.keep_object(bucket, "events/none.parquet")
    assert list(backups.folder.rglob("*")) == []
    await bucket.create("events/one.parquet", b"one")
    await backups.keep_object(bucket, "events/one.parquet")
    assert (backups.folder / "bucket/events/one.parquet").read_bytes() == b"one"
    with pytest.raises(DurableSessionsError):
        await bucket.get("events/none.parquet")
