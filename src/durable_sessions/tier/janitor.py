"""Removes what partitions of other generations have written, once no partition refers to it any more.

A segment of an older generation may be referred to by several partitions, so that none of them may remove it.
What they refer to of it only becomes less. So whatever no newest manifest names, none ever will.
"""

from collections.abc import Iterable

from durable_sessions.bucket.format import REPARTITIONED, read_format
from durable_sessions.bucket.layout import EVENTS, PARTITIONS, SESSIONS, generation_of
from durable_sessions.bucket.manifest import Manifest, Manifests
from durable_sessions.bucket.objects import ObjectInfo, ObjectStore
from durable_sessions.bucket.partition_layout import PartitionLayout, read_layout
from durable_sessions.clock import Clock
from durable_sessions.limits import Limits
from durable_sessions.partition_id import PartitionId
from durable_sessions.threads import CPU
from durable_sessions.tier.next_manifest import referred
from durable_sessions.tier.sweeper import DELETED_AT_ONCE, Removal

OTHER_GENERATION = "no partition refers to it since the bucket was repartitioned"


def plan_generations(
    layout: PartitionLayout,
    manifests: Iterable[Manifest],
    listing: Iterable[ObjectInfo],
    now_ms: int,
    limits: Limits,
) -> list[Removal]:
    """Return what can be removed of other generations, given the newest manifests of all partitions.

    Garbage within its grace time is kept. For a while after a repartitioning everything is kept, so that
    both generations can be verified, and so is what a repartitioning may be about to commit.
    """
    kept: set[str] = set()
    for manifest in manifests:
        kept |= referred(manifest) | {one.path for one in manifest.garbage}
    oldest_ms = now_ms - int(limits.orphan_grace_seconds * 1000)
    if layout.created_at_ms > oldest_ms:
        return []
    return [
        Removal(info.path, OTHER_GENERATION)
        for info in listing
        if generation_of(info.path) not in (None, layout.generation)
        and info.path not in kept
        and info.modified_at_ms <= oldest_ms
    ]


class Janitor:
    """Looks after the objects of other generations, for the whole bucket: only one partition has it."""

    def __init__(self, bucket: ObjectStore, partition: PartitionId, clock: Clock, limits: Limits) -> None:
        self._bucket = bucket
        self._own = PartitionLayout.of(partition)
        self._clock = clock
        self._limits = limits
        self.removed = 0

    async def plan(self) -> list[Removal]:
        """Return what can be removed now; nothing if the bucket was never repartitioned, or is elsewhere."""
        found = await read_format(self._bucket)
        if found is None or found.version < REPARTITIONED:
            return []
        layout = await read_layout(self._bucket)
        if layout is None or layout.generation != self._own.generation:
            return []  # repartitioned meanwhile: it is not ours any more
        # The manifests are read before the bucket is listed. Partitions only ever drop references to objects
        # of other generations, so a manifest that is no longer the newest keeps too much, never too little.
        manifests = []
        for one in layout.all:
            newest = await Manifests(self._bucket, one).newest()
            if newest is None:
                return []  # what it referred to is not known
            manifests.append(newest)
        listing: list[ObjectInfo] = []
        for prefix in (EVENTS, SESSIONS, PARTITIONS):
            listing += await self._bucket.list(prefix)
        return await CPU.run(plan_generations, layout, manifests, listing, self._clock.now_ms(), self._limits)

    async def sweep(self) -> int:
        """Remove what can be removed; return the number of objects."""
        paths = [removal.path for removal in await self.plan()]
        for begin in range(0, len(paths), DELETED_AT_ONCE):
            await self._bucket.delete(paths[begin : begin + DELETED_AT_ONCE])
        self.removed += len(paths)
        return len(paths)
