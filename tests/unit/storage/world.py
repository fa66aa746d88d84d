"""A partition over a bucket in memory, with everything that looks after the bucket driven by hand."""

import io
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Self

import pyarrow.parquet as pq

from durable_sessions.clock import ManualClock
from durable_sessions.errors import BucketError
from durable_sessions.ids import Ids, RandomIds
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from durable_sessions.storage.indexed import IndexOf, nothing_indexed
from durable_sessions.storage.partition import Partition
from durable_sessions.storage.retention import NO_RETENTION, Retention
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create, Fork
from durable_sessions.streams.stream import Key
from durable_sessions.testing.bucket import FaultyBucket
from durable_sessions.testing.memory_log import MemoryLog
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.catalog_rebuild import NamesOf, no_names
from durable_sessions.tier.maintenance import Maintenance
from tests.unit.storage.store import MemoryStore

LIMITS = replace(
    DEFAULT_LIMITS,
    memory_bytes_max=0,
    block_cache_bytes_max=0,
    compaction_segments_min=4,
    delete_within_seconds=100.0,
    garbage_grace_seconds=10.0,
    orphan_grace_seconds=50.0,
    sweep_seconds=50.0,
)
GONE_SECONDS = LIMITS.delete_within_seconds


class World:
    """Everything between the log and the bucket; records are read from the bucket once they are flushed."""

    def __init__(
        self,
        folder: Path,
        limits: Limits = LIMITS,
        retention: Retention = NO_RETENTION,
        partition_id: PartitionId = ONLY_PARTITION,
        beside: "World | None" = None,
    ) -> None:
        self.limits = limits
        self.retention = retention
        self.partition_id = partition_id
        self.clock: ManualClock = ManualClock() if beside is None else beside.clock
        self.store: MemoryStore = MemoryStore(self.clock) if beside is None else beside.store
        self.ids: Ids = RandomIds()
        self.faults = FaultyBucket(self.store)
        self.log = MemoryLog()
        directory = partition_id.directory(folder)
        directory.mkdir(parents=True, exist_ok=True)
        self.catalog_path = directory / "catalog.sqlite"
        self.archive: BucketArchive
        self.partition: Partition
        self.maintenance: Maintenance

    async def open(self, names: NamesOf = no_names, index: IndexOf = nothing_indexed) -> Self:
        self.archive = await BucketArchive.open(
            self.faults,
            self.catalog_path,
            self.clock,
            self.ids,
            self.limits,
            names,
            index,
            log=self.log,
            partition=self.partition_id,
        )
        self.partition = await Partition.open(self.log, self.clock, self.limits, self.archive, self.retention)
        self.maintenance = Maintenance(self.archive, self.clock, self.limits)
        return self

    async def close(self) -> None:
        await self.partition.close()
        await self.archive.close()

    async def reopen(self, *, forget_catalog: bool = False) -> None:
        await self.close()
        if forget_catalog:
            self.catalog_path.unlink()
        await self.open()

    async def create(self, path: str, body: bytes = b"", **options: object) -> None:
        request = Create(content_type="application/json", body=body, **options)  # type: ignore[arg-type]
        await self.partition.create(key(path), request)

    async def fork(self, path: str, source: str) -> None:
        await self.partition.create(key(path), Create(fork=Fork(source)))

    async def append(self, path: str, body: bytes) -> None:
        await self.partition.append(key(path), Append(body, "application/json"))

    async def delete(self, path: str) -> None:
        await self.partition.delete(key(path))

    async def read(self, path: str, bytes_max: int = 100) -> bytes:
        durable = self.partition.find(key(path))
        data, position = b"", 0
        while position < durable.tail:
            found = await self.partition.read(durable, position, bytes_max)
            assert found.next > position
            data, position = data + found.data, found.next
        return data

    async def flush(self) -> None:
        while await self.partition.flush():
            pass

    async def maintain(self) -> int:
        """Do all that is to be done now; return how many steps that took."""
        steps = 0
        while await self.maintenance.step():
            steps += 1
        return steps

    async def maintain_for(self, seconds: float, step_seconds: float = 5.0) -> None:
        """Let time pass while the bucket is looked after."""
        for _ in range(int(seconds / step_seconds)):
            self.clock.advance(step_seconds)
            try:
                await self.maintain()
            except BucketError:
                continue

    def segments(self) -> list[str]:
        return [info.path for info in self.archive.manifest.segments]

    def catalog(self) -> dict[str, list[tuple[object, ...]]]:
        """Return what the catalog says, but not since when something is dirty: that is not in the bucket."""
        connection = sqlite3.connect(self.catalog_path)
        try:
            return {
                table: connection.execute(f"select {columns} from {table} order by 1, 2").fetchall()
                for table, columns in [
                    ("about", "flushed_through, ''"),
                    ("streams", "id, *"),
                    ("extents", "stream, first, next, segment"),
                    ("segments", "path, record_bytes"),
                    ("dirty", "path, ''"),
                ]
            }
        finally:
            connection.close()

    def holding(self, text: bytes) -> Iterator[str]:
        """Yield the objects in the bucket that hold a text, compressed or not."""
        for path, data in self.store.objects.items():
            if text in data or (path.endswith(".parquet") and text in _decoded(data)):
                yield path


def _decoded(data: bytes) -> bytes:
    table = pq.read_table(io.BytesIO(data))
    values = [value for column in table.columns for value in column.to_pylist()]
    return b"\n".join(value if isinstance(value, bytes) else str(value).encode() for value in values)


def key(path: str) -> Key:
    return Key("default", path)
