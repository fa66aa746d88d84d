"""What operators see of the server: each partition tells of itself and its process, and all is merged."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from durable_sessions import __version__
from durable_sessions.access.key_table import KeyTable
from durable_sessions.clock import Clock
from durable_sessions.http.api.health import Health
from durable_sessions.http.bodies.operations import (
    KeyCounts,
    MissingPartition,
    PartitionStatus,
    ProcessStatus,
    Readiness,
    ServerStatus,
)
from durable_sessions.log import MeasuredLog
from durable_sessions.search.feed import Feed
from durable_sessions.storage.door import BucketControl, Streams

STATUSES: tuple[Literal["ready", "degraded", "not ready"], ...] = ("ready", "degraded", "not ready")
"""How a server can be, the worst last."""


class StatusPart(msgspec.Struct):
    """What a partition tells."""

    process: ProcessStatus
    partition: PartitionStatus


class StatusReport:
    """Tells of one partition, which has a name, and of its process."""

    def __init__(
        self,
        partition: str,
        streams: Streams,
        log: MeasuredLog,
        bucket: BucketControl,
        feed: Feed,
        keys: KeyTable,
        health: Health,
        clock: Clock,
    ) -> None:
        self._partition = partition
        self._streams = streams
        self._log = log
        self._bucket = bucket
        self._feed = feed
        self._keys = keys
        self._health = health
        self._clock = clock

    def part(self, readiness: Readiness) -> StatusPart:
        """Return what this partition tells, which is in counters already."""
        counts, bucket = self._streams.counts(), self._bucket.counts()
        partition = PartitionStatus(
            self._partition,
            self._health.name,
            readiness,
            counts.streams,
            counts.active_streams,
            counts.memory_bytes,
            self._log.segment_bytes,
            self._log.segment_count,
            counts.pending_bytes,
            counts.unflushed_bytes,
            bucket.flushes,
            bucket.segments,
            bucket.segment_bytes,
            bucket.maintenance_failing,
            self._feed.backlog,
            counts.waiting_readers,
        )
        return StatusPart(self._told_process(), partition)

    def _told_process(self) -> ProcessStatus:
        health, server = self._health, self._health.server
        return ProcessStatus(
            health.name,
            __version__,
            max(0, self._clock.now_ms() - health.started_ms) / 1000,
            0 if server is None else server.open_connections,
            health.disk_free_bytes,
            {} if server is None else dict(server.requests_by_class()),
        )

    def keys(self) -> KeyCounts:
        """Return how many keys there are, which every process knows."""
        browsers = len(self._keys.sign_ins)
        return KeyCounts(len(self._keys) - browsers, browsers, self._keys.required)


def merged_status(parts: Mapping[str, StatusPart | str], keys: KeyCounts) -> bytes:
    """Return the whole as JSON, from what each partition tells, or why it tells nothing."""
    found = [part for part in parts.values() if isinstance(part, StatusPart)]
    missing = [MissingPartition(name, said) for name, said in parts.items() if isinstance(said, str)]
    worst = max((STATUSES.index(part.partition.readiness.status) for part in found), default=2)
    said = ServerStatus(
        __version__,
        "not ready" if missing else STATUSES[worst],
        keys,
        list({part.process.name: part.process for part in found}.values()),
        [part.partition for part in found],
        missing,
    )
    return msgspec.json.encode(said)
