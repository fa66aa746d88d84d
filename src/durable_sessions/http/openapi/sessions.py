"""Sessions: create, read, change, list, end, and their schemas."""

from dataclasses import replace

from durable_sessions.http.bodies.agents import AgentSnapshot
from durable_sessions.http.bodies.deletions import SessionDeleted
from durable_sessions.http.bodies.redactions import RedactionAnswer, RedactionBody
from durable_sessions.http.bodies.sessions import NativeSessionBody, NativeUpdateBody
from durable_sessions.http.bodies.work import CloseBody
from durable_sessions.http.openapi.answer_headers import EVENTS_DIFFER, EVENTS_REPEATED, SESSION_INCARNATION
from durable_sessions.http.openapi.common import CREATED_AT, HAPPENED, INCLUDE_ARCHIVED, PAGE, page_limit
from durable_sessions.http.openapi.error_groups import EVENTS, READING, STORING
from durable_sessions.http.openapi.parts import (
    EVENT_STREAM,
    JSON,
    Answer,
    Noun,
    Operation,
    in_query,
    json_answer,
    json_body,
)
from durable_sessions.http.openapi.request_headers import (
    ANTHROPIC_VERSION,
    IDEMPOTENCY_KEY,
    LIFETIME,
    STREAM_FORK_OFFSET,
    STREAM_FORKED_FROM,
)
from durable_sessions.http.openapi.schemas import (
    choice,
    flag,
    frame,
    free,
    many,
    nullable,
    page,
    ref,
    text,
    whole,
)
from durable_sessions.http.openapi.slots import HOLDING, SHOW
from durable_sessions.http.openapi.struct_schemas import schema_of
from durable_sessions.sessions.session_object import LIFECYCLES, SessionObject
from durable_sessions.sessions.summary import STATUSES

LIMIT = page_limit(20, 1_000)
ORDER = in_query(
    "order",
    choice("asc", "desc"),
    "The latest first (`desc`, if absent) or the earliest; by `sort`.",
    "asc",
    default="desc",
)
SORTS = ("created_at", "started_at", "updated_at", "activity")
SORT = in_query(
    "sort",
    choice(*SORTS),
    "Which time `order` goes by; `created_at` if absent. Of imported sessions `started_at` and `activity` "
    "are when they happened. A session that changes between two pages moves.",
    "activity",
    default=SORTS[0],
)
LIVE_LIST = in_query(
    "live",
    choice("sse"),
    "Follow the list instead, without other parameters: server-sent events with the sessions that change.",
    default="",
)
COUNTS = in_query(
    "counts",
    flag(),
    "With `counts` in each session: prompts, tool calls and failures, null if its outline is not there.",
    "true",
)
AGENT_VERSION = in_query("agent_version", whole(maximum=2**31), "Only those of this version of an agent.", 1)
_CREATED = (
    *("invalid_session", "invalid_agent", "document_too_large"),
    *("session_exists", "session_not_found", "registered_object_not_found"),
    *("session_too_large", *EVENTS, *READING),
)
"""Errors of the creation of a session."""
_REPEATS = (EVENTS_REPEATED, EVENTS_DIFFER)
_SHOWN = {200: json_answer("The session.", ref("Session"))}

LEASE = in_query(
    "lease",
    choice("held", "expired", "none"),
    "Only those whose lease is held, or has expired without being released: the runs that died.",
    "expired",
    default="",
)
WAITS_FOR = in_query(
    "waits_for",
    choice("approval"),
    "Only those in which a person is asked: requests for approval that nobody has decided, and calls that "
    "may not run before somebody allows it.",
    "approval",
    default="",
)
DONE = in_query(
    "done",
    choice("true", "false"),
    "Only those with an outcome, all of whose features pass or not. As with `forked_from`, `routed_to`, "
    "`waits_for` and `lease`, the cost is that of the matches.",
    "false",
    default="",
)

