"""What a bucket says about the cluster that serves it: one object, made once by ``ds cluster init``."""

import re

import msgspec

from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.partition_layout import PartitionLayout, newest_layout
from durable_sessions.errors import BucketRefusedError, ObjectDamagedError, ObjectNotFoundError

DESCRIPTION = "cluster/description.json"
VERSION = 1
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
    version: int = VERSION


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
    if found.version != VERSION or found.log not in (NATS_LOG, BUCKET_LOG):
        raise BucketRefusedError(
            problem=f"{DESCRIPTION} has version {found.version} and a log in {found.log}",
            remedy="Use the program that wrote it, or a newer one.",
        )
    return found


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
