"""Repair of a log and a bucket that do not belong together: their lineages differ.

What another server has flushed cannot be merged with what is only in this log. So the bucket is kept and the
log is set aside; everything in it that the bucket does not have is counted and reported first.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from durable_sessions.bucket.manifest import Manifest, Manifests
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.partition_layout import PartitionLayout, ensure_layout
from durable_sessions.clock import Clock
from durable_sessions.errors import ArchiveAheadError, DurableSessionsError, LogDivergedError, LogForeignError
from durable_sessions.ids import Ids
from durable_sessions.log.disk import REAL_DISK
from durable_sessions.log.lineage import Lineage, lineage_files, tie
from durable_sessions.partition_id import PartitionId
from durable_sessions.streams.effects import Effect, RecordsAppended, StreamCreated
from durable_sessions.tier.next_manifest import successor
from durable_sessions.tier.ownership import Tie, first_manifest, last_shared, match
from durable_sessions.tools.conflicts import decode_leniently
from durable_sessions.tools.repair.backups import Backups
from durable_sessions.tools.repair.plan import Loss, Plan
from durable_sessions.tools.verify.bucket import Examined
from durable_sessions.tools.verify.inventory import Inventory
from durable_sessions.tools.verify.scanned_log import ScannedLog


class _Unshared(NamedTuple):
    """The records of a log after the last position that it shares with the bucket."""

    after: int
    batches: int
    total: int
    records: list[Loss]

    def __str__(self) -> str:
        streams = f"{self.total} records in {len(self.records)} streams"
        return f"{self.batches} batches after {self.after}, with {streams},"


class LineageRepair:
    """Checks whether the log belongs to the bucket; sets it aside if not, else ties both in a manifest."""

    def __init__(
        self,
        bucket: ObjectStore,
        partition: PartitionId,
        directory: Path,
        examined: Examined,
        inventory: Inventory,
    ) -> None:
        self._bucket = bucket
        self._partition = partition
        self._directory = directory
        self._examined = examined
        self._inventory = inventory
        self.foreign = False

    async def plan(self, plan: Plan, log: ScannedLog, *, manifest_holds: bool) -> None:
        """Plan what to do with a foreign log; a manifest that is rebuilt cannot show that it is foreign."""
        manifest = self._examined.manifest
        try:
            await match(log, manifest)
        except (LogForeignError, LogDivergedError):
            assert manifest is not None
            self.foreign = manifest_holds and not await _is_own(log, manifest)
            if self.foreign:
                await self._plan_dropping(plan, log)
                return
            plan.act(log.location, "the next manifest ties it to the bucket again")
        except DurableSessionsError as error:
            if isinstance(error, ArchiveAheadError) and manifest_holds:
                await self._tell_doubtful(plan, log)
            plan.act(log.location, "the next manifest ties it to the bucket again")

    async def _plan_dropping(self, plan: Plan, log: ScannedLog) -> None:
        unshared = await self._unshared(log)
        plan.act(
            log.location,
            f"it is not the log of this bucket, and is set aside: {unshared} are not in the bucket and are"
            f" dropped; durable-sessions dump log --from {unshared.after} shows them",
        )
        plan.losses += unshared.records

    async def _tell_doubtful(self, plan: Plan, log: ScannedLog) -> None:
        """Report the records of a log that ends too early which no manifest shows to be in the bucket."""
        unshared = await self._unshared(log)
        if unshared.batches:
            names = ", ".join(sorted(loss.path or f"stream {loss.stream}" for loss in unshared.records))
            plan.act(
                log.location,
                f"{unshared} ({names}) are left out. If a server with a copy of this directory has"
                " written to the bucket, they are only here;"
                f" durable-sessions dump log --from {unshared.after} shows them",
            )

    async def _unshared(self, log: ScannedLog) -> "_Unshared":
        after = await last_shared(log, self._examined.each_manifest())
        names: dict[int, str] = {}
        found: dict[int, tuple[int, int]] = {}
        batches = count = 0
        for frame in log.frames_after(after):
            batches += 1
            for effect in _effects(frame.payload):
                if isinstance(effect, StreamCreated):
                    names[effect.stream] = f"{effect.workspace}/{effect.path}"
                elif isinstance(effect, RecordsAppended) and effect.data:
                    first, following = found.get(effect.stream, (effect.first, effect.next))
                    found[effect.stream] = min(first, effect.first), max(following, effect.next)
                    count += len(effect.lengths) or 1
        records: list[Loss] = []
        for number, (first, following) in sorted(found.items()):
            known = self._inventory.load_id(number)
            named = names.get(number) or (known and f"{known.key.workspace}/{known.key.path}")
            records.append(Loss(number, named or None, first, following, "dropped"))
        return _Unshared(after, batches, count, records)

    async def apply(self, backups: Backups, clock: Clock, ids: Ids) -> None:
        """Set a foreign log aside and begin a new one; tie any other log to the bucket, if needed."""
        if self.foreign:
            self._set_aside(backups)
        log = ScannedLog(self._directory)
        newest = await Manifests(self._bucket, self._partition).newest()
        before = newest or first_manifest(self._partition, clock)
        try:
            found = await match(log, newest)
        except DurableSessionsError:
            reaches = log.begins_after < before.flushed_through
            frame = await log.checksum(before.flushed_through) if reaches else None
            await self._tie(log, before, Tie(before.lineage or None, log.begins_after, frame), clock, ids)
        else:
            if self.foreign:
                await self._tie(log, before, found, clock, ids)

    def _set_aside(self, backups: Backups) -> None:
        segments = sorted(self._directory.glob("*.log"))
        for path in (*segments, *lineage_files(REAL_DISK, self._directory)):
            backups.keep_file(path, "log")
        backups.sync()
        # Oldest first, so that a crash leaves no gap; the lineage last, so that the rest is still refused.
        for path in (*segments, *lineage_files(REAL_DISK, self._directory)):
            path.unlink()
            REAL_DISK.sync_directory(self._directory)

    async def _tie(self, log: ScannedLog, before: Manifest, wanted: Tie, clock: Clock, ids: Ids) -> None:
        lineage = log.lineage or log.intended or wanted.lineage or ids.token("log_")
        manifest = msgspec.structs.replace(
            successor(before, clock.now_ms()),
            writer=ids.token("writer_"),
            lineage=lineage,
            log_begins=wanted.begins,
            frame=wanted.frame,
        )
        await ensure_layout(self._bucket, PartitionLayout.of(self._partition))
        await Manifests(self._bucket, self._partition).create_next(manifest)
        # Only now that the manifest exists: the other way round a crash would leave a log whose lineage the
        # bucket has never heard of.
        if log.lineage is None:
            self._directory.mkdir(exist_ok=True)
            tie(REAL_DISK, self._directory, Lineage(None, log.intended), lineage)


async def _is_own(log: ScannedLog, manifest: Manifest) -> bool:
    """Say whether a log belongs to a manifest although it is not tied to it.

    That is so if its lineage file is missing but it has the flushed frame; if that frame is damaged; or if a
    repair was interrupted after it rewrote the segments from the flushed position on, before the manifest.
    """
    if log.lineage is None:
        return manifest.frame is not None and await log.checksum(manifest.flushed_through) == manifest.frame
    flushed = manifest.flushed_through
    return log.lineage == manifest.lineage and (log.lost_at(flushed) or log.begins_after == flushed)


def _effects(payload: bytes) -> Iterator[Effect]:
    for _, effect in decode_leniently(payload):
        if isinstance(effect, StreamCreated | RecordsAppended):
            yield effect