NOUN = Noun(
    "Sessions",
    "A session is a durable, append-only list of events with a title, metadata and a lifecycle. It comes "
    "into being with `POST`, with `PUT`, or with its first event. A read never creates one.",
    (
        Operation(
            "createSession: POST /v1/sessions",
            "Create a session. The id is made by the server unless the body has one. In Anthropic's "
            "dialect `agent` and `environment_id` are required.",
            {
                201: json_answer("Created.", ref("Session"), SESSION_INCARNATION, *_REPEATS),
                200: json_answer(
                    "Created, in Anthropic's dialect.", ref("Session"), SESSION_INCARNATION, *_REPEATS
                ),
            },
            (ANTHROPIC_VERSION,),
            json_body(ref("NewSession"), required=False),
            _CREATED,
            gives={"session_id": "$response.body#/id"},
        ),
        Operation(
            "listSessions: GET /v1/sessions",
            "List sessions. Pages stay right while sessions are added. A page may hold fewer than `limit`, "
            "even none, and still have a `next_page`: a filtered list looks at {listed_sessions_max:,} "
            "sessions at a time. `live=sse` tells what changes from now on, without replay: follow first, "
            "then list, and list anew whenever the stream ends.",
            {
                200: Answer(
                    "A page of sessions, newest first. With `live=sse`, an event stream: `sessions` events "
                    "with `changed` (session objects), `gone` (ids) and `more`, at most every "
                    "{live_list_seconds:g} seconds, and a `control` event at once and every "
                    "{sse_heartbeat_seconds_max:g} seconds.",
                    {
                        JSON: page(ref("Session"), prev_page=nullable(text("The page before this one."))),
                        EVENT_STREAM: frame("With `live=sse`: `event` is `sessions` or `control`."),
                    },
                )
            },
            (
                LIVE_LIST,
                LIMIT,
                PAGE,
                ORDER,
                SORT,
                in_query("q", text(), "Only those whose id, title or metadata contains this.", "build"),
                in_query(
                    "metadata",
                    free(),
                    "Only those with all these pairs, as `metadata[team]=infra`; what is no text as JSON, as "
                    "`metadata[tries]=3`. From an index: the cost is that of the matches.",
                    {"team": "infra"},
                    style="deepObject",
                ),
                in_query(
                    "lifecycle", choice(*LIFECYCLES), "Only those in this phase; may be repeated.", "active"
                ),
                in_query("forked_from", text(), "Only forks of this session.", "build-41"),
                in_query("routed_to", text(), "Only those that this principal gets next.", "judge"),
                WAITS_FOR,
                LEASE,
                DONE,
                in_query(
                    "statuses[]",
                    many(choice(*STATUSES)),
                    "Only those with one of these statuses; may be repeated.",
                    ["idle"],
                ),
                in_query("agent_id", text(), "Only those of this agent.", "agent_01"),
                AGENT_VERSION,
                COUNTS,
                INCLUDE_ARCHIVED,
                in_query("deployment_id", text(), "Only those that refer to it."),
                in_query("memory_store_id", text(), "Only those that refer to it."),
                *CREATED_AT.values(),
                *HAPPENED,
                HOLDING,
                SHOW,
            ),
            errors=("too_many_scans",),
        ),
        Operation(
            "putSession: PUT /v1/sessions/{session_id}",
            "Create a session with this id, or confirm it. Safe to repeat. 409 if it exists and differs in "
            "something that was sent, or began with other events. One from before those were kept has "
            "`initial_events: ignored`. A fork shares the events of its source up to `Stream-Fork-Offset`, "
            "at no cost, and goes its own way from there.",
            {
                201: json_answer("Created.", ref("Session"), *_REPEATS),
                200: json_answer(
                    "It was there already and agrees with what was sent.", ref("Session"), *_REPEATS
                ),
            },
            (
                ANTHROPIC_VERSION,
                *LIFETIME,
                replace(STREAM_FORKED_FROM, text="Fork this session: its path, `/v1/sessions/{id}`."),
                STREAM_FORK_OFFSET,
            ),
            json_body(ref("NewSession"), required=False),
            (*_CREATED, "precondition_failed", "content_type_mismatch"),
            gives={"session_id": "$request.path.session_id"},
        ),
        Operation(
            "getSession: GET /v1/sessions/{session_id}",
            "Read a session. What was said of it and what follows from its events; not the events "
            "themselves.",
            _SHOWN,
            head=True,
        ),
        Operation(
            "updateSession: POST /v1/sessions/{session_id}",
            "Change title, metadata, tools or budget. Appends a `session.updated` event that says what has "
            "changed; nothing if nothing has.",
            _SHOWN,
            (ANTHROPIC_VERSION,),
            json_body(ref("SessionUpdate"), required=False),
            ("session_archived", "session_too_large"),
        ),
        Operation(
            "deleteSession: DELETE /v1/sessions/{session_id}",
            "Delete a session. Its forks keep what they share with it. In Anthropic's dialect a running "
            "session is refused.",
            {200: json_answer("Gone; open event streams end with `session.deleted`.", SessionDeleted)},
            (ANTHROPIC_VERSION,),
            errors=("session_running", "legal_hold"),
        ),
        Operation(
            "closeSession: POST /v1/sessions/{session_id}/close",
            "Close a session. No more events. Reading goes on for ever, and followers are told that this "
            "is the end. With a body the session ends with that outcome, and is terminated.",
            _SHOWN,
            (IDEMPOTENCY_KEY,),
            json_body(schema_of(CloseBody), required=False),
            errors=("session_archived", "stream_closed"),
        ),
        Operation(
            "redactEvents: POST /v1/sessions/{session_id}/redact",
            "Redact events. They are gone from every answer at once, in all forks, in searches and exports, "
            "and from log and bucket within a day. What stays is the envelope, with `redacted`: by which "
            "event, when, why, the SHA-256 and the size. Inherited events are redacted where they lie, for "
            "the source and all its forks. Closed and archived sessions can be redacted, too. What was "
            "redacted before is answered again.",
            {200: json_answer("They are gone.", RedactionAnswer)},
            body=json_body(RedactionBody),
            errors=("event_not_found", "artifact_not_found", "legal_hold", *STORING, *READING),
            role="admin",
        ),
        Operation(
            "archiveSession: POST /v1/sessions/{session_id}/archive",
            "Archive a session. Final: it is terminated, read-only, and left out of lists unless asked "
            "for. In Anthropic's dialect a running session is refused.",
            _SHOWN,
            (ANTHROPIC_VERSION,),
            errors=("session_running",),
        ),
    ),
    {
        "Session": schema_of(SessionObject),
        "AgentSnapshot": schema_of(AgentSnapshot),
        "NewSession": schema_of(NativeSessionBody),
        "SessionUpdate": schema_of(NativeUpdateBody, without=["vault_ids"]),
    },
)
