"""Sweeping: removing from the bucket what nothing refers to any more, and nothing else."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from durable_sessions.bucket.layout import FlushedNames
from durable_sessions.bucket.manifest import Manifest
from durable_sessions.bucket.objects import ObjectInfo
from durable_sessions.clock import Clock
from durable_sessions.limits import Limits
from durable_sessions.partition_id import PartitionId
from durable_sessions.threads import CPU
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.next_manifest import referred, without_garbage

GARBAGE = "it was replaced"
ORPHAN = "nothing refers to it"
OLD_MANIFEST = "newer manifests have replaced it"

_DELETED_AT_ONCE = 500


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
    """Return what can be removed now, given the partition's newest manifest and what is in the bucket.

    Nothing that the manifest refers to is ever removed, nor what is not named as this partition names things.
    An object's number is that of the first manifest that can refer to it. One with a higher number
    than the manifest's may be about to be referred to; one with a lower number can not.
    """
    kept, names = referred(manifest), FlushedNames(partition)
    oldest_ms = now_ms - int(limits.garbage_grace_seconds * 1000)
    garbage = [one.path for one in manifest.garbage if one.since_ms <= oldest_ms and one.path not in kept]
    kept.update(one.path for one in manifest.garbage)
    return [Removal(path, GARBAGE) for path in garbage] + [
        Removal(info.path, reason)
        for info in listing
        if info.path not in kept and (reason := _reason(names, info, manifest.number, now_ms, limits))
    ]


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
    """Removes garbage as it becomes due, and the rest when the bucket is listed.

    Listing and removing need no turn: no later manifest refers to what a plan names.
    """

    def __init__(self, archive: BucketArchive, clock: Clock, limits: Limits) -> None:
        self._archive = archive
        self._clock = clock
        self._limits = limits
        self.removed = 0

    async def collect(self) -> int:
        """Remove garbage whose grace time is over; return how many objects that were."""
        archive = self._archive
        return await self._remove(
            plan(archive.manifest, archive.partition, (), self._clock.now_ms(), self._limits)
        )

    async def sweep(self) -> int:
        """Remove garbage, old manifests and orphans; return how many objects that were."""
        archive, listing = self._archive, list[ObjectInfo]()
        for prefix in FlushedNames(archive.partition).prefixes:
            listing += await archive.bucket.list(prefix)
        now_ms = self._clock.now_ms()
        removals = await CPU.run(plan, archive.manifest, archive.partition, listing, now_ms, self._limits)
        return await self._remove(removals)

    async def _remove(self, removals: Sequence[Removal]) -> int:
        manifest = await self._archive.confirmed() if removals else None
        if manifest is None:
            return 0
        kept = referred(manifest)
        paths = [one.path for one in removals]
        assert kept.isdisjoint(paths), "what was garbage stays garbage"
        for begin in range(0, len(paths), _DELETED_AT_ONCE):
            await self._archive.bucket.delete(paths[begin : begin + _DELETED_AT_ONCE])
        gone = {one.path for one in removals if one.reason == GARBAGE}
        if gone:
            await self._forget(gone)
        self.removed += len(paths)
        return len(paths)

    async def _forget(self, gone: set[str]) -> None:
        async with self._archive.changing() as manifest:
            if manifest is not None:
                await self._archive.replace(without_garbage(manifest, gone, self._clock.now_ms()))
