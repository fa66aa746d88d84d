"""Streams that leave memory while somebody has looked them up: there is only one object for each."""

import asyncio
import gc
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from durable_sessions.storage.durable_stream import DurableStream
from tests.unit.storage.world import LIMITS, World, key

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = await World(tmp_path, replace(LIMITS, active_streams_max=0)).open()
    yield world
    await world.close()


async def evict(world: World) -> None:
    """Flush, and let what nobody uses leave memory."""
    await world.flush()
    for _ in range(3):
        await world.partition.evict_idle()
    assert not world.partition._published.by_id


async def held(world: World) -> DurableStream:
    """Return a stream that was looked up and has left memory since."""
    await world.create("s", b"[1]")
    durable = world.partition.find(key("s"))
    await evict(world)
    return durable


async def test_who_waits_is_woken(world: World) -> None:
    durable = await held(world)
    waiter = world.partition.wait(durable)
    await world.append("s", b"[2]")
    async with asyncio.timeout(60):
        await waiter
    assert durable.tail == 2
    found = await world.partition.read(durable, 0, 100)
    assert found.data == b"1,2,"


async def test_who_waits_later_sees_what_came_meanwhile(world: World) -> None:
    durable = await held(world)
    await world.append("s", b"[2]")
    await evict(world)
    await world.append("s", b"[3]")
    assert durable.tail == 3
    assert world.partition.find(key("s")) is durable


async def test_close_and_delete_are_seen(world: World) -> None:
    durable = await held(world)
    waiter = world.partition.wait(durable)
    await world.delete("s")
    async with asyncio.timeout(60):
        await waiter
    assert durable.removed


async def test_a_new_stream_of_the_same_name_is_another_one(world: World) -> None:
    durable = await held(world)
    await world.delete("s")
    await world.create("s", b"[1,2,3]")
    assert durable.removed
    assert durable.tail == 1
    assert world.partition.find(key("s")) is not durable


async def test_attributes_of_a_held_stream_are_current(world: World) -> None:
    await world.create("s", b"[1]")
    first = world.partition.find(key("s"))
    await world.flush()
    await world.append("s", b"[2]")
    await evict(world)
    again = world.partition.find(key("s"))
    assert again is first
    assert (first.tail, first.flushed, first.record_bytes) == (2, 2, 4)


async def test_a_source_that_left_memory_is_read_through_its_fork(world: World) -> None:
    await world.create("s", b"[1]")
    await world.fork("f", "s")
    durable = world.partition.find(key("f"))
    await evict(world)
    await world.append("f", b"[2]")
    assert (await world.partition.read(durable, 0, 100)).data == b"1,2,"


async def test_access_to_a_held_stream_keeps_it_alive(world: World) -> None:
    await world.create("s", b"[1]", ttl_seconds=100)
    durable = world.partition.find(key("s"))
    await evict(world)
    for _ in range(3):
        world.clock.advance(60)
        world.partition.touch(durable)
        await world.partition.settled()
        world.partition.expire()
        await world.partition.settled()
        await evict(world)
    assert world.partition.find(key("s")) is durable


async def test_nothing_stays_of_streams_that_nobody_holds(world: World) -> None:
    for number in range(20):
        await world.create(f"s{number}", b"[1]")
    await evict(world)
    gc.collect()
    assert not world.partition._published._held


async def test_who_waits_is_woken_at_the_end(world: World) -> None:
    durable = await held(world)
    waiter = world.partition.wait(durable)
    world.partition.wake_readers()
    assert waiter.done()


async def test_what_comes_into_memory_while_paths_are_looked_at_is_found(world: World) -> None:
    await world.create("cold", b"[1]")
    await evict(world)
    await world.create("hot", b"[1]")
    pages = world.partition.path_pages("default")
    found = [path for _, path in next(pages)]
    world.partition.find(key("cold"))
    found += [path for page in pages for _, path in page]
    assert sorted(found) == ["cold", "hot"]
