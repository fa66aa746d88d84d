"""Snapshots of the counters of storage, for metrics."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class WorkspaceHeld(NamedTuple):
    """What one workspace holds in a partition."""

    streams: int
    held_bytes: int


class Failure(NamedTuple):
    """Why flushes to the bucket fail, and since when."""

    reason: str
    since_ms: int


class SyncSeconds(NamedTuple):
    """How long batches took to become durable: upper bounds, counts below each and above all, and the sum."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum_seconds: float


class PartitionCounts(NamedTuple):
    """Totals of a partition since it was opened, and its current sizes."""

    appends: int
    records: int
    append_bytes: int
    log_reads: int
    bucket_reads: int
    streams_expired: int
    records_erased: int
    sync_seconds: SyncSeconds
    streams: int
    active_streams: int
    memory_bytes: int
    pending_bytes: int
    unflushed_bytes: int
    waiting_readers: int
    subscriptions: int
    subscription_bytes: int
    outbox_bytes: int
    document_bytes: int
    stopped: bool
    listener_failures: Mapping[str, int]


class BucketCounts(NamedTuple):
    """Totals of writes to and reads from the bucket since it was opened, and its current sizes.

    ``snapshot_age_seconds`` is the age of the catalog's newest snapshot; None if there is none.
    """

    flushes: int
    merges: int
    objects_removed: int
    snapshots: int
    snapshot_failures: int
    snapshot_age_seconds: float | None
    cache_hits: int
    cache_misses: int
    cache_bytes: int
    cold_read_bytes: int
    cold_reads_waiting: int
    segments: int
    segment_bytes: int
    flush_failing: bool
    maintenance_failing: bool
