"""Removes objects from the bucket that nothing refers to any more, and no others."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from durable_sessions.bucket.layout import FlushedNames, generation_of
from durable_sessions.bucket.manifest import Manifest
from durable_sessions.bucket.objects import ObjectInfo
from durable_sessions.clock import Clock
from durable_sessions.limits import Limits
from durable_sessions.partition_id import PartitionId
from durable_sessions.threads import CPU
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.next_manifest import referred, without_garbage

GARBAGE = "it was replaced"
RELEASED = "it was replaced here, but other partitions may refer to it"
"""The reason to forget garbage without removing it: the janitor removes it when nobody refers to it."""
ORPHAN = "nothing refers to it"
OLD_MANIFEST = "newer manifests have replaced it"

DELETED_AT_ONCE = 500


class Removal(NamedTuple):
    """An object to remove, and why."""

    path: str
    reason: str


def plan(
    manifest: Manifest,
    partition: PartitionId,
    listing: Iterable[ObjectInfo],
    now_ms: int,
    limits: Limits,
) -> list[Removal]:
    """Return what can be removed now, given the partition's newest manifest and a listing of the bucket.

    An object is kept if the manifest refers to it, or if its name is not one that this partition gives.
    An object's number is that of the first manifest that can refer to it. If it is higher than the
    manifest's, a manifest that refers to the object may be about to be committed; otherwise none will be.
    """
    kept, names = referred(manifest), FlushedNames(partition)
    oldest_ms = now_ms - int(limits.garbage_grace_seconds * 1000)
    due = [one.path for one in manifest.garbage if one.since_ms <= oldest_ms and one.path not in kept]
    # The listing shows garbage within its grace time, too; it must not be removed early as an orphan.
    kept.update(one.path for one in manifest.garbage)
    return [Removal(path, GARBAGE if _is_own(names, path) else RELEASED) for path in due] + [
        Removal(info.path, reason)
        for info in listing
        if info.path not in kept and (reason := _reason(names, info, manifest.number, now_ms, limits))
    ]


def _is_own(names: FlushedNames, path: str) -> bool:
    """Say whether no other partition refers to an object: that is so if it is not of an older generation."""
    return names.parse(path) is not None or generation_of(path) is None


def _reason(names: FlushedNames, info: ObjectInfo, newest: int, now_ms: int, limits: Limits) -> str | None:
    number = names.manifest_number(info.path)
    if number is not None:
        return OLD_MANIFEST if number <= newest - limits.manifests_kept_max else None
    found = names.parse(info.path)
    if found is None or found.number > newest:
        return None
    old = info.modified_at_ms <= now_ms - limits.orphan_grace_seconds * 1000
    return ORPHAN if old else None


class Sweeper:
    """Removes garbage as it becomes due, and old manifests and orphans when the bucket is listed.

    Listing and removing run beside other changes: no later manifest can refer to what a plan removes. A
    snapshot is the exception, since flushes go on while it is uploaded, and its number may then be that of an
    older manifest. So one task writes snapshots and sweeps, never both at a time.
    """

    def __init__(self, archive: BucketArchive, clock: Clock, limits: Limits) -> None:
        self._archive = archive
        self._clock = clock
        self._limits = limits
        self.removed = 0

    async def collect(self) -> int:
        """Remove garbage whose grace time is over; return for how many objects something was done."""
        archive = self._archive
        return await self._remove(
            plan(archive.manifest, archive.partition, (), self._clock.now_ms(), self._limits)
        )

    async def sweep(self) -> int:
        """Remove garbage, old manifests and orphans; return for how many objects something was done."""
        archive, listing = self._archive, list[ObjectInfo]()
        for prefix in FlushedNames(archive.partition).prefixes:
            listing += await archive.bucket.list(prefix)
        now_ms = self._clock.now_ms()
        removals = await CPU.run(plan, archive.manifest, archive.partition, listing, now_ms, self._limits)
        return await self._remove(removals)

    async def _remove(self, removals: Sequence[Removal]) -> int:
        # The plan was made from our own view. Before anything is deleted, the manifest is confirmed in the
        # bucket: a writer that was fenced without knowing it would delete objects that the new writer uses.
        manifest = await self._archive.confirmed() if removals else None
        if manifest is None:
            return 0
        kept = referred(manifest)
        assert kept.isdisjoint(one.path for one in removals), "what was garbage stays garbage"
        paths = [one.path for one in removals if one.reason != RELEASED]
        for begin in range(0, len(paths), DELETED_AT_ONCE):
            await self._archive.bucket.delete(paths[begin : begin + DELETED_AT_ONCE])
        # Deleted first and forgotten after: a crash in between repeats the deletion, which is harmless.
        gone = {one.path for one in removals if one.reason in (GARBAGE, RELEASED)}
        if gone:
            await self._forget(gone)
        self.removed += len(paths)
        return len(removals)

    async def _forget(self, gone: set[str]) -> None:
        async with self._archive.changing() as manifest:
            if manifest is not None:
                await self._archive.replace(without_garbage(manifest, gone, self._clock.now_ms()))
