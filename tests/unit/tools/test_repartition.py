"""Repartitioning at rest: what it refuses, and that wherever it is killed it has happened or has not."""

import shutil
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from durable_sessions.bucket.format import read_format
from durable_sessions.bucket.layout import generation_of
from durable_sessions.bucket.objects import Listing, ObjectStore
from durable_sessions.bucket.partition_layout import PartitionLayout, read_layout
from durable_sessions.bucket.store import Bucket
from durable_sessions.errors import (
    BucketRefusedError,
    LogForeignError,
    LogLockedError,
    RepartitionRefusedError,
)
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.log.file import FileLog
from durable_sessions.log.generations import logged_generations
from durable_sessions.node.disk_space import Space
from durable_sessions.partition_id import PartitionId
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create
from durable_sessions.streams.effects import StreamDescribed
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.stream import Key
from durable_sessions.tier.catalog import OF_STREAMS, Catalog
from durable_sessions.tools import repartition
from durable_sessions.tools.repartition import Repartition, Repartitioned
from durable_sessions.tools.verify import verify
from tests.support.stopped import stopped
from tests.unit.tools.datadir import JSON, LIMITS, DataDirectory, make

pytestmark = pytest.mark.anyio


class KilledError(BaseException):
    """The process was killed here."""


class Killer:
    """Keeps a copy of the data as of the moment at which a process is killed.

    That is before its n-th step or change of the bucket, or before the step of a name.
    """

    def __init__(self, data: Path, at: int | str) -> None:
        self.data = data
        self.killed = data.with_name(f"{data.name}-killed")
        self.at = at
        self.count = 0

    def __call__(self, what: str) -> None:
        self.count += 1
        if self.at in (self.count, what):
            shutil.copytree(self.data, self.killed)
            raise KilledError(what)


class KilledBucket:
    """A bucket whose every change may be the last."""

    def __init__(self, bucket: ObjectStore, kill: Killer) -> None:
        self._bucket = bucket
        self._kill = kill

    async def create(self, path: str, data: bytes) -> None:
        self._kill(f"create {path}")
        await self._bucket.create(path, data)

    async def put(self, path: str, data: bytes) -> None:
        self._kill(f"put {path}")
        await self._bucket.put(path, data)

    async def delete(self, paths: Sequence[str]) -> None:
        self._kill(f"delete {paths}")
        await self._bucket.delete(paths)

    async def get(self, path: str) -> bytes:
        return await self._bucket.get(path)

    async def get_range(self, path: str, start: int, length: int) -> bytes:
        return await self._bucket.get_range(path, start, length)

    async def list(self, prefix: str, *, after: str = "") -> Listing:
        return await self._bucket.list(prefix, after=after)


async def divide(data: Path, partitions: int, kill: Killer | None = None) -> Repartitioned:
    bucket: ObjectStore = await Bucket.open(data / "bucket")
    if kill is None:
        return await Repartition(stopped(data), bucket, lambda step: None).run(partitions)
    return await Repartition(stopped(data), KilledBucket(bucket, kill), kill).run(partitions)


async def layout_of(data: Path) -> PartitionLayout:
    layout = await read_layout(await Bucket.open(data / "bucket"))
    assert layout is not None
    return layout


async def held(data: Path) -> dict[str, list[object]]:
    """Return the records of all streams, which a server would serve from this directory."""
    found: dict[str, list[object]] = {}
    for one in (await layout_of(data)).all:
        async with DataDirectory(data, one) as opened:
            records = await opened.held()
        assert found.keys().isdisjoint(records)
        found |= records
    return found


async def problems(data: Path, layout: PartitionLayout, *, log: bool = True) -> list[str]:
    bucket, found = await Bucket.open(data / "bucket"), list[str]()
    for one in layout.all:
        findings = await verify(bucket, one.directory(data) if log else None, partition=one)
        found += map(str, findings.problems)
    return found


@pytest.mark.parametrize(("first", "second"), [(1, 3), (3, 2)])
async def test_wherever_it_is_killed_it_has_happened_or_not(tmp_path: Path, first: int, second: int) -> None:
    data = tmp_path / "data"
    records = await make(data)
    if first > 1:
        await divide(data, first)
    before, at, seen = await layout_of(data), 0, set[int]()
    while True:
        at += 1
        again = tmp_path / f"try-{at}"
        shutil.copytree(data, again)
        kill = Killer(again, at)
        try:
            await divide(again, second, kill)
        except KilledError:
            shutil.rmtree(again)
        else:
            break
        layout = await layout_of(kill.killed)
        seen.add(layout.partitions)
        assert layout.partitions in (first, second)
        assert layout == before or layout.partitions == second
        assert await problems(kill.killed, layout) == [], at
        assert await held(kill.killed) == records
        done = await divide(kill.killed, second)
        assert done.layout.partitions == second
        assert logged_generations(kill.killed) == {done.layout.generation}, "nothing is left of others"
        assert await problems(kill.killed, done.layout) == []
        assert await held(kill.killed) == records
        shutil.rmtree(kill.killed)
    assert seen == {first, second}, "it was killed before and after it was committed"
    assert at > 20


