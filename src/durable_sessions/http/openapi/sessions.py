"""Sessions in the description: create, read, change, list, end."""

from durable_sessions.http.bodies.agents import AgentSnapshot
from durable_sessions.http.bodies.deletions import SessionDeleted
from durable_sessions.http.bodies.sessions import NativeSessionBody, NativeUpdateBody
from durable_sessions.http.openapi.common import (
    ANTHROPIC_VERSION,
    CREATED_AT,
    HAPPENED,
    INCLUDE_ARCHIVED,
    PAGE,
    SESSION_ID,
    lifetime,
    page_limit,
)
from durable_sessions.http.openapi.errors import ONE_SESSION, READING, WRITING
from durable_sessions.http.openapi.parts import (
    Call,
    Noun,
    Operation,
    Parameter,
    in_header,
    in_query,
    json_answer,
    json_body,
)
from durable_sessions.http.openapi.schemas import (
    choice,
    free,
    many,
    nullable,
    page,
    ref,
    text,
    whole,
)
from durable_sessions.http.openapi.struct_schemas import StructSchemas
from durable_sessions.limits import Limits
from durable_sessions.sessions.session_object import LIFECYCLES, SessionObject
from durable_sessions.sessions.summary import STATUSES

LIMIT = page_limit(20, 1_000)
ORDER = in_query(
    "order", choice("asc", "desc"), "By time of creation; `desc` if absent.", "asc", default="desc"
)
SORTS = ("created_at", "started_at", "updated_at", "activity")
AGENT_VERSION = in_query("agent_version", whole(maximum=2**31), "Only those of this version of an agent.", 1)
_CREATED = (
    *("invalid_session", "invalid_event", "invalid_agent", "document_too_large", "invalid_json"),
    *("session_exists", "session_gone", "session_not_found", "registered_object_not_found"),
    *("session_too_large", "event_too_large", *READING, *WRITING),
)
"""Errors of the creation of a session."""
_SHOWN = json_answer("The session.", ref("Session"))


def noun(limits: Limits) -> Noun:
    """Return the description of sessions."""
    schemas = StructSchemas(limits)
    return Noun(
        "Sessions",
        "A session is a durable, append-only list of events with a title, metadata and a lifecycle. It comes "
        "into being with `POST`, with `PUT`, or with its first event. A read never creates one.",
        (*_whole(limits), *_one(limits, schemas), *_ends()),
        {
            "Session": schemas.of(SessionObject),
            "AgentSnapshot": schemas.of(AgentSnapshot),
            "NewSession": schemas.of(NativeSessionBody),
            "SessionUpdate": schemas.of(NativeUpdateBody, without=["vault_ids"]),
        },
    )


def sort(limits: Limits) -> Parameter:
    """Return the parameter that sorts a list of sessions by a time."""
    return in_query(
        "sort",
        choice(*SORTS),
        "Which time `order` goes by; `created_at` if absent. Of imported sessions `started_at` "
        "and `activity` are when they happened. Sorted lists look at all sessions, of which "
        f"there may be {limits.sorted_sessions_max:,}.",
        "activity",
        default=SORTS[0],
    )


def _whole(limits: Limits) -> tuple[Operation, ...]:
    return (
        Operation(
            "post",
            "/v1/sessions",
            "createSession",
            "Create a session",
            {
                201: json_answer("Created.", ref("Session")),
                200: json_answer("Created, in Anthropic's dialect.", ref("Session")),
            },
            "The id is made by the server unless the body has one. In Anthropic's dialect `agent` and "
            "`environment_id` are required.",
            (ANTHROPIC_VERSION,),
            json_body(ref("NewSession"), required=False),
            _CREATED,
            "writer",
            (
                Call(
                    "With a title, metadata and a first message",
                    body={
                        "title": "Fix the build",
                        "metadata": {"team": "infra"},
                        "initial_events": [
                            {"type": "user.message", "content": [{"type": "text", "text": "Make it green."}]}
                        ],
                    },
                    status=201,
                ),
                Call("With nothing at all", body={}, status=201),
                Call(
                    "As the official SDKs do",
                    headers={"anthropic-version": "2026-10-21"},
                    body={"agent": "agent_01", "environment_id": "env_01", "title": "Fix the build"},
                ),
            ),
            gives={"session_id": "$response.body#/id"},
        ),
        Operation(
            "get",
            "/v1/sessions",
            "listSessions",
            "List sessions",
            {
                200: json_answer(
                    "A page of sessions, newest first.",
                    page(ref("Session"), prev_page=nullable(text("The page before this one."))),
                )
            },
            "Pages stay right while sessions are added. A page may hold fewer than `limit`, even none, and "
            f"still have a `next_page`: a filtered list looks at {limits.listed_sessions_max:,} sessions at "
            "a time.",
            (
                LIMIT,
                PAGE,
                ORDER,
                sort(limits),
                in_query("q", text(), "Only those whose id, title or metadata contains this.", "build"),
                in_query(
                    "metadata",
                    free(),
                    "Only those with these pairs, as `metadata[team]=infra`.",
                    {"team": "infra"},
                    style="deepObject",
                ),
                in_query(
                    "lifecycle", choice(*LIFECYCLES), "Only those in this phase; may be repeated.", "active"
                ),
                in_query(
                    "statuses[]",
                    many(choice(*STATUSES)),
                    "Only those with one of these statuses; may be repeated.",
                    ["idle"],
                ),
                in_query("agent_id", text(), "Only those of this agent.", "agent_01"),
                AGENT_VERSION,
                INCLUDE_ARCHIVED,
                in_query("deployment_id", text(), "Only those that refer to it."),
                in_query("memory_store_id", text(), "Only those that refer to it."),
                *CREATED_AT.values(),
                *HAPPENED,
            ),
            refusals=("invalid_request", "too_many_to_sort", "too_many_scans"),
            calls=(
                Call("The newest"),
                Call(
                    "Those of a team that mention a word",
                    {"metadata[team]": "infra", "q": "build", "limit": "5"},
                ),
            ),
        ),
    )


