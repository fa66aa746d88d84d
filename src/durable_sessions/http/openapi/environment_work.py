"""The work queues of environments: their operations and schemas."""

from durable_sessions.http.bodies.environment_work import (
    WorkHeartbeat,
    WorkItem,
    WorkQueueStats,
    WorkStopBody,
    WorkUpdateBody,
)
from durable_sessions.http.openapi.common import PAGE, page_limit
from durable_sessions.http.openapi.parts import Noun, Operation, in_header, in_query, json_answer, json_body
from durable_sessions.http.openapi.schemas import page, ref, text, whole
from durable_sessions.http.openapi.struct_schemas import schema_of

BLOCK_MS = in_query(
    "block_ms",
    whole(minimum=1, maximum=999),
    "How many milliseconds to wait for work, 1 to 999; not at all if absent.",
    100,
    default=0,
)
RECLAIM_MS = in_query(
    "reclaim_older_than_ms",
    whole(minimum=0, maximum=86_400_000),
    "Also take the work of a worker that has given no sign of life for this many milliseconds; if absent, "
    "work whose lease has expired.",
    5_000,
)
DESIRED_TTL = in_query("desired_ttl_seconds", whole(minimum=1), "Taken, and not followed.", 60)
EXPECTED_HEARTBEAT = in_query(
    "expected_last_heartbeat",
    text(),
    "The `last_heartbeat` of the last answer, or `NO_HEARTBEAT` before the first: 412 if there was another "
    "one, so that of two workers with one claim only one goes on. Not compared if absent, or if the server "
    "has started since.",
    "NO_HEARTBEAT",
)
WORKER_ID = in_header(
    "Anthropic-Worker-ID", text(maxLength=128), "The worker, as leases name it.", "worker-1"
)
LIMIT = page_limit(20, 100)
_ROOT = "/v1/environments/{environment_id}/work"
_ONE = _ROOT + "/{work_id}"
_SHOWN = {200: json_answer("The work.", ref("WorkItem"))}
_QUEUE = ("invalid_environment",)
_CLAIMED = (*_QUEUE, "work_lost", "work_stopped")

NOUN = Noun(
    "Environment work",
    "The queue of an environment of the type `self_hosted`, for the SDKs' environment worker: the sessions "
    "that were routed to it with `ds.routed`, whose `to` is the id of the environment. To poll is to wake "
    "such a session, with a lease of {environment_lease_seconds} seconds that others may work beside; a "
    "heartbeat renews it, and to stop ends the route and the lease. With keys, the worker's has the id of "
    "the environment as its principal.",
    (
        Operation(
            f"listWork: GET {_ROOT}",
            "List what is queued and under way.",
            {200: json_answer("A page of work, oldest sessions first.", page(ref("WorkItem")))},
            (LIMIT, PAGE),
            errors=(*_QUEUE, "too_many_scans"),
        ),
        Operation(
            f"pollWork: GET {_ROOT}/poll",
            "Claim the next work. The answer is null if there is none. Of polls at the same time, each gets "
            "another work.",
            {
                200: json_answer(
                    "The work, or null.",
                    {"anyOf": [{"$ref": "#/components/schemas/WorkItem"}, {"type": "null"}]},
                )
            },
            (BLOCK_MS, RECLAIM_MS, WORKER_ID),
            errors=(*_QUEUE, "not_routed", "too_many_scans"),
            role="writer",
        ),
        Operation(
            f"getWorkStats: GET {_ROOT}/stats",
            "Count the queue.",
            {200: json_answer("How long it is.", WorkQueueStats)},
            errors=(*_QUEUE, "too_many_scans"),
        ),
        Operation(f"getWork: GET {_ONE}", "Read a work.", _SHOWN, errors=_QUEUE),
        Operation(
            f"updateWork: POST {_ONE}",
            "Change the metadata of a work, which is that of its session.",
            _SHOWN,
            body=json_body(schema_of(WorkUpdateBody)),
            errors=(*_QUEUE, "invalid_session", "invalid_request"),
        ),
        Operation(
            f"acknowledgeWork: POST {_ONE}/ack",
            "Confirm that a claim arrived.",
            _SHOWN,
            errors=_CLAIMED,
        ),
        Operation(
            f"heartbeatWork: POST {_ONE}/heartbeat",
            "Keep a claim alive.",
            {200: json_answer("The lease has its full time again, or the work was stopped.", WorkHeartbeat)},
            (DESIRED_TTL, EXPECTED_HEARTBEAT),
            errors=(*_QUEUE, "work_lost", "heartbeat_precondition_failed"),
        ),
        Operation(
            f"stopWork: POST {_ONE}/stop",
            "Take a session out of the queue, and end the claim on it.",
            _SHOWN,
            body=json_body(schema_of(WorkStopBody), required=False),
            errors=(*_CLAIMED, "invalid_request"),
        ),
    ),
    {"WorkItem": schema_of(WorkItem)},
)