SOON = replace(
    LIMITS,
    delete_within_seconds=0.0,
    garbage_grace_seconds=0.0,
    orphan_grace_seconds=0.0,
    sweep_seconds=0.0,
    manifests_kept_max=1,
)


async def maintain(data: Path, layout: PartitionLayout) -> None:
    """Let the servers of all partitions do what they do in a day."""
    for _ in range(2):  # a segment is removed when the last partition has written its part of it anew
        for one in layout.all:
            async with DataDirectory(data, one, SOON) as opened:
                while await opened.maintenance.step():
                    pass


def written_by(data: Path, generation: int) -> list[str]:
    bucket = data / "bucket"
    paths = (str(path.relative_to(bucket)) for path in bucket.rglob("*") if path.is_file())
    return sorted(path for path in paths if generation_of(path) == generation)


async def test_partitions_write_their_segments_apart_and_nothing_old_is_left(tmp_path: Path) -> None:
    data = tmp_path / "data"
    records = await make(data)
    async with DataDirectory(data) as opened:
        await opened.append("b", b'{"secret":"to be deleted"}')
    first = (await divide(data, 3)).layout
    assert written_by(data, 0)
    assert "to be deleted" in bodies(data)
    async with DataDirectory(data, PartitionId(2, 3, first.generation)) as opened:
        assert await opened.held() != {}
        await opened.partition.delete(Key("default", "b"))
        await opened.flush()
    await maintain(data, first)
    assert written_by(data, 0) == []
    assert written_by(data, 1)
    assert await problems(data, first) == []
    del records["b"]
    assert await held(data) == records
    assert "to be deleted" not in bodies(data)
    second = (await divide(data, 2)).layout
    await maintain(data, second)
    assert written_by(data, 1) == []
    assert await problems(data, second) == []
    assert await held(data) == records


def bodies(data: Path) -> str:
    """Return all messages that are still in the bucket."""
    files = (data / "bucket" / "events").rglob("*.parquet")
    found = [body for file in files for body in pq.ParquetFile(file).read().column("body").to_pylist()]
    return "".join(filter(None, found))


