"""Ends an upgrade of a cluster: from then on it writes what only programs of the new version can read."""

from dataclasses import dataclass

from durable_sessions.bucket.cluster_description import LEVEL, raise_level
from durable_sessions.errors import BucketRefusedError
from durable_sessions.node.cluster_logs import ClusterLogs
from durable_sessions.tools.cluster.status import live_nodes


@dataclass(frozen=True, slots=True)
class UpgradeState:
    """The format level at which a cluster writes, the newest one, and the nodes that do not read that."""

    level: int
    newest: int
    older: list[str]


async def upgrade_state(logs: ClusterLogs, now_ms: int) -> UpgradeState:
    """Listen to the nodes for a while, and return how far the upgrade of the cluster is."""
    nodes = await live_nodes(logs, now_ms)
    older = [f"{beat.name} ({beat.version})" for beat in nodes if beat.level < LEVEL]
    return UpgradeState(logs.description.version, LEVEL, older)


async def finalize_upgrade(logs: ClusterLogs, now_ms: int) -> UpgradeState:
    """Let the cluster write at the newest level, for good; refused while a node runs that lacks it."""
    found = await upgrade_state(logs, now_ms)
    if found.older:
        raise BucketRefusedError(
            problem=f"nodes of its cluster do not read format level {LEVEL}: {', '.join(found.older)}",
            remedy="Upgrade them first.",
        )
    await raise_level(logs.bucket, logs.description)
    return UpgradeState(LEVEL, LEVEL, [])
