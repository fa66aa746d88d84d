"""Writes snapshots of the catalog to the bucket when opening without one would take long."""

import sqlite3
from typing import NamedTuple

import structlog

from durable_sessions.bucket.fetch import digest
from durable_sessions.bucket.layout import snapshot_path
from durable_sessions.bucket.manifest import Manifest, encode_manifest
from durable_sessions.bucket.numbered import create_beside
from durable_sessions.clock import Clock
from durable_sessions.errors import BucketError, ObjectExistsError
from durable_sessions.limits import Limits
from durable_sessions.threads import CPU
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.catalog import Change
from durable_sessions.tier.next_manifest import Replacement, about, successor
from durable_sessions.tier.snapshot_info import SnapshotInfo, is_due, snapshot_of, with_snapshot

logger = structlog.get_logger(__name__)


class _Packed(NamedTuple):
    """A snapshot's bytes, the manifest that it belongs to, and the number of streams in it."""

    data: bytes
    manifest: Manifest
    rows: int


class SnapshotWriter:
    """Replaces the old snapshot by a new one; the old one becomes garbage.

    ``snapshots`` and ``failures`` count the attempts that succeeded and that failed.
    """

    def __init__(self, archive: BucketArchive, clock: Clock, limits: Limits) -> None:
        self._archive = archive
        self._clock = clock
        self._limits = limits
        self._failed_at_ms: int | None = None
        self.snapshots = 0
        self.failures = 0

    async def step(self) -> bool:
        """Write a snapshot and return True; False if none is due, possible, or worth committing."""
        archive, now_ms = self._archive, self._clock.now_ms()
        if self._has_just_failed(now_ms) or not is_due(
            archive.manifest, archive.partition, now_ms, self._limits
        ):
            return False
        packed = await self._pack()
        info = None if packed is None else await self._upload(packed, now_ms)
        return packed is not None and info is not None and await self._commit(packed.manifest, info)

    @property
    def age_seconds(self) -> float | None:
        """How old the newest snapshot in the bucket is; None if there is none."""
        info = snapshot_of(self._archive.manifest)
        return None if info is None else max(0, self._clock.now_ms() - info.created_at_ms) / 1000

    def _has_just_failed(self, now_ms: int) -> bool:
        # If the clock was set back, the time since the failure is unknown, and it is tried again.
        failed_at_ms, pause_ms = self._failed_at_ms, self._limits.snapshot_seconds * 1000
        return failed_at_ms is not None and 0 <= now_ms - failed_at_ms < pause_ms

    def _failed(self, error: Exception) -> None:
        # A snapshot only saves time. A disk that has no room for one, or a bucket that does not take so large
        # an object, must not keep the sweep from removing what was deleted.
        self._failed_at_ms = self._clock.now_ms()
        self.failures += 1
        logger.warning("catalog_snapshot_not_written", reason=str(error) or repr(error))

    async def _pack(self) -> _Packed | None:
        """Copy the catalog; None if that fails, if it is too large, or if a flush has an unknown outcome."""
        catalog = self._archive.catalog
        # Within the turn, because the catalog must not move on to another manifest while it is copied.
        async with self._archive.changing() as manifest:
            if manifest is None:
                return None
            encoded, bytes_max = encode_manifest(manifest), self._limits.snapshot_bytes_max
            try:
                data = await catalog.run(catalog.pack, encoded, bytes_max)
            except (OSError, sqlite3.Error) as error:
                self._failed(error)
                return None
            return None if data is None else _Packed(data, manifest, await catalog.run(catalog.writer.count))

    async def _upload(self, packed: _Packed, now_ms: int) -> SnapshotInfo | None:
        """Write the object; None if that fails."""
        archive, number = self._archive, packed.manifest.number
        # Outside of the turn: the object may be large, and flushes must not wait for it.
        wanted = snapshot_path(archive.partition, number + 1)
        try:
            path = await create_beside(archive.bucket, wanted, packed.data)
        except (BucketError, ObjectExistsError) as error:
            self._failed(error)
            return None
        return SnapshotInfo(
            path=path,
            bytes=len(packed.data),
            sha256=await CPU.run(digest, packed.data),
            manifest=number,
            rows=packed.rows,
            created_at_ms=now_ms,
        )

    async def _commit(self, packed: Manifest, info: SnapshotInfo) -> bool:
        """Let the next manifest refer to the snapshot; say whether it does. If not, a sweep removes it."""
        async with self._archive.changing() as manifest:
            if manifest is None or manifest.checkpoints[: len(packed.checkpoints)] != packed.checkpoints:
                # A full checkpoint has been written meanwhile, perhaps because streams that the snapshot
                # still has were removed and must leave the bucket.
                return False
            old = snapshot_of(manifest)
            following = successor(manifest, self._clock.now_ms(), replaced=[] if old is None else [old.path])
            await self._archive.replace(Replacement(with_snapshot(following, info), Change(about(following))))
            self.snapshots += 1
            return True
