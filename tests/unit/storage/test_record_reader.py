"""Reads that are under way while what they read is removed."""

import asyncio
from pathlib import Path

import pytest

from durable_sessions.errors import StreamNotFoundError
from tests.unit.storage.world import World, key

pytestmark = pytest.mark.anyio


async def test_a_fork_that_is_removed_with_its_source_during_a_read_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await World(tmp_path).open()
    await world.create("source", b"[1]")
    await world.flush()
    await world.append("source", b"[2]")
    await world.fork("fork", "source")
    await world.delete("source")
    await world.flush()
    fork = world.partition.find(key("fork"))
    asked, removed, get_range = asyncio.Event(), asyncio.Event(), world.store.get_range

    async def get_range_after_the_removal(path: str, start: int, length: int) -> bytes:
        asked.set()
        await removed.wait()
        return await get_range(path, start, length)

    monkeypatch.setattr(world.store, "get_range", get_range_after_the_removal)
    reading = asyncio.ensure_future(world.partition.read(fork, 0, 100))
    await asked.wait()
    await world.delete("fork")
    removed.set()
    with pytest.raises(StreamNotFoundError):
        await reading
    await world.close()


async def test_a_read_of_the_bucket_that_is_full_ends_without_looking_for_another_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await World(tmp_path).open()
    await world.create("a", b"[%b]" % b",".join(b"%d" % number for number in range(10, 90)))
    await world.flush()
    await world.reopen()  # so that nothing is in memory
    records, starts = world.archive.records, []
    read = records.read

    async def counted(
        stream: int, start: int, stop: int, bytes_max: int
    ) -> tuple[list[memoryview], int, bool]:
        starts.append(start)
        return await read(stream, start, stop, bytes_max)

    monkeypatch.setattr(records, "read", counted)
    found = await world.partition.read(world.partition.find(key("a")), 0, 100)
    assert (len(found.data), found.next, starts) == (99, 33, [0])
    rest = await world.partition.read(world.partition.find(key("a")), found.next, 1_000)
    assert (len(rest.data), rest.next, starts) == (141, 80, [0, 33])
    await world.close()
