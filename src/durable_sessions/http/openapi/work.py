"""The work on a session: its state, whose turn it is, and what is handed over."""

from dataclasses import replace

from durable_sessions.http.bodies.work import (
    AdoptBody,
    AdoptedBranch,
    HandoffFiles,
    ReleaseBody,
    ReleasedLease,
    RenewBody,
    RenewedLease,
    WakeBody,
    WokenSession,
)
from durable_sessions.http.openapi.error_groups import READING
from durable_sessions.http.openapi.parts import (
    JSON,
    TEXT,
    Answer,
    Noun,
    Operation,
    in_query,
    json_answer,
    json_body,
)
from durable_sessions.http.openapi.request_headers import IDEMPOTENCY_KEY, SESSION_EPOCH
from durable_sessions.http.openapi.schemas import choice, many, ref, text, whole
from durable_sessions.http.openapi.struct_schemas import schema_of
from durable_sessions.sessions.graph import handoff
from durable_sessions.sessions.graph.context import ContextItem, ContextPreamble, SessionContext
from durable_sessions.sessions.graph.difference import SessionDifference
from durable_sessions.sessions.graph.state import SessionState

AT = in_query(
    "at",
    text(pattern=r"^(\d{1,13}|\d{16}_\d{16})$"),
    "As of this position (after this many events) or offset; the end if absent.",
    2,
    "offset_beyond_tail",
    "invalid_offset",
)
FILES = (handoff.FEATURES, handoff.PROGRESS, handoff.INIT, handoff.HANDOFF, *handoff.ALIASES)
FILE = in_query("file", choice(*FILES), "Only this file, as it is.", handoff.HANDOFF, default="")
BUDGET_TOKENS = in_query(
    "budget_tokens",
    whole(minimum="{context_tokens_min}", maximum="{context_tokens_max}"),
    "How many tokens there are: bytes of the JSON divided by 4.",
    8_000,
    default=100_000,
)
SEE = in_query("see", choice("all"), "Everything, also what the route leaves out.", "all", default="")
_STOPPED = ("session_paused", "approval_pending", "budget_exceeded")
_ENDED = ("stream_closed", "session_archived")

_CONTEXT = schema_of(SessionContext)
_CONTEXT["properties"]["preamble"] = ref("ContextPreamble")
_CONTEXT["properties"]["items"] = many(schema_of(ContextItem))

NOUN = Noun(
    "Work",
    "A session is also a unit of work. A worker wakes it under a lease, and is fenced as soon as another one "
    "does; the state says what is to be done, what is known, what waits, and whether all of it was judged to "
    "be done. It is folded from the events, so that it can be asked for at any of them.",
    (
        Operation(
            "getState: GET /v1/sessions/{session_id}/state",
            "The state of a session. Lists hold the newest {state_list_max:,} entries, totals count all.",
            {200: json_answer("The state.", ref("SessionState"))},
            (AT,),
            errors=READING,
        ),
        Operation(
            "getContext: GET /v1/sessions/{session_id}/context",
            "What a model should see next. The preamble is always whole: goal, facts, outcome, pending "
            "approvals, and the checkpoint of the last reset. The items are the newest events that fit into "
            "the budget, and at most {context_bytes_max:,} bytes; summaries stand in place of compacted "
            "ranges. A tool call and its results are in together or out together.",
            {200: json_answer("The context.", ref("SessionContext"))},
            (
                BUDGET_TOKENS,
                in_query(
                    "q",
                    text(),
                    "Give a quarter of the room to events that match these words, wherever they are.",
                    "timeout",
                    "invalid_query",
                    "search_unavailable",
                ),
                AT,
                in_query(
                    "types",
                    text(),
                    "Only these types, separated by commas or repeated; `agent.*` means all that begin so. "
                    "All but `span.*`, `session.*` and `ds.*` if absent.",
                    "user.message,agent.*",
                ),
                SEE,
            ),
            errors=("context_too_small", *READING),
        ),
        Operation(
            "getHandoff: GET /v1/sessions/{session_id}/handoff",
            "What a session hands over to the next worker, as files.",
            {
                200: Answer(
                    "The files; or the one that was asked for.",
                    {JSON: schema_of(HandoffFiles), TEXT: text()},
                )
            },
            (FILE, AT),
            errors=READING,
        ),
        Operation(
            "getDiff: GET /v1/sessions/{session_id}/diff",
            "How two sessions differ, such as a fork and its source: what each did behind the events that "
            "they share, and the facts and verdicts that are not the same. On a server with several "
            "partitions the other session is found if both have a common source.",
            {200: json_answer("The differences.", ref("SessionDifference"))},
            (
                replace(in_query("with", text(), "The other session.", "build-42-branch"), required=True),
                AT,
                replace(AT, name="with_at", text="The same, of the other session.", example=1),
            ),
            errors=READING,
        ),
        Operation(
            "adoptBranch: POST /v1/sessions/{session_id}/adopt",
            "Take over the durable tier of a fork: facts that changed there since the fork, verdicts given "
            "there, artifacts attached there. `ds.adopted` says what was taken; transcripts are never "
            "merged. A fact that both sides have changed, to different values, is a conflict unless "
            "`on_conflict` says whose counts.",
            {200: json_answer("It was taken over.", AdoptedBranch)},
            (IDEMPOTENCY_KEY, SESSION_EPOCH),
            json_body(schema_of(AdoptBody)),
            (
                "not_a_fork",
                "adopt_conflict",
                "lease_lost",
                "too_many_facts",
                "event_too_large",
                "offset_beyond_tail",
                "invalid_offset",
                *_ENDED,
                *READING,
            ),
        ),
        Operation(
            "wakeSession: POST /v1/sessions/{session_id}/wake",
            "Wake a session. Its epoch is raised, so that a worker that had it before is fenced. The same "
            "principal may always take over from itself. Unfinished calls come with advice: nothing is run "
            "again blindly.",
            {200: json_answer("The session is yours.", WokenSession)},
            (),
            json_body(schema_of(WakeBody), required=False),
            (
                *_ENDED,
                *_STOPPED,
                "not_routed",
                "gate_closed",
                "session_claimed",
                "permission_error",
                *READING,
            ),
        ),
        Operation(
            "renewLease: POST /v1/sessions/{session_id}/renew",
            "Renew the lease. Appends with `Session-Epoch` do so, too.",
            {200: json_answer("It has its full time again.", RenewedLease)},
            (),
            json_body(schema_of(RenewBody)),
            ("lease_lost", "heartbeat_precondition_failed"),
        ),
        Operation(
            "releaseLease: POST /v1/sessions/{session_id}/release",
            "Release the lease. Anybody may wake the session now.",
            {200: json_answer("The lease is over.", ReleasedLease)},
            (IDEMPOTENCY_KEY, SESSION_EPOCH),
            json_body(schema_of(ReleaseBody)),
            ("lease_lost", *_ENDED),
        ),
    ),
    {
        "SessionState": schema_of(SessionState),
        "SessionContext": _CONTEXT,
        "ContextPreamble": schema_of(ContextPreamble),
        "SessionDifference": schema_of(SessionDifference),
    },
)
