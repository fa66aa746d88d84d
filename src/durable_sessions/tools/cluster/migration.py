"""Turns a single server into a cluster, and a cluster into a single server; both are stopped meanwhile.

Either way the data gets a new generation of partitions, whose logs are where the next ones look for them. No
event is copied, and URLs, ids and offsets stay. Until the layout of that generation is written, nothing has
changed; from then on the other side refuses the bucket.
"""

from durable_sessions.bucket.cluster_description import current_cluster
from durable_sessions.bucket.store import Bucket
from durable_sessions.errors import BucketRefusedError
from durable_sessions.log import Claimant
from durable_sessions.log.nats.wire import NatsWire
from durable_sessions.node.cluster_logs import ClusterLogs
from durable_sessions.tools.cluster.setup import ClusterSetup, require_name
from durable_sessions.tools.cluster.status import live_nodes
from durable_sessions.tools.partition_logs import ClusterPartitionLogs
from durable_sessions.tools.repartition import Repartition, Repartitioned, Step
from durable_sessions.tools.stopped_partition import Stopped

_CLAIMANT = Claimant("migration", "ds cluster")


async def to_cluster(
    stopped: Stopped,
    bucket: Bucket,
    wire: NatsWire | None,
    name: str,
    replicas: int,
    partitions: int,
    step: Step,
) -> Repartitioned:
    """Make a cluster of the data of a stopped server; without ``wire`` its logs are in the bucket."""
    require_name(name)
    found = await current_cluster(bucket)
    if found is not None:
        raise BucketRefusedError(
            problem=f"it belongs to the cluster {found.name} already", remedy="Start its nodes."
        )
    setup = ClusterSetup(bucket, wire, stopped.clock, stopped.ids)
    description = setup.description(name, stopped.settings.unflushed_bytes, replicas)
    target = ClusterPartitionLogs(ClusterLogs(bucket, description, wire, stopped.ids), _CLAIMANT)
    return await Repartition(stopped, bucket, step, target=target).run(partitions)


async def to_single_server(stopped: Stopped, logs: ClusterLogs, partitions: int, step: Step) -> Repartitioned:
    """Make a data directory for a single server of the data of a cluster whose nodes are stopped."""
    step("listen whether a node still runs")
    running = await live_nodes(logs, stopped.clock.now_ms())
    if running:
        raise BucketRefusedError(
            problem=f"nodes of its cluster run: {', '.join(sorted(beat.name for beat in running))}",
            remedy="Stop them first.",
        )
    source = ClusterPartitionLogs(logs, _CLAIMANT)
    return await Repartition(stopped, logs.bucket, step, source=source).run(partitions)
