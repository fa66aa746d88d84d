"""Decides whether a log belongs to a bucket; every other log is refused.

A manifest names the lineage of its log and has the checksum of the last flushed frame. A frame's checksum
depends on a random salt that every process draws anew, so of two copies of one directory only the one that
was flushed has that frame.
"""

from collections.abc import AsyncIterator, Collection
from typing import NamedTuple

import msgspec

from durable_sessions.bucket.manifest import Manifest, Manifests
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.clock import Clock
from durable_sessions.errors import (
    ArchiveAheadError,
    ArchiveBehindError,
    ArchiveMissingError,
    BucketError,
    BucketRefusedError,
    LogDivergedError,
    LogForeignError,
    ManifestLostError,
    ObjectExistsError,
)
from durable_sessions.ids import Ids
from durable_sessions.log import NEW_LOG_GAP, Log, LogIdentity
from durable_sessions.partition_id import PartitionId
from durable_sessions.tier.next_manifest import successor

CLAIMS_MAX = 10
"""How often a start tries to become the writer while other servers keep getting there first."""


class Tie(NamedTuple):
    """How the next manifest identifies a log.

    ``lineage`` is None for a log that is yet to be made. ``begins`` is the position after which it begins.
    ``frame`` is the checksum of the frame at the flushed position, None if nothing of this log is flushed.
    """

    lineage: str | None
    begins: int
    frame: int | None = None


async def require_own(log: LogIdentity, bucket: ObjectStore, partition: PartitionId) -> None:
    """Refuse a log that does not belong to the bucket's partition, before anything is written to either."""
    manifests = Manifests(bucket, partition)
    newest = await manifests.newest()
    try:
        await match(log, newest)
    except (LogForeignError, LogDivergedError, ArchiveAheadError) as error:
        after = await last_shared(log, manifests.all())
        raise type(error)(**{**error.fields, "after": after}) from None


def continues(begins: int, manifest: Manifest | None) -> bool:
    """Return whether a log that begins at this position has everything since the last flush.

    Either it reaches back to that flush, or it was created after it and nothing of it has been flushed yet.
    """
    if manifest is None:
        return begins <= 0
    begun = manifest.log_begins if manifest.lineage else manifest.flushed_through + NEW_LOG_GAP
    return begins <= manifest.flushed_through or (manifest.frame is None and begins == begun)


async def last_shared(log: LogIdentity, manifests: AsyncIterator[Manifest]) -> int:
    """Return the last position at which one of the manifests proves that the bucket has this log."""
    async for manifest in manifests:
        if manifest.frame is not None and await log.checksum(manifest.flushed_through) == manifest.frame:
            return manifest.flushed_through
    return log.begins_after


async def match(log: LogIdentity, manifest: Manifest | None) -> Tie:
    """Return how a log continues the newest manifest, or refuse it."""
    if manifest is None:
        if log.lineage is not None:
            raise ArchiveMissingError(log=log.location)
        if log.begins_after > 0:
            raise ArchiveBehindError(begins=log.begins_after, flushed=0)
        return Tie(log.intended, 0)
    if not manifest.lineage:
        return await _adopt(log, manifest)
    if manifest.lineage in (log.lineage, log.intended):
        return await _continue(log, manifest)
    if log.lineage is None and log.ends_at is None:
        # The data directory is empty: the operator wants a new log on top of what the bucket has. It begins
        # far beyond the old log's end, which is unknown here, so that no position is used twice.
        return Tie(None, max(manifest.flushed_through, manifest.log_begins) + NEW_LOG_GAP)
    raise LogForeignError(log=log.location, lineage=manifest.lineage, after=log.begins_after)


async def _continue(log: LogIdentity, manifest: Manifest) -> Tie:
    """Match a log with a manifest of the same lineage."""
    # The lineage alone does not tell copies of one directory apart; the flushed frame's checksum does.
    tie = Tie(manifest.lineage, manifest.log_begins, manifest.frame)
    flushed = manifest.flushed_through
    if manifest.frame is None:
        if log.ends_at is not None and log.begins_after != manifest.log_begins:
            raise ArchiveBehindError(begins=log.begins_after, flushed=manifest.log_begins)
        return tie
    _require_reach(log, flushed)
    if await log.checksum(flushed) != manifest.frame:
        raise LogDivergedError(log=log.location, flushed=flushed, after=log.begins_after)
    return tie


