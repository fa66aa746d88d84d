"""What a bucket says about the cluster that serves it: one object, made by ``ds cluster init``.

Its ``version`` is the format level of the cluster: what nodes write, every node must be able to read. So a
new version of the program writes what is new only once ``ds cluster upgrade --finalize`` has raised it.
"""

import re

import msgspec

from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.partition_layout import PartitionLayout, newest_layout
from durable_sessions.errors import BucketRefusedError, ObjectDamagedError, ObjectNotFoundError

DESCRIPTION = "cluster/description.json"
LEVEL = 2
"""The newest format level that this program reads, and that of a new cluster.

1 is that of version 0.5.0. Since 2 the signing keys of a cluster may be sealed with two secrets.
"""
OLDEST_LEVEL = 1
NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?", re.ASCII)
NATS_LOG, BUCKET_LOG = "nats", "bucket"


class ClusterDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster of a bucket: its name, where its log is (``nats`` or ``bucket``), and the log's lineage.

    ``log_bytes_max`` bounds the stream in NATS; ``replicas`` is how many servers keep it. ``generation`` is
    the first generation of partitions that is the cluster's: older ones are those of a single server.
    """

    name: str
    log: str
    lineage: str
    replicas: int = 3
    log_bytes_max: int = 0
    created_at_ms: int = 0
    generation: int = 0
    version: int = LEVEL


async def read_description(bucket: ObjectStore) -> ClusterDescription | None:
    """Return the cluster that a bucket belongs to; None if it belongs to none."""
    try:
        data = await bucket.get(DESCRIPTION)
    except ObjectNotFoundError:
        return None
    try:
        found = msgspec.json.decode(data, type=ClusterDescription)
    except msgspec.MsgspecError as error:
        raise ObjectDamagedError(path=DESCRIPTION, problem=f"it describes no cluster: {error}") from error
    if not OLDEST_LEVEL <= found.version <= LEVEL:
        raise BucketRefusedError(
            problem=f"the cluster {found.name} writes at format level {found.version}, and this program reads"
            f" levels {OLDEST_LEVEL} to {LEVEL}",
            remedy="Use the version that the other nodes have, or a newer one.",
        )
    if found.log not in (NATS_LOG, BUCKET_LOG):
        raise BucketRefusedError(
            problem=f"{DESCRIPTION} has a log in {found.log}",
            remedy="Use the program that wrote it, or a newer one.",
        )
    return found


async def raise_level(bucket: ObjectStore, found: ClusterDescription) -> None:
    """Let a cluster write at the newest level; programs that do not read it refuse the bucket from now on."""
    if found.version < LEVEL:
        await bucket.put(DESCRIPTION, msgspec.json.encode(msgspec.structs.replace(found, version=LEVEL)))


async def current_cluster(bucket: ObjectStore) -> ClusterDescription | None:
    """Return the cluster that serves a bucket now; None if a single server does.

    A bucket goes from the one to the other with the layout of a new generation.
    """
    found = await read_description(bucket)
    if found is None:
        return None
    layout = await newest_layout(bucket) or PartitionLayout()
    return None if layout.in_files or layout.generation < found.generation else found


async def require_no_cluster(bucket: ObjectStore) -> None:
    """Refuse a bucket that belongs to a cluster: a server of its own would take it from all its nodes."""
    found = await current_cluster(bucket)
    if found is not None:
        raise BucketRefusedError(
            problem=f"it belongs to the cluster {found.name}, whose log is not in this data directory",
            remedy=f"Start this server with --cluster {found.name}, or use another bucket.",
        )
