"""The bucket tier as operators see it: its failures, a flush on demand, its counts."""

from durable_sessions.storage.counts import BucketCounts, Failure
from durable_sessions.storage.door import FlushedThrough
from durable_sessions.storage.flush import Flusher
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.maintenance import Maintenance


class BucketTier:
    """Shows operators the state of flushes, merges and cold reads, and lets them request a flush."""

    def __init__(self, archive: BucketArchive, flusher: Flusher, maintenance: Maintenance) -> None:
        self._archive = archive
        self._flusher = flusher
        self._maintenance = maintenance

    @property
    def failure(self) -> Failure | None:
        """Why flushes fail at present, and since when; None if they do not."""
        return self._flusher.failure

    async def flush_all(self) -> FlushedThrough:
        """Flush everything that is durable now; raise if the bucket fails."""
        await self._flusher.flush_all()
        manifest = self._archive.manifest
        return FlushedThrough(manifest.number, manifest.flushed_through)

    def counts(self) -> BucketCounts:
        """Return the counts for the metrics."""
        archive, maintenance = self._archive, self._maintenance
        segments = archive.manifest.segments
        return BucketCounts(
            flushes=self._flusher.flushes,
            merges=maintenance.compactor.merges,
            objects_removed=maintenance.sweeper.removed,
            snapshots=maintenance.snapshots.snapshots,
            snapshot_failures=maintenance.snapshots.failures,
            snapshot_age_seconds=maintenance.snapshots.age_seconds,
            cache_hits=archive.cache.hits,
            cache_misses=archive.cache.misses,
            cache_bytes=archive.cache.bytes_used,
            cold_read_bytes=archive.cold_reads.held,
            cold_reads_waiting=archive.cold_reads.waiting,
            segments=len(segments),
            segment_bytes=sum(one.bytes for one in segments),
            flush_failing=self._flusher.failure is not None,
            maintenance_failing=maintenance.failure is not None,
        )
