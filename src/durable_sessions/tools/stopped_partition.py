"""The partitions of a stopped server, opened as a server does up to the partition, without serving them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.partition_layout import PartitionLayout, ensure_layout
from durable_sessions.bucket.probe import probe
from durable_sessions.clock import Clock
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.log import Log
from durable_sessions.partition_id import PartitionId
from durable_sessions.sessions.event_ids import names_of
from durable_sessions.sessions.indexing import index_of
from durable_sessions.settings import Settings
from durable_sessions.storage.flush import Flusher
from durable_sessions.storage.partition import Partition
from durable_sessions.storage.retention import Retention
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.ownership import require_own
from durable_sessions.tools.partition_logs import FileLogs, PartitionLogs
from durable_sessions.tools.verify import CATALOG_NAME


@dataclass(frozen=True, slots=True)
class Stopped:
    """What opening a stopped server's data needs beside the data."""

    settings: Settings
    limits: Limits
    clock: Clock
    ids: Ids

    def file_logs(self) -> FileLogs:
        """Return the logs in the data directory."""
        return FileLogs(self.settings.data, self.limits.log_segment_bytes_max)


@dataclass(frozen=True, slots=True)
class StoppedPartition:
    """A partition whose log is locked, and which is the writer of its part of the bucket."""

    id: PartitionId
    log: Log
    archive: BucketArchive
    partition: Partition
    catalog: Path
    flusher: Flusher

    async def flush(self) -> None:
        """Flush everything that is in the log."""
        await self.partition.settled()
        await self.flusher.flush_all()


@asynccontextmanager
async def opened(
    stopped: Stopped, bucket: ObjectStore, layout: PartitionLayout, source: PartitionLogs | None = None
) -> AsyncIterator[list[StoppedPartition]]:
    """Open all partitions of a layout, and fence whoever wrote to the bucket before.

    Their logs are in the data directory if no ``source`` is given. LogLockedError while a server runs; a log
    that does not belong to the bucket is refused. Both are found out before anything is written.
    """
    async with AsyncExitStack() as opening:
        logs: list[Log] = []
        found = source or stopped.file_logs()
        for one in layout.all:
            logs.append(await found.open(one))
            opening.push_async_callback(logs[-1].close)
        for one, log in zip(layout.all, logs, strict=True):
            await require_own(log, bucket, one)
        await probe(bucket, stopped.ids)
        await ensure_layout(bucket, layout)
        epochs = [await found.own(log) for log in logs]
        yield [
            await opening.enter_async_context(_opened(stopped, bucket, one, log, epoch))
            for one, log, epoch in zip(layout.all, logs, epochs, strict=True)
        ]


@asynccontextmanager
async def _opened(
    stopped: Stopped, bucket: ObjectStore, partition: PartitionId, log: Log, epoch: int | None
) -> AsyncIterator[StoppedPartition]:
    settings, limits, clock = stopped.settings, stopped.limits, stopped.clock
    catalog = partition.directory(settings.data) / CATALOG_NAME
    # Made by whoever has the log; there is none in a directory for what a cluster had.
    await asyncio.to_thread(catalog.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
    archive = await BucketArchive.open(
        bucket, catalog, clock, stopped.ids, limits, names_of, index_of, log=log, partition=partition
    )
    try:
        one = await Partition.open(log, clock, limits, archive, Retention(settings.retention), epoch=epoch)
        try:
            flusher = Flusher(one, clock, limits, settings.flush_seconds)
            yield StoppedPartition(partition, log, archive, one, catalog, flusher)
        finally:
            await one.close()
    finally:
        await archive.close()
