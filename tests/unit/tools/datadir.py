"""A data directory as a server leaves it, made in this process: a file log, a bucket, a catalog."""

import json
from dataclasses import replace
from pathlib import Path

from durable_sessions.bucket.partition_layout import PartitionLayout, ensure_layout
from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.errors import DurableSessionsError
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.log.file import FileLog
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create, Fork
from durable_sessions.streams.stream import Key
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.maintenance import Maintenance

LIMITS = replace(
    DEFAULT_LIMITS,
    compaction_segments_min=3,
    checkpoints_max=3,
    memory_bytes_max=0,
    snapshot_rows_min=1,
    snapshot_seconds=0.0,
)
JSON = "application/json"
STREAMS = ("a", "b", "c", "text", "fork")
MARKER = {"type": "durable_sessions.lost"}


class DataDirectory:
    """Opens a data directory up to its partition, and closes it without a flush."""

    def __init__(
        self, data: Path, partition_id: PartitionId = ONLY_PARTITION, limits: Limits = LIMITS
    ) -> None:
        self._limits = limits
        self.data = data
        self.partition_id = partition_id
        self.own = partition_id.directory(data)
        self.log: FileLog
        self.archive: BucketArchive
        self.partition: Partition
        self.maintenance: Maintenance

    async def __aenter__(self) -> "DataDirectory":
        self.own.mkdir(parents=True, exist_ok=True)
        self.log = await FileLog.open(self.own / "log", segment_bytes_max=4_000)
        try:
            bucket = await Bucket.open(self.data / "bucket")
            await ensure_layout(bucket, PartitionLayout.of(self.partition_id))
            clock = SystemClock()
            catalog = self.own / "catalog.sqlite"
            self.archive = await BucketArchive.open(
                bucket, catalog, clock, RandomIds(), self._limits, log=self.log, partition=self.partition_id
            )
            self.partition = await Partition.open(self.log, clock, self._limits, self.archive)
        except BaseException:
            await self.log.close()
            raise
        self.maintenance = Maintenance(self.archive, clock, self._limits)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.partition.close()
        await self.archive.close()
        await self.log.close()

    async def flush(self) -> None:
        while await self.partition.flush():
            pass
        while await self.maintenance.step():
            pass

    async def append(self, path: str, body: bytes, kind: str = JSON) -> None:
        await self.partition.append(Key("default", path), Append(body, kind))

    async def held(self) -> dict[str, list[object]]:
        """Return the records of all streams: messages, or single bytes."""
        found: dict[str, list[object]] = {}
        for path in STREAMS:
            try:
                durable = self.partition.find(Key("default", path))
            except DurableSessionsError:
                continue
            data, position = b"", 0
            while position < durable.tail:
                piece = await self.partition.read(durable, position, 1 << 16)
                data, position = data + piece.data, piece.next
            found[path] = list(json.loads(b"[%b]" % data[:-1])) if durable.stream.is_json else list(data)
        return found


async def make(data: Path, partition_id: PartitionId = ONLY_PARTITION) -> dict[str, list[object]]:
    """Make a directory with several flushes, merged segments and a log that goes on; return its records."""
    async with DataDirectory(data, partition_id) as made:
        create = made.partition.create
        for path in ("a", "b", "c", "gone"):
            await create(Key("default", path), Create(content_type=JSON))
        await create(Key("default", "text"), Create(content_type="text/plain"))
        for flush in range(6):
            for number in range(8):
                for path in ("a", "b", "c"):
                    await made.append(path, b'[{"%b":%d},%d]' % (path.encode(), flush, number))
                await made.append("text", b"%d.%d;" % (flush, number), "text/plain")
            if flush == 2:
                await create(Key("default", "fork"), Create(fork=Fork("a")))
                await made.append("gone", b"1")
            if flush == 4:
                await made.partition.delete(Key("default", "gone"))
            if flush > 2:
                await made.append("fork", b'{"fork":%d}' % flush)
            if flush < 5:
                await made.flush()
        return await made.held()
