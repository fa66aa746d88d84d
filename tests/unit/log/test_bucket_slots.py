"""Slots in an object store, when their owner slept through the claim and the trim of another."""

import secrets
from collections.abc import Sequence
from pathlib import Path

import pytest

from durable_sessions.bucket.local import LocalStore
from durable_sessions.errors import BucketError, LogError, LogFencedError
from durable_sessions.log import Claimant
from durable_sessions.log.bucket import BucketSlots
from durable_sessions.log.shared import SharedLog

pytestmark = pytest.mark.anyio

KEPT_SECONDS = 100.0
PREFIX = "partitions/00/log"


class World:
    """A store in a directory, and a clock; objects count as old as soon as they are there."""

    def __init__(self, store: LocalStore) -> None:
        self.store = store
        self.lineage = f"log_{secrets.token_hex(16)}"
        self.now = 1000.0
        self.lost = 0
        self.slow_seconds = 0.0
        self.listed_after = ""

    async def create(self, path: str, data: bytes) -> None:
        await self.store.create(path, data)
        self.now += self.slow_seconds
        if self.lost:
            self.lost -= 1
            raise BucketError(reason="no answer")

    async def open(self, node: str, *, kept_seconds: float = KEPT_SECONDS) -> SharedLog:
        slots = BucketSlots(self, PREFIX, kept_seconds=kept_seconds, now=lambda: self.now)
        await slots.refresh()
        log = SharedLog(slots, self.lineage, pause_seconds=0.001, resolve_seconds_max=1.0)
        await log.claim(Claimant(node))
        return log

    async def get(self, path: str) -> bytes:
        return await self.store.get(path)

    async def delete(self, paths: Sequence[str]) -> None:
        await self.store.delete(paths)

    async def list(self, prefix: str, *, after: str = "") -> list[tuple[str, int, int]]:
        self.listed_after = after
        listed = await self.store.list(prefix, after=after)
        return [(info.path, info.size, info.modified_at_ms) for info in listed]


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(await LocalStore.open(tmp_path))


async def superseded(world: World) -> tuple[SharedLog, SharedLog, list[tuple[int, bytes]]]:
    """Return the log of an owner that sleeps, that of its successor, which has trimmed, and what is left."""
    old = await world.open("old")
    await old.append(b"a")
    new = await world.open("new", kept_seconds=0.0)
    batches = [(await new.append(batch), batch) for batch in (b"b", b"c", b"d")]
    await new.trim(batches[1][0])
    assert new.begins_after == batches[1][0] - 1
    return old, new, batches[1:]


async def test_an_owner_that_slept_through_claim_and_trim_is_fenced(world: World) -> None:
    old, new, batches = await superseded(world)
    world.now += KEPT_SECONDS
    with pytest.raises(LogFencedError, match="is trimmed"):
        await old.append(b"late")
    batches.append((await new.append(b"e"), b"e"))
    assert [batch async for batch in new.replay()] == batches


async def test_a_create_that_takes_too_long_is_looked_at_again(world: World) -> None:
    old, new, batches = await superseded(world)
    world.slow_seconds = KEPT_SECONDS
    with pytest.raises(LogFencedError, match="is trimmed"):
        await old.append(b"late")
    assert await (await world.open("third")).checksum(batches[0][0]) is not None
    assert [batch async for batch in new.replay()] == batches


async def test_after_a_lost_answer_a_trimmed_slot_says_nothing(world: World) -> None:
    old, new, batches = await superseded(world)
    world.lost, world.slow_seconds = 1, KEPT_SECONDS
    with pytest.raises(LogError) as caught:
        await old.append(b"late")
    assert not isinstance(caught.value, LogFencedError)
    assert [batch async for batch in new.replay()] == batches


async def test_a_trim_keeps_what_is_young(world: World) -> None:
    log = await world.open("old")
    await log.append(b"a")
    last = await log.append(b"b")
    await log.trim(last)
    assert [batch async for batch in log.replay()] == [(last, b"b")]
    assert len(await world.list("partitions/00/log")) == 3  # the claim, too


async def test_the_next_frames_are_listed_without_those_before(world: World) -> None:
    old, _, batches = await superseded(world)
    slots = BucketSlots(world, PREFIX)
    await slots.refresh()
    stored = slots.stored_bytes
    first, *_ = batches[0]
    assert [position for position, _ in await slots.frames_after(first)] == [batches[1][0]]
    assert world.listed_after == slots.path(first)
    assert slots.stored_bytes == stored > 0, "what is stored is known from whole listings alone"
    assert await slots.frames_after(batches[1][0]) == []
    await old.close()


async def test_what_came_much_too_late_is_not_taken_for_damage(world: World) -> None:
    _, new, batches = await superseded(world)
    await world.store.create("partitions/00/log/00000000000000000002", b"late")
    slots = BucketSlots(world, "partitions/00/log", floor=batches[0][0])
    await slots.refresh()
    log = SharedLog(slots, world.lineage)
    await log.claim(Claimant("third"))
    assert [batch async for batch in log.replay()] == batches
    assert new.begins_after == log.begins_after
