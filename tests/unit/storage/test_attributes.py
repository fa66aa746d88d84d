"""Attributes of streams and names of records: durable before they are seen, and kept by flushes."""

import io
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from durable_sessions.bucket.records import AppendRun
from durable_sessions.ids import RandomIds
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.effects import Effect, Name, RecordsAppended, StreamCreated, StreamDescribed
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Stream
from durable_sessions.tier.bucket_archive import BucketArchive
from tests.unit.storage.world import World, key

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = await World(tmp_path).open()
    yield world
    await world.close()


async def describe(world: World, path: str, **attributes: bytes | None) -> None:
    def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], None]:
        stream = state.get(key(path))
        assert stream is not None
        return [StreamDescribed(stream.id, now_ms, attributes)], None

    await world.partition.commit(decide)


async def append_named(world: World, path: str, message: bytes, name: str) -> None:
    def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], None]:
        stream = state.get(key(path))
        assert stream is not None
        names = (Name(name, stream.tail, 1, 7),)
        data = message + b","
        return [
            RecordsAppended(stream.id, stream.tail, now_ms, (len(data),), None, None, False, data, names)
        ], None

    await world.partition.commit(decide)


def named(world: World, path: str, name: str) -> Name | None:
    state = world.partition._state
    stream = state.get(key(path))
    assert stream is not None
    return state.named(stream, name)


def attributes(world: World, path: str) -> dict[str, bytes]:
    return world.partition.find(key(path)).attributes


def names_of(stream: Stream, run: AppendRun) -> Iterable[Name]:
    """Call each message by its own text."""
    begin = 0
    for position, length in enumerate(run.lengths, run.first):
        yield Name(run.data[begin : begin + length - 1].decode().strip('"'), position, 1, 7)
        begin += length


async def reopen_without_catalog(world: World) -> None:
    await world.close()
    world.catalog_path.unlink()
    world.archive = await BucketArchive.open(
        world.faults,
        world.catalog_path,
        world.clock,
        RandomIds(),
        world.limits,
        names_of,
        log=world.log,
        partition=ONLY_PARTITION,
    )
    world.partition = await Partition.open(world.log, world.clock, world.limits, world.archive)


async def test_attributes_are_seen_when_they_are_durable_and_not_before(world: World) -> None:
    await world.create("s/a")
    stream = world.partition._state.get(key("s/a"))
    assert stream is not None
    described = StreamDescribed(stream.id, 5, {"title": b'"one"'})
    pending = world.partition.commit(lambda *_: ([described], None))
    assert stream.attributes == {"title": b'"one"'}
    assert attributes(world, "s/a") == {}
    await pending
    assert attributes(world, "s/a") == {"title": b'"one"'}


@pytest.mark.parametrize("flush", [False, True])
@pytest.mark.parametrize("forget", [False, True])
async def test_attributes_survive(world: World, flush: bool, forget: bool) -> None:
    await world.create("s/a")
    await describe(world, "s/a", title=b'"one"', note=b"1")
    if flush:
        await world.flush()
    await describe(world, "s/a", title=b'"two"', note=None)
    if flush:
        await world.flush()
    await world.reopen(forget_catalog=forget)
    assert attributes(world, "s/a") == {"title": b'"two"'}


async def test_attributes_are_a_json_object_in_the_bucket(world: World) -> None:
    await world.create("s/a")
    await describe(world, "s/a", title=b'"one"', metadata=b'{"a":1}')
    await world.flush()
    (path,) = [path for path in world.store.objects if path.startswith("sessions/")]
    (row,) = pq.read_table(io.BytesIO(world.store.objects[path])).to_pylist()
    assert json.loads(row["attributes"]) == {"title": "one", "metadata": {"a": 1}}


async def test_sizes_count_what_was_appended(world: World) -> None:
    await world.create("s/a", b'["first"]')
    await world.fork("s/b", "s/a")
    await world.append("s/b", b'["second"]')
    await world.flush()
    await world.reopen(forget_catalog=True)
    sizes = [world.partition.find(key(path)).stream.record_bytes for path in ("s/a", "s/b")]
    assert sizes == [len(b'"first",'), len(b'"second",')]


