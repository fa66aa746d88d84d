"""Answers about the server as a whole."""

from typing import Annotated, Any, Literal

import msgspec

from durable_sessions.schema_notes import Whole, about

_Error = Annotated[str | msgspec.UnsetType, about("What it failed of; for callers of the home workspace.")]


class Alive(msgspec.Struct):
    """The process runs."""

    status: Literal["alive"]


class SearchReadiness(msgspec.Struct):
    """How far the search index is."""

    state: Literal["ready", "building", "paused", "failing"]
    events: Annotated[Whole | msgspec.UnsetType, about("How many older events the index lacked.")] = (
        msgspec.UNSET
    )
    events_left: Annotated[Whole | msgspec.UnsetType, about("How many of them it lacks still.")] = (
        msgspec.UNSET
    )
    reason: Annotated[
        str | msgspec.UnsetType, about("Why it fails or pauses; for callers of the home workspace.")
    ] = msgspec.UNSET


class FailingTask(msgspec.Struct):
    """A background task that does not work now."""

    task: Annotated[str, about("The name of a background task that failed.")]
    error: _Error = msgspec.UNSET
    since_ms: Annotated[Whole | msgspec.UnsetType, about("Since when it fails.")] = msgspec.UNSET
    failures: Annotated[Whole | msgspec.UnsetType, about("How often it has failed since.")] = msgspec.UNSET


class FailingListener(msgspec.Struct):
    """A derived thing that failed to take in a durable change."""

    listener: Annotated[str, about("What has missed a change, and is being made consistent again.")]
    error: _Error = msgspec.UNSET


class LowSpace(msgspec.Struct):
    """A disk that is almost full."""

    free_bytes: Annotated[Whole, about("How much space is left; it is little, and indexing is paused.")]
    low_bytes: Annotated[Whole, about("Below which space left that is so.")]


class Reopening(msgspec.Struct):
    """A failed log that is opened again."""

    reason: Annotated[str, about("Why the log, which has failed, could not be opened again yet.")]


class PartitionOwner(msgspec.Struct, omit_defaults=True):
    """Who owns a partition of a cluster; the node that owns it knows more than the others."""

    node: Annotated[str, about("The name of the node; empty while no node owns it.")]
    epoch: Annotated[Whole, about("The position of the claim that it owns the log with.")] = 0
    tail: Annotated[Whole, about("The last position of the log, as far as was heard.")] = 0
    flushed_through: Annotated[
        Whole | msgspec.UnsetType, about("Up to which position the bucket has everything.")
    ] = msgspec.UNSET
    proof_age_ms: Annotated[
        Whole | msgspec.UnsetType, about("How long ago the frame was sent that last proved the ownership.")
    ] = msgspec.UNSET


class Readiness(msgspec.Struct):
    """Whether the server takes work, and what hinders it."""

    status: Literal["ready", "degraded", "not ready"]
    search: SearchReadiness
    tasks: Annotated[
        list[FailingTask] | msgspec.UnsetType,
        about("What works again after a pause, or does not yet; then the status is degraded."),
    ] = msgspec.UNSET
    listeners: Annotated[
        list[FailingListener] | msgspec.UnsetType,
        about("Derived things that failed to take in a durable change; then the status is degraded."),
    ] = msgspec.UNSET
    disk: LowSpace | msgspec.UnsetType = msgspec.UNSET
    bucket: Annotated[
        dict[str, Any] | msgspec.UnsetType,
        about("Since when and why the bucket takes no flush; for callers of the home workspace."),
    ] = msgspec.UNSET
    reason: Annotated[
        str | msgspec.UnsetType, about("Why it is not ready; for callers of the home workspace.")
    ] = msgspec.UNSET
    reopening: Reopening | msgspec.UnsetType = msgspec.UNSET
    partitions: Annotated[
        dict[str, "Readiness"] | msgspec.UnsetType,
        about("Where there are several: each of them. The members beside are those of the worst one."),
    ] = msgspec.UNSET
    owners: Annotated[
        dict[str, PartitionOwner] | msgspec.UnsetType,
        about("In a cluster, who owns each partition; for callers of the home workspace."),
    ] = msgspec.UNSET


class PartitionFlush(msgspec.Struct):
    """How far the bucket reaches for one partition."""

    manifest: Annotated[Whole, about("The number of the newest manifest.")]
    flushed_through: Whole


class FlushResult(PartitionFlush):
    """How far the bucket reaches; where there are several partitions, for the first and for each."""

    partitions: Annotated[
        dict[str, PartitionFlush] | msgspec.UnsetType, about("Where there are several: each of them.")
    ] = msgspec.UNSET


class Reindexing(msgspec.Struct):
    """The search index is being made anew."""

    status: Literal["building"]


class KeyCounts(msgspec.Struct):
    """How many keys there are."""

    known: Annotated[Whole, about("Keys, those that have ended included until they are forgotten.")]
    browsers: Annotated[Whole, about("Browsers that have signed in.")]
    required: Annotated[bool, about("Whether requests need a key at all.")]


class ProcessStatus(msgspec.Struct):
    """A process of the server: the only one, a worker, or a node of a cluster."""

    name: Annotated[str, about("The name of the node, or the number of the worker.")]
    version: str
    uptime_seconds: float
    connections: Annotated[Whole, about("Open connections of clients.")]
    disk_free_bytes: Annotated[Whole | None, about("Space left on the disk of the log, as last measured.")]
    requests: Annotated[dict[str, int], about("Requests answered, by class of their status.")]


class PartitionStatus(msgspec.Struct):
    """A partition: how it is, and how large what it has.

    Sizes are in bytes.
    """

    partition: str
    process: str
    readiness: Readiness
    streams: Annotated[Whole, about("Streams that exist; sessions are streams, too.")]
    active_streams: Annotated[Whole, about("Those in memory.")]
    memory_bytes: Annotated[Whole, about("Recent records in memory.")]
    log_bytes: Whole
    log_segments: Whole
    pending_bytes: Annotated[Whole, about("Accepted, not durable yet.")]
    unflushed_bytes: Annotated[Whole, about("Durable in the log, not in the bucket yet.")]
    flushes: Annotated[Whole, about("Flushes to the bucket since the partition was opened.")]
    bucket_segments: Whole
    bucket_bytes: Annotated[Whole, about("The event segments in the bucket.")]
    is_maintenance_failing: Annotated[bool, about("Whether merging and removing in the bucket do not work.")]
    search_backlog: Annotated[Whole, about("Sessions with events that search was not told of yet.")]
    waiting_readers: Whole


class MissingPartition(msgspec.Struct):
    """A partition that did not answer."""

    partition: str
    reason: str


class ServerStatus(msgspec.Struct):
    """The whole server, for those who run it."""

    version: str
    status: Literal["ready", "degraded", "not ready"]
    keys: KeyCounts
    processes: list[ProcessStatus]
    partitions: list[PartitionStatus]
    missing: Annotated[list[MissingPartition], about("Partitions that did not answer.")]
