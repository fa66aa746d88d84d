"""How a cluster is, from what its nodes tell, its logs and its bucket; no node need be running."""

import asyncio
from dataclasses import dataclass

from durable_sessions.bucket.cluster_description import LEVEL
from durable_sessions.bucket.manifest import Manifests
from durable_sessions.bucket.partition_layout import PartitionLayout, read_layout
from durable_sessions.cluster.heartbeat import NodeHeartbeat
from durable_sessions.cluster.members import ClusterMembers
from durable_sessions.cluster.placement import ClusterPlacement, Placements
from durable_sessions.errors import DurableSessionsError
from durable_sessions.log.shared import boottime
from durable_sessions.node.cluster_logs import ClusterLogs
from durable_sessions.partition_id import PartitionId

LISTEN_BEATS = 3
"""For how many heartbeats the nodes are listened to."""


@dataclass(frozen=True, slots=True)
class PartitionOwnership:
    """One partition: the node that owns it, by name, and how far its log and the bucket are.

    ``shadows`` are the nodes that keep its catalog ready.
    """

    partition: str
    number: int
    owner: str | None
    epoch: int
    moving_to: str
    shadows: list[str]
    log_begins_after: int | None
    log_ends_at: int | None
    log_bytes: int | None
    log_problem: str | None
    manifest: int
    flushed_through: int


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The nodes that tell of themselves, what the operator wishes, and all partitions.

    ``level`` is the format level at which the cluster writes, ``newest_level`` the newest of this program.
    """

    name: str
    log: str
    level: int
    newest_level: int
    nodes: list[NodeHeartbeat]
    placement: ClusterPlacement
    partitions: list[PartitionOwnership]


async def live_nodes(logs: ClusterLogs, now_ms: int) -> list[NodeHeartbeat]:
    """Listen to the nodes for a while, and return the last heartbeat of each."""
    members = ClusterMembers(logs.timing)

    def hear(data: bytes) -> None:
        beat = NodeHeartbeat.decode(data)
        if beat is not None:
            members.hear(beat, boottime(), now_ms)

    channel = logs.channel
    await channel.open(hear)
    seen = {beat.node: beat.number for beat in members.live(boottime())}
    await asyncio.sleep(LISTEN_BEATS * logs.timing.beat)
    if logs.wire is None:
        await channel.open(hear)
    # The object of a dead node stays in a bucket: only one that has changed meanwhile is of a live node.
    return [beat for beat in members.live(boottime()) if seen.get(beat.node) != beat.number]


async def cluster_status(logs: ClusterLogs, now_ms: int) -> ClusterStatus:
    """Listen to the nodes for a while, look at logs and bucket, and return what was found."""
    nodes = await live_nodes(logs, now_ms)
    layout = await read_layout(logs.bucket) or PartitionLayout()
    placement = await Placements(logs.bucket).newest()
    found = [await _partition(logs, partition, nodes) for partition in layout.all]
    cluster = logs.description
    return ClusterStatus(cluster.name, cluster.log, cluster.version, LEVEL, nodes, placement, found)


async def _partition(
    logs: ClusterLogs, partition: PartitionId, nodes: list[NodeHeartbeat]
) -> PartitionOwnership:
    said = [(node, one) for node in nodes if (one := node.partition(partition.number)) is not None]
    owner = max((one for one in said if one[1].owns), key=lambda one: one[1].epoch, default=None)
    names = {node.node: node.name for node in nodes}
    newest = await Manifests(logs.bucket, partition).newest()
    begins, ends, size, problem = None, None, None, None
    try:
        slots = await logs.slots(partition)
        begins, ends, size = slots.begins_after, slots.last, slots.stored_bytes
    except DurableSessionsError as error:
        problem = str(error)
    return PartitionOwnership(
        partition.digits,
        partition.number,
        None if owner is None else owner[0].name,
        0 if owner is None else owner[1].epoch,
        "" if owner is None else names.get(owner[1].moving_to, ""),
        [node.name for node, one in said if one.catalog and not one.owns],
        begins,
        ends,
        size,
        problem,
        0 if newest is None else newest.number,
        0 if newest is None else newest.flushed_through,
    )
