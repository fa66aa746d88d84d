"""A short scenario that passes every fault point, to be interrupted at each of them, one by one."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.testing import history
from durable_sessions.testing.simulation.clients import Book, Calls, Path
from durable_sessions.testing.simulation.plan import Doom, End, LifePlan, RunPlan
from durable_sessions.testing.simulation.process import Process

Step = Callable[[Process], Awaitable[object]]

LIMITS = replace(
    DEFAULT_LIMITS,
    memory_bytes_max=0,
    block_cache_bytes_max=0,
    log_segment_bytes_max=200,
    active_streams_max=0,
    era_seconds=0.5,
    maintenance_seconds=0.5,
    compaction_segments_min=2,
    checkpoints_max=2,
    snapshot_rows_min=1,
    snapshot_seconds=0.1,
    manifests_kept_max=2,
    delete_within_seconds=2.0,
    garbage_grace_seconds=0.4,
    orphan_grace_seconds=1.0,
    sweep_seconds=1.0,
)


def scenario(point: int | None, end: End) -> RunPlan:
    """Return the run of the story in which the process dies at a fault point, counted from 1."""
    first = LifePlan(1_000.0, end, Doom(point=point), "kept")
    return RunPlan(
        LIMITS,
        (first, first._replace(end="stop", doom=Doom())),
        0,
        1.0,
        flush_seconds=1_000.0,
        partition=ONLY_PARTITION,
    )


class Story:
    """Tells the story step by step; a process that dies leaves the step it was at to the next one."""

    def __init__(self, book: Book) -> None:
        self._calls = Calls("story", book)
        self._book = book
        self._paths: dict[str, Path] = {}
        self._seqs: dict[str, int] = {}
        self._steps = [
            *(self._create(name) for name in ("s0", "s1", "s2")),
            *(self._append(name, count) for count in (1, 3) for name in ("s0", "s1", "s2")),
            self._flush,
            self._append("s0", 2),
            self._fork("f0", "s0", 4),
            self._append("f0", 1),
            self._close("s1"),
            self._delete("s2"),
            self._flush,
            self._append("s0", 1),
            self._append("f0", 2),
            self._delete("s0"),
            self._flush,
            self._merge_and_sweep,
            self._append("f0", 1),
            self._delete("f0"),
            self._create("s3"),
            self._append("s3", 2),
            self._flush,
            self._merge_and_sweep,
            self._append("s3", 1),
        ]
        self._told = 0

    async def run(self, process: Process) -> None:
        """Tell what is left of the story."""
        while self._told < len(self._steps):
            await self._steps[self._told](process)
            self._told += 1

    def _path(self, name: str) -> Path:
        if name not in self._paths:
            self._paths[name] = Path(name, None)
            self._book.paths.append(self._paths[name])
        return self._paths[name]

    def _create(self, name: str) -> Step:
        return lambda process: self._calls.create(process.partition, self._path(name))

    def _fork(self, name: str, source: str, anchor: int) -> Step:
        return lambda process: self._calls.create(process.partition, self._path(name), source, anchor)

    def _append(self, name: str, count: int) -> Step:
        seq = self._seqs[name] = self._seqs.get(name, -1) + 1
        values = tuple(f"{name}-{seq}-{number}{'.' * 20}" for number in range(count))
        producer = history.ProducerNumbers("story", 0, seq)
        return lambda process: self._calls.append(process.partition, self._path(name), values, producer)

    def _close(self, name: str) -> Step:
        return lambda process: self._calls.append(process.partition, self._path(name), (), close=True)

    def _delete(self, name: str) -> Step:
        return lambda process: self._calls.delete(process.partition, self._path(name))

    async def _flush(self, process: Process) -> None:
        await process.flusher.flush_all()

    async def _merge_and_sweep(self, process: Process) -> None:
        await asyncio.sleep(6.0)
