"""The outbox of a partition: it survives flushes, trims and restarts, and delivers only what is durable."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.errors import LogEffectUnknownError, OverloadedError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.storage.outbox_delivery import OutboxDelivery
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.outbox import OwedRecord
from durable_sessions.streams.stream import Key
from durable_sessions.testing.memory_log import MemoryLog
from tests.support.waiting import until
from tests.unit.storage.world import World

pytestmark = pytest.mark.anyio

A, B = Key("", "audit/a"), Key("", "audit/b")
LIMITS = replace(DEFAULT_LIMITS, outbox_retry_seconds=0.001, outbox_retry_seconds_max=0.002)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = await World(tmp_path, replace(LIMITS, subscription_changes_max=2)).open()
    yield world
    await world.close()


def owe(partition: Partition, *records: tuple[Key, bytes]) -> "asyncio.Future[None]":
    return partition.commit(lambda state, now_ms: (state.outbox.owe(records, LIMITS.outbox_bytes_max), None))


class Receiver:
    """Takes records; ``away`` are the targets that fail."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, bytes]] = []
        self.away: set[Key] = set()
        self.tried = 0

    async def take(self, record: OwedRecord) -> None:
        self.tried += 1
        await asyncio.sleep(0)
        if record.target in self.away:
            raise OverloadedError(what="patience")
        self.taken.append((record.target.path[-1], record.data))


async def test_entries_survive_flushes_trims_and_restarts(world: World) -> None:
    for number in range(7):
        await owe(world.partition, (A if number % 2 else B, b"%d" % number))
        await world.flush()
    await world.reopen()
    await world.create("s", b"[1]")
    await world.flush()
    await world.reopen(forget_catalog=True)
    receiver = Receiver()
    assert await OutboxDelivery(world.partition, receiver.take, LIMITS).deliver_all()
    assert sorted(receiver.taken) == [
        *[("a", b"%d" % number) for number in (1, 3, 5)],
        *[("b", b"%d" % number) for number in (0, 2, 4, 6)],
    ]
    await world.flush()
    await world.reopen(forget_catalog=True)
    assert not len(world.partition.tip.outbox)


async def test_numbers_are_not_used_again_after_everything_was_delivered(world: World) -> None:
    seen: list[int] = []
    for number in range(6):
        await owe(world.partition, (A, b"%d" % number))
        seen += [one.id.number for line in world.partition.tip.outbox.pending() for one in line]
        await OutboxDelivery(world.partition, Receiver().take, LIMITS).deliver_all()
        await world.flush()
        await world.reopen(forget_catalog=number % 2 == 0)
    assert len(set(seen)) == 6
    assert seen == sorted(seen)


async def test_nothing_is_delivered_before_it_is_durable() -> None:
    log = MemoryLog()
    partition = await Partition.open(log, ManualClock(), LIMITS)
    receiver = Receiver()
    delivery = OutboxDelivery(partition, receiver.take, LIMITS)
    log.hold()
    owing = owe(partition, (A, b"1"))
    round_ = asyncio.create_task(delivery.deliver_all())
    for _ in range(20):
        await asyncio.sleep(0)
    assert receiver.tried == 0
    log.release()
    await owing
    assert await round_
    assert receiver.taken == [("a", b"1")]
    await partition.close()


async def test_a_target_that_fails_keeps_its_entries_and_delays_no_other() -> None:
    partition = await Partition.open(MemoryLog(), ManualClock(), LIMITS)
    receiver = Receiver()
    receiver.away = {A}
    delivery = OutboxDelivery(partition, receiver.take, LIMITS)
    await owe(partition, (A, b"1"), (B, b"2"), (A, b"3"))
    running = asyncio.create_task(delivery.run())
    await until(lambda: bool(receiver.taken) and receiver.tried > 5)
    assert receiver.taken == [("b", b"2")]
    assert "patience" in (delivery.failure or "")
    receiver.away = set()
    await until(lambda: not len(partition.tip.outbox))
    assert receiver.taken[1:] == [("a", b"1"), ("a", b"3")]
    await owe(partition, (A, b"4"))
    await until(lambda: len(receiver.taken) == 4)
    await until(lambda: delivery.failure is None)
    running.cancel()
    await partition.close()


async def test_what_was_not_acknowledged_is_delivered_again(world: World) -> None:
    await owe(world.partition, (A, b"1"), (A, b"2"))
    taken: list[bytes] = []

    async def lossy(record: OwedRecord) -> None:
        taken.append(record.data)
        if record.data == b"2":
            raise ConnectionError

    assert not await OutboxDelivery(world.partition, lossy, LIMITS).deliver_all()
    await world.partition.settled()
    await world.reopen()
    receiver = Receiver()
    assert await OutboxDelivery(world.partition, receiver.take, LIMITS).deliver_all()
    assert taken == [b"1", b"2"]
    assert receiver.taken == [("a", b"2")]


async def test_an_effect_that_only_newer_programs_know_is_refused() -> None:
    unknown = msgspec.msgpack.encode([99, "new"])
    log = MemoryLog([len(unknown).to_bytes(4, "little") + unknown])
    with pytest.raises(LogEffectUnknownError, match="newer program"):
        await Partition.open(log, ManualClock(), LIMITS)
