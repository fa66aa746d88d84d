"""Whether a log is the one that a bucket goes on with; every other log is refused.

A manifest names the lineage of its log, and has the checksum of the frame up to which it is flushed. A
frame's checksum depends on a random salt that every process makes anew, so that of two copies of
one directory only the one that was flushed has that frame.
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
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from durable_sessions.tier.next_manifest import successor

CLAIMS_MAX = 10
"""How often a start tries to become the writer while others come before it."""


class Tie(NamedTuple):
    """What the next manifest says of a log: its lineage, None for one that is to be made, where it
    begins, and the checksum of the frame at the flushed position, None if nothing of it is flushed.
    """

    lineage: str | None
    begins: int
    frame: int | None = None


async def require_own(log: LogIdentity, bucket: ObjectStore, partition: PartitionId = ONLY_PARTITION) -> None:
    """Refuse a log that is not that of the bucket's partition, before anything is written to either."""
    manifests = Manifests(bucket, partition)
    newest = await manifests.newest()
    try:
        await match(log, newest)
    except (LogForeignError, LogDivergedError, ArchiveAheadError) as error:
        after = await last_shared(log, manifests.all())
        raise type(error)(**{**error.fields, "after": after}) from None


def continues(begins: int, manifest: Manifest | None) -> bool:
    """Say whether a log that begins at an address has all that came after the last flush.

    It reaches back to that flush, or it was begun anew on what the flush had left, and nothing of it
    has been flushed yet.
    """
    if manifest is None:
        return begins <= 0
    begun = manifest.log_begins if manifest.lineage else manifest.flushed_through + NEW_LOG_GAP
    return begins <= manifest.flushed_through or (manifest.frame is None and begins == begun)


async def last_shared(log: LogIdentity, manifests: AsyncIterator[Manifest]) -> int:
    """Return up to where the log is certainly in the bucket, as one of the manifests shows."""
    async for manifest in manifests:
        if manifest.frame is not None and await log.checksum(manifest.flushed_through) == manifest.frame:
            return manifest.flushed_through
    return log.begins_after


async def match(log: LogIdentity, manifest: Manifest | None) -> Tie:
    """Return how a log goes on with the newest manifest, or refuse it."""
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
        # Whoever starts with an empty directory wants a new log on what the bucket has. It begins far
        # beyond the old one, so that no position is used twice.
        return Tie(None, max(manifest.flushed_through, manifest.log_begins) + NEW_LOG_GAP)
    raise LogForeignError(log=log.location, lineage=manifest.lineage, after=log.begins_after)


async def _continue(log: LogIdentity, manifest: Manifest) -> Tie:
    """Match a log with a manifest of the same lineage."""
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
    """Match a log with a manifest from before there were lineages: by its positions alone."""
    lineage, flushed = log.lineage or log.intended, manifest.flushed_through
    if log.ends_at is None:
        return Tie(lineage, flushed + NEW_LOG_GAP if flushed else 0)
    if log.begins_after in (flushed, flushed + NEW_LOG_GAP):
        return Tie(lineage, log.begins_after)  # made anew, by a start on this bucket or by a repair
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
    """Make a log the one that the bucket goes on with; return the manifest found, and the one that holds now.

    The new manifest fences whoever wrote the one before it: that one loses its next manifest. A log that
    is not the bucket's is refused and changes nothing. With ``predecessors``, the writers that this process
    was before, nobody else is fenced: who has lost the bucket meanwhile does not take it back by itself.
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
            continue  # another server has come between; the log may no longer be the bucket's
        if log.lineage is None or log.intended is not None:
            await log.tie(lineage)
        if log.ends_at is None:
            log.begin_at(tie.begins)
        return before, manifest
    raise BucketError(reason="other servers keep becoming the writer of the bucket")


def require_numbers(manifest: Manifest, partition: PartitionId) -> None:
    """Refuse a manifest that numbers streams as another partition does: their event ids would collide."""
    if manifest.next_stream not in partition.streams:
        raise BucketRefusedError(
            problem=f"manifest {manifest.number} of partition {partition.number} gives the number"
            f" {manifest.next_stream} to the next stream, which is not one of this partition's",
            remedy="It was copied from another partition, or not written by a server. Restore the right one.",
        )


def first_manifest(partition: PartitionId, clock: Clock) -> Manifest:
    """Return what stands for the manifest of a partition that has none."""
    return Manifest(
        number=0,
        writer="",
        flushed_through=0,
        next_stream=partition.streams.start,
        created_at_ms=clock.now_ms(),
    )
