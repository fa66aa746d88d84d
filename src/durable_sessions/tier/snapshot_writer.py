"""Writes snapshots of the catalog to the bucket when opening without one would take long."""

import sqlite3

import structlog

from durable_sessions.bucket.fetch import digest
from durable_sessions.bucket.layout import snapshot_path
from durable_sessions.bucket.manifest import Manifest, encode_manifest
from durable_sessions.bucket.numbered import create_beside
from durable_sessions.clock import Clock
from durable_sessions.limits import Limits
from durable_sessions.threads import CPU
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.catalog import Change
from durable_sessions.tier.next_manifest import Replacement, about, successor
from durable_sessions.tier.snapshot_info import SnapshotInfo, is_due, snapshot_of, with_snapshot

logger = structlog.get_logger(__name__)


class SnapshotWriter:
    """Replaces the old snapshot by a new one; the old one becomes garbage."""

    def __init__(self, archive: BucketArchive, clock: Clock, limits: Limits) -> None:
        self._archive = archive
        self._clock = clock
        self._limits = limits
        self._failed_at_ms: int | None = None
        self.snapshots = 0

    async def step(self) -> bool:
        """Write a snapshot and return True; False if none is due or the catalog is too large for one."""
        archive, now_ms = self._archive, self._clock.now_ms()
        if self._has_just_failed(now_ms) or not is_due(
            archive.manifest, archive.partition, now_ms, self._limits
        ):
            return False
        async with archive.changing() as manifest:
            following = None if manifest is None else await self._prepare(manifest)
            if following is None:
                return False
            await archive.replace(following)
            self.snapshots += 1
            return True

    def _has_just_failed(self, now_ms: int) -> bool:
        # If the clock was set back, the time since the failure is unknown, and it is tried again.
        failed_at_ms, pause_ms = self._failed_at_ms, self._limits.snapshot_seconds * 1000
        return failed_at_ms is not None and 0 <= now_ms - failed_at_ms < pause_ms

    async def _pack(self, manifest: Manifest) -> bytes | None:
        catalog = self._archive.catalog
        try:
            return await catalog.run(catalog.pack, encode_manifest(manifest), self._limits.snapshot_bytes_max)
        except (OSError, sqlite3.Error) as error:
            # A snapshot only saves time. A disk that has no room for one must not keep the sweep from
            # removing what was deleted.
            self._failed_at_ms = self._clock.now_ms()
            logger.warning("catalog_snapshot_not_written", reason=str(error) or repr(error))
            return None

    async def _prepare(self, manifest: Manifest) -> Replacement | None:
        archive, now_ms = self._archive, self._clock.now_ms()
        catalog = archive.catalog
        # The caller holds the turn, so the catalog cannot move on to another manifest meanwhile.
        data = await self._pack(manifest)
        if data is None:
            return None
        path = await create_beside(
            archive.bucket, snapshot_path(archive.partition, manifest.number + 1), data
        )
        info = SnapshotInfo(
            path=path,
            bytes=len(data),
            sha256=await CPU.run(digest, data),
            manifest=manifest.number,
            rows=await catalog.run(catalog.writer.count),
            created_at_ms=now_ms,
        )
        old = snapshot_of(manifest)
        following = successor(manifest, now_ms, replaced=[] if old is None else [old.path])
        return Replacement(with_snapshot(following, info), Change(about(following)))
