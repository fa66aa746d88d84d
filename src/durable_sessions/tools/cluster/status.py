"""How a cluster is, from what its nodes tell, its log and its bucket; no node need be running."""

import asyncio
from dataclasses import dataclass

from durable_sessions.bucket.manifest import Manifests
from durable_sessions.cluster.heartbeat import NodeHeartbeat
from durable_sessions.cluster.members import ClusterMembers
from durable_sessions.errors import DurableSessionsError
from durable_sessions.log.shared import boottime
from durable_sessions.node.cluster_logs import ClusterLogs
from durable_sessions.partition_id import ONLY_PARTITION

LISTEN_BEATS = 3
"""For how many heartbeats the nodes are listened to."""


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """The nodes that tell of themselves, the owner among them, and how far log and bucket are."""

    name: str
    log: str
    nodes: list[NodeHeartbeat]
    owner: NodeHeartbeat | None
    log_begins_after: int | None
    log_ends_at: int | None
    log_bytes: int | None
    log_problem: str | None
    manifest: int
    flushed_through: int


async def cluster_status(logs: ClusterLogs, now_ms: int) -> ClusterStatus:
    """Listen to the nodes for a while, look at log and bucket, and return what was found."""
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
    live = [beat for beat in members.live(boottime()) if seen.get(beat.node) != beat.number]
    newest = await Manifests(logs.bucket, ONLY_PARTITION).newest()
    begins, ends, size, problem = None, None, None, None
    try:
        slots = await logs.slots(ONLY_PARTITION)
        begins, ends, size = slots.begins_after, slots.last, slots.stored_bytes
    except DurableSessionsError as error:
        problem = str(error)
    return ClusterStatus(
        logs.description.name,
        logs.description.log,
        live,
        max((beat for beat in live if beat.owns), key=lambda beat: beat.epoch, default=None),
        begins,
        ends,
        size,
        problem,
        0 if newest is None else newest.number,
        0 if newest is None else newest.flushed_through,
    )
