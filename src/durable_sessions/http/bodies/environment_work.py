"""Bodies about the work queues of environments, in the shapes of Managed Agents."""

from typing import Annotated, Literal

import msgspec

from durable_sessions.schema_notes import Time, Whole, about

WorkState = Literal["queued", "starting", "active", "stopping", "stopped"]


class SessionWork(msgspec.Struct):
    """What is to be done: the tool calls of a session."""

    id: Annotated[str, about("The session.")]
    type: Literal["session"] = "session"


class WorkItem(msgspec.Struct):
    """A session that was routed to an environment."""

    id: Annotated[str, about("Names the session, the route, and the claim of the worker that polled it.")]
    environment_id: str
    data: SessionWork
    state: WorkState
    metadata: Annotated[dict[str, str], about("The session's, as far as it is text.")]
    created_at: Annotated[str, about("When the session was routed here.")]
    acknowledged_at: Time | None = None
    started_at: Time | None = None
    latest_heartbeat_at: Time | None = None
    stop_requested_at: Time | None = None
    stopped_at: Time | None = None
    secret: Annotated[
        str | None, about("Only to who polls, and only what it sent: its key, as the SDKs expect it.")
    ] = None
    type: Literal["work"] = "work"


class WorkHeartbeat(msgspec.Struct):
    """What a sign of life has brought about."""

    last_heartbeat: Time
    lease_extended: bool
    state: WorkState
    ttl_seconds: Whole
    type: Literal["work_heartbeat"] = "work_heartbeat"


class WorkQueueStats(msgspec.Struct):
    """How long a queue is."""

    depth: Annotated[Whole, about("Sessions that wait for a worker; at most 1,000 are counted.")]
    pending: Annotated[Whole, about("Sessions that a worker has.")]
    oldest_queued_at: Annotated[Time | None, about("When the first of those that wait was routed.")]
    workers_polling: Annotated[None, about("Not counted.")] = None
    type: Literal["work_queue_stats"] = "work_queue_stats"


class WorkUpdateBody(msgspec.Struct):
    """A change of metadata."""

    metadata: Annotated[
        dict[str, str | None], about("A patch of the session's metadata; null deletes a key.")
    ]


class WorkStopBody(msgspec.Struct):
    """A stop."""

    force: Annotated[bool | None, about("Makes no difference: a stop is always at once.")] = None
