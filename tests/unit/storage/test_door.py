"""The door to storage: who may pass, what it shows, and that nothing can be changed through it."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

import durable_sessions
from durable_sessions.limits import Limits
from durable_sessions.storage.door import BucketControl, Streams, StreamView
from durable_sessions.streams.readonly import StreamHeader, StreamRecord
from durable_sessions.tier.bucket_tier import BucketTier
from tests.unit.storage.world import World, key

pytestmark = pytest.mark.anyio

ABOVE = ("access", "sessions", "managed_agents", "search", "http", "node")
LIMITS = replace(Limits(), active_streams_max=0)


def typed(world: World, tier: BucketTier) -> tuple[Streams, BucketControl]:
    """Only for the type checker: this is what stands behind the door."""
    return world.partition, tier


def refused(view: StreamView, header: StreamHeader, record: StreamRecord) -> None:
    """Only for the type checker: each of these would be an unused ignore if it were allowed."""
    view.tail = 1  # type: ignore[misc]
    view.closed = True  # type: ignore[misc]
    view.removed = True  # type: ignore[misc]
    view.attributes["a"] = b"1"  # type: ignore[index]
    view.stream.id = 2  # type: ignore[misc]
    header.base = 3  # type: ignore[misc]
    record.tail = 4  # type: ignore[misc]
    record.attributes = {}  # type: ignore[misc]


def test_nobody_above_storage_names_a_mutable_stream() -> None:
    found = []
    root = Path(durable_sessions.__file__).parent
    for room in ABOVE:
        for path in (root / room).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ImportFrom):
                    named = {alias.name for alias in node.names}
                    found += [(path.name, name) for name in named & {"Stream", "DurableStream"}]
    assert not found


async def asleep(tmp_path: Path, count: int) -> World:
    """Return a world whose streams are all flushed and out of memory."""
    world = await World(tmp_path, LIMITS).open()
    for number in range(count):
        await world.create(f"s/{number}", b"[1]")
    await world.create("other/1")
    await world.flush()
    for _ in range(3):
        await world.partition.evict_idle()
    assert not world.partition.active_streams
    return world


async def test_a_scan_finds_each_stream_once_also_those_loaded_meanwhile(tmp_path: Path) -> None:
    world = await asleep(tmp_path, 5)
    world.partition.find(key("s/1"))
    found: list[tuple[str, int]] = []
    for page in world.partition.stream_pages("s/", 1):
        found += [(one.stream.key.path, one.tail) for one in page]
        if found == [("s/1", 1)]:
            await world.append("s/3", b"[2]")
    assert sorted(found) == [("s/0", 1), ("s/1", 1), ("s/2", 1), ("s/3", 2), ("s/4", 1)]
    await world.close()


async def test_a_scan_leaves_out_what_was_deleted_before_its_page(tmp_path: Path) -> None:
    world = await asleep(tmp_path, 3)
    pages = world.partition.stream_pages("s/", 1)
    found = [one.stream.key.path for one in next(pages)]
    await world.partition.delete(key("s/2"))
    found += [one.stream.key.path for page in pages for one in page]
    assert found == ["s/0", "s/1"]
    await world.close()


async def test_a_view_shows_what_became_durable_after_its_stream_left_memory(tmp_path: Path) -> None:
    world = await asleep(tmp_path, 1)
    view: StreamView = world.partition.find(key("s/0"))
    for _ in range(3):
        await world.partition.evict_idle()
    assert world.partition.in_memory(view.stream.id) is None
    await world.append("s/0", b"[2]")
    assert view.tail == 2
    assert (await world.partition.read(view, 0, 100)).data == b"1,2,"
    await world.close()


async def test_what_is_not_in_memory_is_peeked_at_and_what_is_not_there_is_not(tmp_path: Path) -> None:
    world = await asleep(tmp_path, 1)
    view = world.partition.peek(key("s/0"))
    assert view is not None
    assert world.partition.peek_id(view.stream.id) is view
    assert world.partition.in_memory(view.stream.id) is view
    assert world.partition.peek(key("s/9")) is None
    assert world.partition.peek_id(99) is None
    await world.close()


async def test_counts_are_of_one_moment(tmp_path: Path) -> None:
    world = await World(tmp_path, Limits()).open()
    await world.create("s/0", b"[1]")
    before = world.partition.counts()
    await world.append("s/0", b"[2,3]")
    after = world.partition.counts()
    assert (before.records, after.records) == (1, 3)
    assert (before.appends, after.appends) == (1, 2)
    assert sum(after.sync_seconds.counts) == sum(before.sync_seconds.counts) + 1
    assert not after.stopped
    await world.close()


async def test_pieces_of_bucket_log_and_memory_can_be_kept(tmp_path: Path) -> None:
    """They stay what they were while the stream grows, is flushed again, and leaves memory and caches."""
    world = await World(tmp_path, replace(LIMITS, block_cache_bytes_max=1)).open()
    await world.create("s", b"[1,2]")
    await world.flush()
    for _ in range(3):
        await world.partition.evict_idle()
    view = world.partition.find(key("s"))
    await world.append("s", b"[3,4]")
    assert world.partition.read_hot(view, 0, 100) is None, "1 and 2 are in the bucket only"
    pieces, following = await world.partition.read_pieces(view, 0, 100)
    assert following == 4
    for number in range(5, 50):
        await world.append("s", b"[%d]" % number)
    await world.flush()
    for _ in range(3):
        await world.partition.evict_idle()
    assert b"".join(pieces) == b"1,2,3,4,"
    assert (await world.partition.read(view, 1, 4)).data == b"2,3,"
    await world.close()
