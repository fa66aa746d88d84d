"""Writing the objects of a flush; until a manifest names them, they count for nothing."""

from typing import NamedTuple

from durable_sessions.bucket.layout import events_path, sessions_path
from durable_sessions.bucket.manifest import CheckpointInfo, Manifest, SegmentInfo
from durable_sessions.bucket.numbered import create_beside
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.limits import Limits
from durable_sessions.partition_id import PartitionId
from durable_sessions.threads import CPU
from durable_sessions.tier import segment_contents, subscription_objects
from durable_sessions.tier.flush_contents import FlushContents


class FlushObjects(NamedTuple):
    """What a manifest says of a flush's objects; ``held`` is what the catalog says of the segments."""

    segments: list[SegmentInfo]
    held: list[segment_contents.Contents]
    checkpoint: CheckpointInfo
    subscriptions: subscription_objects.Written


async def write_objects(
    bucket: ObjectStore, partition: PartitionId, manifest: Manifest, contents: FlushContents, limits: Limits
) -> FlushObjects:
    """Write what follows a manifest under the next number: segments, checkpoint, subscriptions."""
    number = manifest.number + 1
    segments: list[SegmentInfo] = []
    held: list[segment_contents.Contents] = []
    for day, segment in contents.segments.items():
        path = await create_beside(bucket, events_path(day, partition, number), segment.data)
        segments.append(segment.info(path))
        held.append(await CPU.run(segment_contents.contents, path, segment.directory))
    path = await create_beside(bucket, sessions_path(partition, number), contents.checkpoint.data)
    subscriptions = await subscription_objects.write(
        bucket, partition, manifest, number, contents.subscriptions, limits
    )
    return FlushObjects(segments, held, contents.checkpoint.info(path), subscriptions)