async def test_what_an_interrupted_run_wrote_is_removed(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await make(data)
    kill = Killer(data, "compare both generations")
    with pytest.raises(KilledError):
        await divide(data, 3, kill)
    assert written_by(kill.killed, 1)
    await maintain(kill.killed, PartitionLayout())
    assert written_by(kill.killed, 1) == []
    done = await divide(kill.killed, 3)
    assert await problems(kill.killed, done.layout) == []


async def test_nothing_of_the_old_generation_changes(tmp_path: Path) -> None:
    data = tmp_path / "data"
    records = await make(data)
    done = await divide(data, 3)
    assert done.before == PartitionLayout()
    assert (done.layout.generation, done.layout.partitions, done.layout.number) == (1, 3, 1)
    assert done.streams == 5
    assert await problems(data, done.before, log=False) == []
    assert await problems(data, done.layout) == []
    found = await read_format(await Bucket.open(data / "bucket"))
    assert found is not None
    assert found.version == 2
    assert logged_generations(data) == {1}
    assert sorted(path.name for path in data.iterdir()) == ["bucket", "partitions"]
    assert await held(data) == records


async def test_the_same_number_again_changes_nothing_and_tidies_up(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await make(data)
    done = await divide(data, 2)
    (PartitionId(0, 2, 7).directory(data) / "log").mkdir(parents=True)
    again = await divide(data, 2)
    assert again == (done.layout, done.layout, 0)
    assert not PartitionId(0, 2, 7).directory(data).exists()


async def test_the_time_of_a_close_stays_with_the_stream(tmp_path: Path) -> None:
    """Retention counts from it, and not from what was changed later."""
    data, closed = tmp_path / "data", Key("default", "c")
    await make(data)
    async with DataDirectory(data) as opened:
        await opened.partition.append(closed, Append(b"", JSON, close=True))
        stream = opened.partition.find(closed).stream
        described = StreamDescribed(stream.id, stream.changed_at_ms + 5, {"title": b'"later"'})
        await opened.partition.commit(lambda state, now_ms: ([described], None))
    found = set()
    for one in (await divide(data, 3)).layout.all:
        (one.directory(data) / "catalog.sqlite").unlink(missing_ok=True)
        async with DataDirectory(data, one) as opened:
            again = opened.partition.peek(closed)
            if again is not None:
                record = opened.partition._state.get(closed)
                assert record is not None
                found.add((record.id, record.closed_at_ms, record.changed_at_ms))
    assert found == {(stream.id, described.at_ms - 5, described.at_ms)}


async def test_what_is_owed_to_a_memory_scope_is_delivered(tmp_path: Path) -> None:
    """A partition was killed before the scope, which is in another one, had the record."""
    data, scope = tmp_path / "data", Key("default", "__memory/user:ann")
    await make(data)
    layout = (await divide(data, 2)).layout
    record = b'{"type":"ds.memory.written","id":"e","session":"s","incarnation":"i"}'
    away = next(one for one in layout.all if one.number != home_partition(*scope, of=2) and one.number < 2)
    async with DataDirectory(data, away) as opened:
        await opened.partition.commit(
            lambda state, now_ms: (state.outbox.numbered(state.outbox.owe([(scope, record)], 1_000)), None)
        )
    layout = (await divide(data, 3)).layout
    home = next(one for one in layout.all if one.number == home_partition(*scope, of=3))
    async with DataDirectory(data, home) as opened:
        durable = opened.partition.find(scope)
        assert (await opened.partition.read(durable, 0, 1_000)).data == record + b","


async def test_numbers_of_streams_are_never_used_twice(tmp_path: Path) -> None:
    data, numbers = tmp_path / "data", set[int]()
    await make(data)
    for count, partitions in enumerate((3, 1, 3, 2, 1)):
        layout = (await divide(data, partitions)).layout
        for one in layout.all:
            async with DataDirectory(data, one) as opened:
                key = Key("default", f"new/{count}/{one.digits}")
                await opened.partition.create(key, Create(content_type="text/plain"))
                number = opened.partition.find(key).stream.id
                assert number in one.streams
                assert number not in numbers
                numbers.add(number)


def test_every_table_of_the_catalog_is_divided(tmp_path: Path) -> None:
    """A new table must be added to what is copied, or it would be empty after a repartitioning."""
    Catalog.create(tmp_path / "catalog.sqlite", DEFAULT_LIMITS).close()
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as connection:
        tables = [
            name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")
        ]
        of_streams = {
            table
            for table in tables
            if "stream" in [row[1] for row in connection.execute(f"pragma table_info({table})")]
        }
    assert of_streams == set(OF_STREAMS)
    assert set(tables) - of_streams == {"about", "streams", "segments", "dirty"}


async def test_a_running_server_is_refused(tmp_path: Path) -> None:
    await make(tmp_path / "data")
    log = await FileLog.open(tmp_path / "data" / "log")
    with pytest.raises(LogLockedError):
        await divide(tmp_path / "data", 2)
    await log.close()


@pytest.mark.parametrize("count", [0, 101, -1])
async def test_another_number_is_refused(tmp_path: Path, count: int) -> None:
    await make(tmp_path / "data")
    with pytest.raises(RepartitionRefusedError, match="1 to 100 partitions"):
        await divide(tmp_path / "data", count)


async def test_an_empty_bucket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RepartitionRefusedError, match="it is empty"):
        await divide(tmp_path / "data", 2)


async def test_the_bucket_of_another_directory_is_refused(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    await make(one)
    await make(other)
    shutil.rmtree(one / "bucket")
    shutil.copytree(other / "bucket", one / "bucket")
    with pytest.raises(LogForeignError):
        await divide(one, 2)
    assert await layout_of(one) == PartitionLayout()
    await divide(other, 2)
    shutil.rmtree(one / "bucket")
    shutil.copytree(other / "bucket", one / "bucket")
    with pytest.raises(BucketRefusedError, match="repartitioned with another data directory"):
        await divide(one, 3)


async def test_a_full_disk_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = tmp_path / "data"
    records = await make(data)
    monkeypatch.setattr(repartition, "space_of", lambda directory: Space(1 << 40, 1 << 20))
    with pytest.raises(RepartitionRefusedError, match="bytes are needed on the disk"):
        await divide(data, 2)
    assert await layout_of(data) == PartitionLayout()
    assert await held(data) == records


async def test_what_it_cannot_divide_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await make(tmp_path / "data")
    monkeypatch.setattr(repartition, "_DIVIDED", frozenset({"subscriptions"}))
    with pytest.raises(RepartitionRefusedError, match="which this program cannot divide"):
        await divide(tmp_path / "data", 2)
