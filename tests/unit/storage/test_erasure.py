"""Erased records: gone for every reader at once, and from the bucket within the promised time."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from durable_sessions.storage.partition import Partition
from durable_sessions.streams.effects import ErasedRecord, RecordsErased
from tests.unit.storage.world import GONE_SECONDS, World, key

SECRET = b"open sesame"
GONE = b'{"gone":true},'


async def erase(world: World, path: str, positions: Sequence[int], spares: int = 0) -> None:
    stream = world.partition.tip.get(key(path))
    assert stream is not None
    records = tuple(ErasedRecord(position, GONE, spares) for position in positions)
    effect = RecordsErased(stream.id, world.clock.now_ms(), records)
    await world.partition.commit(lambda _state, _now: ([effect], None))


async def filled(tmp_path: Path) -> World:
    world = await World(tmp_path).open()
    await world.create("a", b'["first","open sesame"]')
    await world.append("a", b'["third"]')
    return world


AFTER = b'"first",{"gone":true},"third",'


@pytest.mark.parametrize("flushed", [False, True])
def test_an_erased_record_is_read_as_something_else_at_once_and_for_ever(
    tmp_path: Path, flushed: bool
) -> None:
    async def run() -> None:
        world = await filled(tmp_path)
        if flushed:
            await world.flush()
        await erase(world, "a", [1])
        for at_once in (100, 1):
            assert await world.read("a", at_once) == AFTER
        await world.reopen()
        assert await world.read("a") == AFTER
        await world.flush()
        assert await world.read("a") == AFTER
        await world.reopen(forget_catalog=True)
        assert await world.read("a") == AFTER

    asyncio.run(run())


def test_the_records_leave_the_bucket_in_time_and_the_overlay_with_them(tmp_path: Path) -> None:
    async def run() -> None:
        world = await filled(tmp_path)
        await world.flush()
        assert list(world.holding(SECRET))
        await erase(world, "a", [1])
        await world.flush()
        for _ in range(int(GONE_SECONDS / 5)):
            world.clock.advance(5)
            await world.maintain()
            await world.partition.settle_erasures()
        await world.flush()
        assert not list(world.holding(SECRET))
        stream = world.partition.tip.get(key("a"))
        assert stream is not None
        assert not stream.overlay
        assert stream.erasures == 1
        assert await world.read("a") == AFTER
        await world.reopen(forget_catalog=True)
        assert await world.read("a") == AFTER

    asyncio.run(run())


def test_what_is_erased_before_a_flush_never_reaches_the_bucket(tmp_path: Path) -> None:
    async def run() -> None:
        world = await filled(tmp_path)
        await erase(world, "a", [1])
        await world.flush()
        assert not list(world.holding(SECRET))
        await world.partition.settle_erasures()
        await world.flush()
        assert await world.read("a") == AFTER

    asyncio.run(run())


def test_forks_read_the_erasure_of_their_source(tmp_path: Path) -> None:
    async def run() -> None:
        world = await filled(tmp_path)
        await world.fork("b", "a")
        await world.append("b", b'["own"]')
        await erase(world, "a", [1])
        assert await world.read("b") == AFTER + b'"own",'
        view = world.partition.find(key("b"))
        assert world.partition.erasures(view) == 1

    asyncio.run(run())


def test_forks_that_an_erasure_spares_read_the_record_until_they_are_gone(tmp_path: Path) -> None:
    async def run() -> None:
        world = await filled(tmp_path)
        await world.fork("before", "a")
        await world.flush()
        await erase(world, "a", [1], spares=world.partition.tip.next_stream)
        await world.fork("after", "a")
        before = b'"first","open sesame","third",'

        async def check() -> None:
            assert await world.read("a") == AFTER
            assert await world.read("before") == before
            assert await world.read("after") == AFTER

        await check()
        await world.flush()
        await world.maintain_for(GONE_SECONDS)
        await world.partition.settle_erasures()
        await check()
        await world.delete("before")
        await world.flush()
        for _ in range(int(GONE_SECONDS / 5)):
            world.clock.advance(5)
            await world.maintain()
        assert not list(world.holding(SECRET))
        assert await world.read("after") == AFTER

    asyncio.run(run())


def test_a_read_that_began_before_the_erasure_was_settled_does_not_show_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes that a slow read has fetched from the bucket may be older than the overlay."""

    async def run() -> None:
        world = await filled(tmp_path)
        await world.flush()
        read = world.archive.records.read
        erased = False

        async def slowly(*arguments: int) -> tuple[list[memoryview], int, bool]:
            nonlocal erased
            found = await read(*arguments)
            if not erased:
                erased = True
                await erase(world, "a", [1])
            return found

        monkeypatch.setattr(world.archive.records, "read", slowly)
        partition: Partition = world.partition
        found = await partition.read(partition.find(key("a")), 0, 1_000)
        assert found.data == AFTER

    asyncio.run(run())