async def _adopt(log: LogIdentity, manifest: Manifest) -> Tie:
    """Match a log with a manifest written before lineages existed: by its positions alone."""
    lineage, flushed = log.lineage or log.intended, manifest.flushed_through
    if log.ends_at is None:
        return Tie(lineage, flushed + NEW_LOG_GAP if flushed else 0)
    if log.begins_after in (flushed, flushed + NEW_LOG_GAP):
        return Tie(lineage, log.begins_after)  # created anew, by a start on this bucket or by a repair
    _require_reach(log, flushed)
    if not flushed:
        return Tie(lineage, log.begins_after)
    frame = await log.checksum(flushed)
    if frame is None:
        raise LogDivergedError(log=log.location, flushed=flushed, after=log.begins_after)
    return Tie(lineage, log.begins_after, frame)


def _require_reach(log: LogIdentity, flushed: int) -> None:
    if log.begins_after > flushed:
        raise ArchiveBehindError(begins=log.begins_after, flushed=flushed)
    if log.ends_at is None or log.ends_at < flushed:
        raise ArchiveAheadError(
            log=log.location, ends=log.ends_at or 0, flushed=flushed, after=log.begins_after
        )


async def claim(
    bucket: ObjectStore,
    partition: PartitionId,
    log: Log,
    writer: str,
    clock: Clock,
    ids: Ids,
    predecessors: Collection[str] = (),
) -> tuple[Manifest, Manifest]:
    """Commit a manifest that makes this log the bucket's; return the previous manifest and the new one.

    The new manifest fences the writer of the previous one, whose next commit will fail. A log that does not
    belong to the bucket is refused and changes nothing. ``predecessors`` are the writer names that this
    process used before. If given, no other writer is fenced: a process that has lost the bucket must not take
    it back on its own.
    """
    manifests = Manifests(bucket, partition)
    for _ in range(CLAIMS_MAX):
        found = await manifests.newest()
        if found is not None:
            require_numbers(found, partition)
        tie = await match(log, found)
        if predecessors and found is not None and found.writer not in (*predecessors, writer):
            raise ManifestLostError(
                manifest=found.number,
                how="with a copy of this data directory",
                after=found.flushed_through,
                log=log.location,
            )
        lineage = tie.lineage or ids.token("log_")
        # The log records the lineage before the manifest does. After a crash in between, the next start finds
        # it as the intended one and can still prove that the log is the manifest's.
        if log.lineage != lineage:
            await log.intend(lineage)
        before = found or first_manifest(partition, clock)
        manifest = msgspec.structs.replace(
            successor(before, clock.now_ms()),
            writer=writer,
            lineage=lineage,
            log_begins=tie.begins,
            frame=tie.frame,
        )
        try:
            await manifests.create_next(manifest)
        except ObjectExistsError:
            continue  # another server was faster; check again whether the log still belongs to the bucket
        if log.lineage is None or log.intended is not None:
            await log.tie(lineage)
        if log.ends_at is None:
            log.begin_at(tie.begins)
        return before, manifest
    raise BucketError(reason="other servers keep becoming the writer of the bucket")


def require_numbers(manifest: Manifest, partition: PartitionId) -> None:
    """Refuse a manifest with stream numbers of another partition: the event ids would collide."""
    if manifest.next_stream not in partition.streams:
        raise BucketRefusedError(
            problem=f"manifest {manifest.number} of partition {partition.number} gives the number"
            f" {manifest.next_stream} to the next stream, which is not one of this partition's",
            remedy="It was copied from another partition, or not written by a server. Restore the right one.",
        )


def first_manifest(partition: PartitionId, clock: Clock) -> Manifest:
    """Return the manifest, never written, that the first one of a partition follows."""
    return Manifest(
        number=0,
        writer="",
        flushed_through=0,
        next_stream=partition.streams.start,
        created_at_ms=clock.now_ms(),
    )
