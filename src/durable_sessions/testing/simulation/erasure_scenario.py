"""A short scenario in which records are erased, to be interrupted at every fault point.

After each step everything is read. An erasure that was acknowledged never comes back, through forks neither,
and in the end no file of the log and no object in the bucket has the records.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create, Fork
from durable_sessions.streams.effects import ErasedRecord, RecordsErased
from durable_sessions.streams.stream import Key, Producer
from durable_sessions.testing.simulation.clients import Book
from durable_sessions.testing.simulation.plan import Doom, End, LifePlan, RunPlan
from durable_sessions.testing.simulation.process import Process
from durable_sessions.testing.simulation.scenario import LIMITS as SCENARIO_LIMITS
from durable_sessions.testing.simulation.stored_records import stored_bodies

ErasureStep = Callable[[Process], Awaitable[object]]

_LIMITS = replace(SCENARIO_LIMITS, log_segment_bytes_max=100_000)
_JSON = "application/json"
_ONE, _FORK = Key("w", "one"), Key("w", "fork")


def erasure_scenario(point: int | None, end: End) -> RunPlan:
    """Return the run of the story in which the process dies at a fault point, counted from 1."""
    first = LifePlan(1_000.0, end, Doom(point=point), "kept")
    lives = first, first._replace(end="stop", doom=Doom())
    return RunPlan(_LIMITS, lives, 0, 1.0, flush_seconds=1_000.0, partition=ONLY_PARTITION)


class ErasureStory:
    """Tells the story step by step; a process that dies leaves the step it was at to the next one."""

    def __init__(self, book: Book) -> None:
        self._book = book
        self._told = 0
        self._values: list[str] = []
        self._forked = 0
        self._steps: list[ErasureStep] = [
            lambda process: process.partition.create(_ONE, Create(_JSON)),
            self._append(3),
            self._erase(1),  # before it was flushed
            self._append(2),
            self._flush,
            self._fork,
            self._erase(3),  # in the bucket already
            self._flush,
            self._append(1),
            self._merge_and_sweep,
            self._erase(0),
            self._flush,
            self._merge_and_sweep,
            self._search_for_bytes,
        ]

    async def run(self, process: Process) -> None:
        """Tell what is left of the story."""
        await self._check(process.partition)
        while self._told < len(self._steps):
            await self._steps[self._told](process)
            self._told += 1
            await self._check(process.partition)

    def _append(self, count: int) -> ErasureStep:
        async def append(process: Process) -> None:
            first = len(self._values)
            values = [f'"secret-{first + number}"' for number in range(count)]
            body = f"[{','.join(values)}]".encode()
            await process.partition.append(_ONE, Append(body, _JSON, Producer("story", 0, self._seq())))
            self._values += values

        return append

    def _seq(self) -> int:
        """Return the number of the next append: how many steps before this one were appends."""
        return sum(step.__name__ == "append" for step in self._steps[: self._told])

    def _erase(self, position: int) -> ErasureStep:
        async def erase(process: Process) -> None:
            stream = process.partition.tip.get(_ONE)
            assert stream is not None
            gone = f'"gone-{position}"'
            records = (ErasedRecord(position, gone.encode() + b","),)
            effect = RecordsErased(stream.id, process.machine.clock.now_ms(), records)
            await process.partition.commit(lambda _state, _now: ([effect], None))
            self._values[position] = gone

        return erase

    async def _fork(self, process: Process) -> None:
        await process.partition.create(_FORK, Create(fork=Fork(_ONE.path)))
        self._forked = len(self._values)

    async def _flush(self, process: Process) -> None:
        await process.flusher.flush_all()

    async def _merge_and_sweep(self, process: Process) -> None:
        await asyncio.sleep(6.0)
        await process.flusher.flush_all()
        await asyncio.sleep(1.0)

    async def _check(self, partition: Partition) -> None:
        wanted = {_ONE: self._values, _FORK: self._values[: self._forked]}
        for key, values in wanted.items():
            found = await _records(partition, key)
            # What was sent when the process died may be there, or erased, too; what was acknowledged must be.
            there = found.split(",")[: len(values)]
            fitting = [
                one == value or (one == f'"gone-{at}"' and value == f'"secret-{at}"')
                for at, (one, value) in enumerate(zip(there, values, strict=False))
            ]
            if len(there) < len(values) or not all(fitting):
                self._book.problems.append(f"{key.path} has {found}, not {values}")

    async def _search_for_bytes(self, process: Process) -> None:
        erased = [f'"secret-{at}"' for at, value in enumerate(self._values) if value.startswith('"gone')]
        for place, stored in await stored_bodies(process):
            for text in erased:
                if text.encode() in stored:
                    self._book.problems.append(f"{place} still has {text}")


async def _records(partition: Partition, key: Key) -> str:
    stream = partition.peek(key)
    data, position = b"", 0
    while stream is not None and position < stream.tail:
        found = await partition.read(stream, position, 10)
        data, position = data + found.data, found.next
    return data.decode()
