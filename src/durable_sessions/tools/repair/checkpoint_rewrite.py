"""Rewrites all streams and subscriptions as new checkpoints."""

from collections.abc import Sequence

import msgspec

from durable_sessions.bucket.layout import sessions_path
from durable_sessions.bucket.manifest import CheckpointInfo
from durable_sessions.bucket.numbered import create_beside
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.partition_id import PartitionId
from durable_sessions.storage import batch
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Stream
from durable_sessions.tier import stream_codec, subscription_objects
from durable_sessions.tier.checkpoints import encode_changes
from durable_sessions.tier.subscription_objects import SUBSCRIPTIONS
from durable_sessions.tools.verify.inventory import Inventory

SESSIONS_ROWS_MAX = 10_000
"""How many streams go into one checkpoint."""


async def write_sessions(
    bucket: ObjectStore, partition: PartitionId, number: int, inventory: Inventory
) -> tuple[CheckpointInfo, ...]:
    """Write all streams, in parts of bounded size."""
    written: list[CheckpointInfo] = []
    part: list[Stream] = []
    for stream, _ in inventory.streams():
        part.append(stream)
        if len(part) == SESSIONS_ROWS_MAX:
            written.append(await _write_part(bucket, partition, number, part))
            part = []
    if part:
        written.append(await _write_part(bucket, partition, number, part))
    return tuple(written)


async def _write_part(
    bucket: ObjectStore, partition: PartitionId, number: int, part: Sequence[Stream]
) -> CheckpointInfo:
    state = State()
    state.by_id = {stream.id: stream for stream in part}
    encoded = encode_changes(state, [stream_codec.encode(stream) for stream in part])
    return encoded.info(await create_beside(bucket, sessions_path(partition, number), encoded.data))


async def write_subscriptions(
    bucket: ObjectStore, partition: PartitionId, number: int, effects: Sequence[Effect]
) -> dict[str, msgspec.Raw]:
    """Write the effects that restore the subscriptions; return their entry for the manifest."""
    if not effects:
        return {}
    data = b"".join(map(batch.encode, effects))
    info = await subscription_objects.create(bucket, partition, number, "batch", data, len(effects))
    return {SUBSCRIPTIONS: msgspec.Raw(msgspec.json.encode(info))}
