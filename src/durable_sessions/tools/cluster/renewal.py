"""Makes the logs of a cluster anew after NATS has lost them: what was flushed to the bucket is what is left.

A log that is there is never touched: it may have what was acknowledged since the last flush.
"""

from dataclasses import dataclass

import msgspec

from durable_sessions.bucket.manifest import Manifest, Manifests
from durable_sessions.bucket.partition_layout import PartitionLayout, read_layout
from durable_sessions.clock import Clock
from durable_sessions.errors import BucketRefusedError, DurableSessionsError, SettingsError
from durable_sessions.log import NEW_LOG_GAP, Claimant
from durable_sessions.log.nats.stream import stream_name
from durable_sessions.log.nats.wire import NatsWire
from durable_sessions.node.cluster_logs import ClusterLogs
from durable_sessions.partition_id import PartitionId
from durable_sessions.tier.next_manifest import successor
from durable_sessions.tier.ownership import require_own
from durable_sessions.tools.cluster.status import live_nodes
from durable_sessions.tools.cluster.streams import has_stream, make_stream

_CLAIMANT = Claimant("renewal", "ds cluster init --from-bucket")


@dataclass(frozen=True, slots=True)
class RenewedLog:
    """A log that was made anew: all that is left is what had been flushed, at this time."""

    partition: str
    flushed_at_ms: int


async def renew_logs(logs: ClusterLogs, clock: Clock) -> list[RenewedLog]:
    """Make the streams that NATS does not have; refuse if one is there that does not go with the bucket."""
    wire = logs.wire
    if wire is None:
        problem = "The log of this cluster is in its bucket, which is never made anew from itself."
        raise SettingsError(problem=problem)
    running = await live_nodes(logs, clock.now_ms())
    if running:
        raise BucketRefusedError(
            problem=f"nodes of its cluster run: {', '.join(sorted(beat.name for beat in running))}",
            remedy="Stop them first.",
        )
    partitions = (await read_layout(logs.bucket) or PartitionLayout()).all
    missing = [one for one in partitions if not await _has_log(logs, wire, one)]
    return [await _renew(logs, wire, one, clock) for one in missing]


async def _has_log(logs: ClusterLogs, wire: NatsWire, partition: PartitionId) -> bool:
    """Say whether a partition has a log that goes with the bucket."""
    name = stream_name(logs.description.name, partition.generation, partition.digits)
    if not await has_stream(wire, name):
        return False
    log = await logs.log(partition)
    try:
        await require_own(log, logs.bucket, partition)
    except DurableSessionsError as error:
        if log.ends_at is None:
            return False  # made by a run that was interrupted
        problem = f"the stream {name} does not go with it: {error}"
        remedy = (
            f"If what it has beyond the bucket may be lost, remove it (nats stream rm {name}), and repeat."
        )
        raise BucketRefusedError(problem=problem, remedy=remedy) from error
    return True


async def _renew(logs: ClusterLogs, wire: NatsWire, partition: PartitionId, clock: Clock) -> RenewedLog:
    """Make the log of a partition, beyond every position that the lost one can have had."""
    manifests = Manifests(logs.bucket, partition)
    found = await manifests.newest()
    assert found is not None, "the layout is written after the first manifests"
    begins = max(found.flushed_through, found.log_begins) + NEW_LOG_GAP
    await make_stream(wire, logs.description, partition, logs.bucket.location)
    next_one: Manifest = msgspec.structs.replace(
        successor(found, clock.now_ms()), writer=logs.ids.token("writer_"), log_begins=begins, frame=None
    )
    await manifests.create_next(next_one)
    log = await logs.log(partition)
    log.begin_at(begins)
    await log.claim(_CLAIMANT)
    return RenewedLog(partition.digits, found.created_at_ms)
