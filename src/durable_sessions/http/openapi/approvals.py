"""Approvals of all sessions: their operation and schemas."""

from durable_sessions.http.bodies.approvals import ApprovalsAnswer
from durable_sessions.http.openapi.common import PAGE
from durable_sessions.http.openapi.error_groups import READING
from durable_sessions.http.openapi.parts import Noun, Operation, in_query, json_answer
from durable_sessions.http.openapi.schemas import choice, ref, whole
from durable_sessions.http.openapi.struct_schemas import schema_of

STATE = in_query(
    "state",
    choice("pending", "decided"),
    "What waits for a decision (`pending`, if absent), or what was decided.",
    "pending",
    default="pending",
)
LIMIT = in_query(
    "limit",
    whole(minimum=1, maximum=100),
    "Sessions on a page, each with all that it asks; 20 if absent.",
    20,
    default=20,
)

NOUN = Noun(
    "Approvals",
    "What a person is asked, over all sessions: requests for approval, and calls that may not run before "
    "somebody allows it.",
    (
        Operation(
            "listApprovals: GET /v1/approvals",
            "List what waits for a person, or what was decided. What waits: the session that changed least "
            "recently first, of each its oldest request first; the cost is that of the matches. What was "
            "decided: the session with the newest decision first, of each the 20 newest, found by search.",
            {200: json_answer("A page of requests or decisions.", ref("Approvals"))},
            (STATE, LIMIT, PAGE),
            errors=("search_unavailable", "too_many_scans", "view_unavailable", *READING),
            head=True,
        ),
    ),
    {"Approvals": schema_of(ApprovalsAnswer)},
)