def _one(limits: Limits, schemas: StructSchemas) -> tuple[Operation, ...]:
    path = "/v1/sessions/{session_id}"
    return (
        Operation(
            "put",
            path,
            "putSession",
            "Create a session with this id, or confirm it",
            {
                201: json_answer("Created.", ref("Session")),
                200: json_answer("It was there already and agrees with what was sent.", ref("Session")),
            },
            "Safe to repeat. 409 if it exists and differs in something that was sent, or began with other "
            "events. One from before those were kept has `initial_events: ignored`. A fork shares the "
            "events of its source up to `Stream-Fork-Offset`, at no cost, and goes its own way from there.",
            (
                SESSION_ID,
                ANTHROPIC_VERSION,
                *lifetime(limits),
                in_header(
                    "Stream-Forked-From", text(), "Fork this session: its path, `/v1/sessions/{id}`.", None
                ),
                in_header(
                    "Stream-Fork-Offset",
                    text(),
                    "Where the fork begins; the end of the source if absent.",
                    None,
                ),
            ),
            json_body(ref("NewSession"), required=False),
            (
                *_CREATED,
                "invalid_header",
                "invalid_offset",
                "invalid_fork",
                "precondition_failed",
                "content_type_mismatch",
                "fork_too_deep",
            ),
            "writer",
            (
                Call("Confirm", body={}, status=200),
                Call(
                    "With metadata, for an hour",
                    {},
                    {"Stream-TTL": "3600"},
                    {"metadata": {"team": "infra"}},
                    status=201,
                ),
                Call(
                    "A fork of another session",
                    {},
                    {
                        "Stream-Forked-From": "/v1/sessions/build-41",
                        "Stream-Fork-Offset": "0000000000000000_0000000000000001",
                    },
                    status=201,
                ),
            ),
            gives={"session_id": "$request.path.session_id"},
        ),
        Operation(
            "get",
            path,
            "getSession",
            "Read a session",
            {200: _SHOWN},
            "What was said of it and what follows from its events; not the events themselves.",
            (SESSION_ID,),
            refusals=ONE_SESSION,
            head=True,
        ),
        Operation(
            "post",
            path,
            "updateSession",
            "Change title, metadata, tools or budget",
            {200: _SHOWN},
            "Appends a `session.updated` event that says what has changed; nothing if nothing has.",
            (SESSION_ID, ANTHROPIC_VERSION),
            json_body(ref("SessionUpdate"), required=False),
            (*ONE_SESSION, "session_archived", "session_too_large", *WRITING),
            "writer",
            (
                Call(
                    "Change a title, drop a key",
                    body={"title": "Fix the release", "metadata": {"team": None}},
                ),
            ),
        ),
        Operation(
            "delete",
            path,
            "deleteSession",
            "Delete a session",
            {
                200: json_answer(
                    "Gone; open event streams end with `session.deleted`.",
                    schemas.of(SessionDeleted),
                )
            },
            "Its forks keep what they share with it. In Anthropic's dialect a running session is refused.",
            (SESSION_ID, ANTHROPIC_VERSION),
            refusals=(*ONE_SESSION, "session_running", "legal_hold", *WRITING),
            role="writer",
        ),
    )


def _ends() -> tuple[Operation, ...]:
    return (
        Operation(
            "post",
            "/v1/sessions/{session_id}/close",
            "closeSession",
            "Close a session",
            {200: _SHOWN},
            "No more events. Reading goes on for ever, and followers are told that this is the end.",
            (SESSION_ID,),
            refusals=(*ONE_SESSION, "session_archived", "stream_closed", *WRITING),
            role="writer",
        ),
        Operation(
            "post",
            "/v1/sessions/{session_id}/archive",
            "archiveSession",
            "Archive a session",
            {200: _SHOWN},
            "Final: it is terminated, read-only, and left out of lists unless asked for. In Anthropic's "
            "dialect a running session is refused.",
            (SESSION_ID, ANTHROPIC_VERSION),
            refusals=(*ONE_SESSION, "session_running", *WRITING),
            role="writer",
        ),
    )
