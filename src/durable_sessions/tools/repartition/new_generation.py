"""Writes the partitions of a new generation: no event is copied, their manifests refer to the old segments.

A segment that several partitions refer to is dirty in each of them, because it has records of others. So the
first compactions write such segments apart, as they do with records of removed streams, and in the same time.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from durable_sessions.bucket.fetch import digest
from durable_sessions.bucket.layout import snapshot_path
from durable_sessions.bucket.manifest import Manifest, Manifests, SegmentInfo, encode_manifest
from durable_sessions.bucket.numbered import create_beside
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.partition_id import PartitionId
from durable_sessions.storage import batch
from durable_sessions.streams import placements
from durable_sessions.streams.effects import SubscriptionEffect
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.tier import stream_codec, subscription_objects
from durable_sessions.tier.catalog import Catalog, Change
from durable_sessions.tier.checkpoints import FULL_PARTS, write_full_checkpoint
from durable_sessions.tier.next_manifest import about
from durable_sessions.tier.ownership import claim
from durable_sessions.tier.snapshot_info import SnapshotInfo, with_snapshot
from durable_sessions.tools.partition_logs import PartitionLogs
from durable_sessions.tools.stopped_partition import Stopped, StoppedPartition
from durable_sessions.tools.verify import CATALOG_NAME

FIRST = 1
"""The number of a partition's first manifest."""


class PartitionContents(NamedTuple):
    """What a new partition begins with.

    ``streams`` are the numbers of streams by old partition. ``placed`` are the names whose home this is, but
    which live in other partitions.
    """

    streams: Sequence[tuple[StoppedPartition, Sequence[int]]]
    subscriptions: Sequence[SubscriptionEffect]
    placed: Mapping[Key, int]


class NewPartition(NamedTuple):
    """A partition of the new generation as it was written; ``notes`` are the numbers of its new streams."""

    id: PartitionId
    manifest: Manifest
    streams: int
    notes: frozenset[int]


async def write_partition(
    stopped: Stopped,
    bucket: ObjectStore,
    partition: PartitionId,
    contents: PartitionContents,
    base: Manifest,
    logs: PartitionLogs,
) -> NewPartition:
    """Write catalog, checkpoint, manifest, snapshot and log of a new partition.

    ``base`` is the manifest that its first one is made from: where the old logs end, and the next number.
    ``logs`` makes the log.
    """
    directory = partition.directory(stopped.settings.data)
    directory.mkdir(parents=True)
    catalog = Catalog.create(directory / CATALOG_NAME, stopped.limits)
    try:
        for old, numbers in contents.streams:
            await catalog.run(catalog.take_streams, old.catalog, numbers)
        notes = await _write_notes(catalog, contents.placed, base)
        base = msgspec.structs.replace(base, next_stream=notes.next_stream)
        manifest = await _first_manifest(stopped, bucket, partition, contents, base, catalog)
        await Manifests(bucket, partition).create_next(manifest)
        log = await logs.make(partition)
        try:
            # Ties the new log, whose positions begin beyond all old ones, to the bucket.
            _, manifest = await claim(
                bucket, partition, log, stopped.ids.token("writer_"), stopped.clock, stopped.ids
            )
            await logs.own(log)
        finally:
            await log.close()
        await catalog.apply(Change(about(manifest)))
        count = await catalog.run(catalog.writer.count)
        return NewPartition(partition, manifest, count, frozenset(notes.by_id))
    finally:
        catalog.close()


async def _write_notes(catalog: Catalog, placed: Mapping[Key, int], base: Manifest) -> State:
    """Note in the catalog which names live elsewhere; no partition has given up any of these notes."""
    state = State()
    state.next_stream = base.next_stream
    for name, partition in placed.items():
        effects, _ = placements.place(state, name, partition, placements.NO_NOTE, base.created_at_ms)
        for effect in effects:
            state.apply(effect)
    states = [stream_codec.encode(stream) for stream in state.by_id.values()]
    await catalog.apply(Change(about(base), states=states))
    return state


async def _first_manifest(
    stopped: Stopped,
    bucket: ObjectStore,
    partition: PartitionId,
    contents: PartitionContents,
    base: Manifest,
    catalog: Catalog,
) -> Manifest:
    there = await catalog.run(catalog.writer.record_bytes)
    segments = _segments([old.archive.manifest for old, _ in contents.streams], there)
    counts = [(info.path, info.streams) for info in segments]
    await catalog.run(catalog.share_segments, counts, base.created_at_ms)
    checkpoints = await write_full_checkpoint(
        bucket, partition, FIRST, catalog, stopped.limits.checkpoint_rows_max
    )
    extra = {FULL_PARTS: msgspec.Raw(b"%d" % len(checkpoints))}
    if contents.subscriptions:
        data = b"".join(map(batch.encode, contents.subscriptions))
        info = await subscription_objects.create(
            bucket, partition, FIRST, "batch", data, len(contents.subscriptions)
        )
        extra[subscription_objects.SUBSCRIPTIONS] = msgspec.Raw(msgspec.json.encode(info))
    manifest = msgspec.structs.replace(
        base, segments=tuple(segments), checkpoints=tuple(checkpoints), extra=extra
    )
    await catalog.apply(Change(about(manifest)))
    return with_snapshot(manifest, await _snapshot(stopped, bucket, partition, manifest, catalog))


def _segments(manifests: Sequence[Manifest], wanted: dict[str, int]) -> list[SegmentInfo]:
    """Return the segments with these paths, each once: several old partitions may refer to the same."""
    found = {info.path: info for manifest in manifests for info in manifest.segments if info.path in wanted}
    return list(found.values())


async def _snapshot(
    stopped: Stopped, bucket: ObjectStore, partition: PartitionId, manifest: Manifest, catalog: Catalog
) -> SnapshotInfo | None:
    """Write a snapshot of the catalog; None if the catalog is too large for one."""
    data = await catalog.run(catalog.pack, encode_manifest(manifest), stopped.limits.snapshot_bytes_max)
    if data is None:
        return None
    return SnapshotInfo(
        path=await create_beside(bucket, snapshot_path(partition, FIRST), data),
        bytes=len(data),
        sha256=digest(data),
        manifest=manifest.number,
        rows=await catalog.run(catalog.writer.count),
        created_at_ms=manifest.created_at_ms,
    )