async def test_a_name_is_found_before_and_after_a_flush_and_a_restart(world: World) -> None:
    await world.create("s/a", b'["zero"]')
    await append_named(world, "s/a", b'"one"', "one")
    expected = Name("one", 1, 1, 7)
    assert named(world, "s/a", "one") == expected
    await world.reopen()
    assert named(world, "s/a", "one") == expected
    await world.flush()
    stream = world.partition._state.get(key("s/a"))
    assert stream is not None
    assert stream.names is None, "what is flushed takes no memory"
    assert named(world, "s/a", "one") == expected
    await world.reopen()
    assert named(world, "s/a", "one") == expected
    assert named(world, "s/a", "zero") is None


async def test_names_are_told_again_from_the_bucket(world: World) -> None:
    await world.create("s/a")
    await append_named(world, "s/a", b'"one"', "one")
    await world.create("s/b", b'["none"]')
    await world.flush()
    await append_named(world, "s/a", b'"two"', "two")
    await world.flush()
    await reopen_without_catalog(world)
    assert named(world, "s/a", "one") == Name("one", 0, 1, 7)
    assert named(world, "s/a", "two") == Name("two", 1, 1, 7)
    assert named(world, "s/b", "none") is None, "a stream without names is not looked into"


async def test_a_fork_knows_the_names_that_it_inherits_and_no_others(world: World) -> None:
    await world.create("s/a")
    await append_named(world, "s/a", b'"one"', "one")
    await world.fork("s/b", "s/a")
    await append_named(world, "s/a", b'"two"', "two")
    await append_named(world, "s/b", b'"other"', "other")
    for _ in range(2):
        assert named(world, "s/b", "one") == Name("one", 0, 1, 7)
        assert named(world, "s/b", "two") is None
        assert named(world, "s/b", "other") == Name("other", 1, 1, 7)
        assert named(world, "s/a", "other") is None
        await world.flush()


async def test_the_names_of_a_deleted_stream_are_gone(world: World) -> None:
    await world.create("s/a")
    await append_named(world, "s/a", b'"one"', "one")
    await world.flush()
    await world.delete("s/a")
    await world.create("s/a")
    await world.flush()
    assert named(world, "s/a", "one") is None
    assert world.archive.catalog.reader.load_name(1, "one") is None


async def test_effects_of_older_logs_have_no_names(world: World) -> None:
    effect = RecordsAppended(1, 0, 5, (2,), None, None, False, b"1,")
    assert effect.names == ()
    state = State()
    state.apply(StreamCreated(1, "w", "s/a", "application/json", 5))
    state.apply(effect)
    assert state.by_id[1].named == 0


def page(world: World, after: int | None = None, limit: int = 3, *, newest_first: bool = True) -> list[str]:
    found = world.partition.folders.page("default", "s", after, limit, newest_first=newest_first)
    return [one.stream.key.path for one in found.streams]


def number(world: World, path: str) -> int:
    return world.partition.find(key(path)).stream.id


async def test_pages_go_through_memory_and_catalog_alike(world: World) -> None:
    everything = [f"s/{index}" for index in range(10)]
    for path in [*everything[:4], "other", "t/1"]:
        await world.create(path)
    await world.flush()
    await world.reopen()
    await world.append("s/2", b"[1]")  # is in memory and in the catalog
    for path in everything[4:]:
        await world.create(path)
    for newest_first in (True, False):
        expected = everything[::-1] if newest_first else everything
        found: list[str] = []
        after = None
        while some := page(world, after, newest_first=newest_first):
            found += some
            after = number(world, some[-1])
        assert found == expected
    assert page(world, number(world, "s/5"), newest_first=False) == ["s/6", "s/7", "s/8"]


async def test_pages_leave_out_what_is_removed(world: World) -> None:
    for index in range(8):
        await world.create(f"s/{index}")
    await world.fork("f/1", "s/1")
    await world.flush()
    for index in (1, 2, 6):
        await world.delete(f"s/{index}")
    assert page(world, limit=10) == ["s/7", "s/5", "s/4", "s/3", "s/0"]
    assert page(world, limit=4, newest_first=False) == ["s/0", "s/3", "s/4", "s/5"]
    await world.flush()
    await world.reopen(forget_catalog=True)
    assert page(world, limit=10) == ["s/7", "s/5", "s/4", "s/3", "s/0"]
