"""Writes the objects of a flush; they have no effect until a manifest refers to them."""

from typing import NamedTuple

import msgspec

from durable_sessions.bucket.layout import events_path, sessions_path
from durable_sessions.bucket.manifest import CheckpointInfo, Manifest, SegmentInfo
from durable_sessions.bucket.numbered import create_beside
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.limits import Limits
from durable_sessions.partition_id import PartitionId
from durable_sessions.threads import CPU
from durable_sessions.tier import packed_rows, subscription_objects
from durable_sessions.tier.catalog import Sized
from durable_sessions.tier.flush_contents import FlushContents
from durable_sessions.tier.packed_rows import PackedRows
from durable_sessions.tier.segment_contents import Contents, Places


class FlushObjects(NamedTuple):
    """A flush's objects as the manifest lists them; ``held`` are the catalog's rows for the segments."""

    segments: list[SegmentInfo]
    held: list[Contents]
    checkpoint: CheckpointInfo
    subscriptions: subscription_objects.Written


async def write_objects(
    bucket: ObjectStore, partition: PartitionId, manifest: Manifest, contents: FlushContents, limits: Limits
) -> FlushObjects:
    """Write the objects of a flush: segments, checkpoint, subscriptions."""
    # An object's number is that of the first manifest that can refer to it. The sweeper relies on it to tell
    # an orphan from an object whose manifest is about to be committed.
    number = manifest.number + 1
    segments: list[SegmentInfo] = []
    held: list[Contents] = []
    for one in contents.segments:
        path = await create_beside(bucket, events_path(one.day, partition, number), one.data)
        segments.append(msgspec.structs.replace(one.info, path=path))
        places = Places(PackedRows(one.runs, packed_rows.runs), path)
        held.append(Contents(Sized(path, one.record_bytes), places))
    path = await create_beside(bucket, sessions_path(partition, number), contents.checkpoint.data)
    effects = await CPU.run(subscription_objects.decoded, contents.subscriptions)
    subscriptions = await subscription_objects.write(bucket, partition, manifest, number, effects, limits)
    return FlushObjects(segments, held, contents.checkpoint.info(path), subscriptions)
