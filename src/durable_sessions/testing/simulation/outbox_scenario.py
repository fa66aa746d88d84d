"""A short scenario in which a partition owes records to another one, to be interrupted at every fault point.

Each act appends a record to a stream and owes the same record to a stream of the other partition, in one
batch. So in the end both streams must be equal, whatever was cut off, lost or repeated in between.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from durable_sessions.errors import DurableSessionsError, OverloadedError
from durable_sessions.log.file import FileLog
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.storage.outbox_delivery import OutboxDelivery
from durable_sessions.storage.partition import Partition
from durable_sessions.streams import lifetime, outbox_intake
from durable_sessions.streams.effects import Effect, RecordsAppended, StreamCreated
from durable_sessions.streams.outbox import OwedRecord
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.testing.simulation.clients import Book
from durable_sessions.testing.simulation.disk import SimulatedDisk
from durable_sessions.testing.simulation.loop import SimulatedWriter
from durable_sessions.testing.simulation.plan import Doom, End, LifePlan, RunPlan
from durable_sessions.testing.simulation.process import Machine, Process
from durable_sessions.testing.simulation.scenario import LIMITS as SCENARIO_LIMITS

OutboxStep = Callable[[Process], Awaitable[object]]

_TARGET_LOG = Path("/target/log")
_LIMITS = replace(SCENARIO_LIMITS, log_segment_bytes_max=400, subscription_changes_max=1)
_NAMES = ("one", "two")
_JSON = "application/json"
_LOST_EVERY = 3
"""After how many deliveries there is one whose record is taken, but whose acknowledgement is lost."""


def outbox_scenario(point: int | None, end: End) -> RunPlan:
    """Return the run of the story in which the process dies at a fault point, counted from 1."""
    first = LifePlan(1_000.0, end, Doom(point=point), "kept")
    lives = first, first._replace(end="stop", doom=Doom())
    return RunPlan(_LIMITS, lives, 0, 1.0, flush_seconds=1_000.0, partition=ONLY_PARTITION)


class OutboxStory:
    """Tells the story step by step, with both partitions in one process; the next one continues it."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._delivering = False
        self._attempts = 0
        self._deliveries = 0
        self._told = 0
        self._target: Partition
        self._steps: list[OutboxStep] = [
            self._act("one"),
            self._act("two"),
            self._act("one"),
            self._flush,
            self._act("two"),
            self._delete_created,
            self._flush,
            self._deliver,
            self._flush,
            self._act("one"),
            self._act("two"),
            self._settle,
        ]

    async def run(self, process: Process) -> None:
        """Tell what is left of the story."""
        machine = process.machine
        log = await _open_target(machine, process)
        self._target = await Partition.open(log, machine.clock, machine.limits)
        delivery = OutboxDelivery(process.partition, self._take, machine.limits)
        task = asyncio.create_task(delivery.run())
        try:
            while self._told < len(self._steps):
                await self._steps[self._told](process)
                self._told += 1
        finally:
            task.cancel()
        await self._target.close()
        await log.close()

    async def _take(self, record: OwedRecord) -> None:
        if not self._delivering:
            raise OverloadedError(what="patience")
        await self._target.commit(lambda state, now_ms: (outbox_intake.take(state, record, now_ms), None))
        self._deliveries += 1
        if self._deliveries % _LOST_EVERY == 0:
            raise ConnectionError("the acknowledgement is lost")

    def _act(self, name: str) -> OutboxStep:
        async def act(process: Process) -> None:
            self._attempts += 1
            message = b'"act %d"' % self._attempts
            await process.partition.commit(lambda state, now_ms: (_acted(state, name, message, now_ms), None))

        return act

    async def _delete_created(self, process: Process) -> None:
        """Owe a record about a stream that is deleted at once; the other partition gets it all the same."""
        await self._act("gone")(process)
        try:
            await process.partition.delete(Key("w", "gone"))
        except DurableSessionsError as error:
            if error.code != "stream_not_found":
                raise

    async def _flush(self, process: Process) -> None:
        await process.flusher.flush_all()

    async def _deliver(self, process: Process) -> None:
        self._delivering = True
        while len(process.partition.tip.outbox):  # noqa: ASYNC110  # simulated time costs nothing
            await asyncio.sleep(0.1)

    async def _settle(self, process: Process) -> None:
        await self._deliver(process)
        await process.partition.settled()
        for name in _NAMES:
            sent = await _records(process.partition, Key("w", name))
            taken = await _records(self._target, Key("", f"audit/{name}"))
            if sent != taken:
                self._book.problems.append(
                    f"{name}: {sent!r} was owed, but the other partition has {taken!r}"
                )
        taken = await _records(self._target, Key("", "audit/gone"))
        if not taken or len(set(taken.split(b",")[:-1])) != taken.count(b","):
            self._book.problems.append(f"gone: the other partition has {taken!r}")


def _acted(state: State, name: str, message: bytes, now_ms: int) -> list[Effect]:
    """Return the effects of an act: a record here, and the same owed to the other partition."""
    key, data = Key("w", name), message + b","
    effects: list[Effect] = []
    stream = state.get(key)
    number, tail = (state.next_id, 0) if stream is None else (stream.id, stream.tail)
    if stream is None:
        effects.append(StreamCreated(number, *key, _JSON, now_ms))
    else:
        lifetime.find(state, key, now_ms)
    effects.append(RecordsAppended(number, tail, now_ms, (len(data),), None, None, False, data))
    return [*effects, *state.outbox.owe([(Key("", f"audit/{name}"), message)], 1_000_000)]


async def _open_target(machine: Machine, process: Process) -> FileLog:
    disk = SimulatedDisk(machine.disk, machine.disk_faults, process.life, machine.note, lambda _: None)
    return await FileLog.open(
        _TARGET_LOG,
        segment_bytes_max=machine.limits.log_segment_bytes_max,
        disk=disk,
        salt=machine.ids.salt,
        writer=SimulatedWriter,
    )


async def _records(partition: Partition, key: Key) -> bytes:
    stream = partition.peek(key)
    data, position = b"", 0
    while stream is not None and position < stream.tail:
        found = await partition.read(stream, position, 1_000)
        data, position = data + found.data, found.next
    return data
