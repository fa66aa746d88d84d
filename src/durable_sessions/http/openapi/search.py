"""Search: its operation and schemas."""

from durable_sessions.http.bodies.search import (
    FoundEventsAnswer,
    FoundPositionsAnswer,
    FoundSessionsAnswer,
    HitMember,
)
from durable_sessions.http.openapi.common import CREATED_AT, HAPPENED, PAGE, TYPE
from durable_sessions.http.openapi.error_groups import READING
from durable_sessions.http.openapi.parts import Noun, Operation, in_query, json_answer
from durable_sessions.http.openapi.schemas import choice, free, ref, text, whole
from durable_sessions.http.openapi.struct_schemas import schema_of

QUERY = in_query(
    "q",
    text(),
    'What to search for: words, `"a phrase"`, `+must`, `-not`, `prefix*`, `type:agent.tool_use`, '
    "`name:bash`, `is:error`. A misspelt filter is refused; whatever else does not fit is taken as plain "
    "words.",
    "green",
    "invalid_query",
    "search_unavailable",
    "too_many_scans",
)
LIMIT = in_query("limit", whole(minimum=1, maximum=100), "Sessions on a page; 10 if absent.", 10, default=10)
HITS = in_query("hits", whole(minimum=1, maximum=20), "Hits of each session; 3 if absent.", 3, default=3)
ROLES = ("user", "agent", "tool", "system", "error")
SCOPES = (
    in_query("role", choice(*ROLES), "With `q`: only what they said. May be repeated.", "agent"),
    *HAPPENED,
)
FIELDS = in_query(
    "fields",
    choice("positions"),
    "With `q`: only where the hits are, from the index alone. All of them, ascending, up to 10,000.",
    default="",
)

NOUN = Noun(
    "Search",
    "What is acknowledged is found by the next search. Ranking is BM25 over the text of events: messages, "
    "thinking, tool names, the strings in tool inputs and outputs, errors. Identifiers and paths match by "
    "their parts: `auth` finds `checkAuthToken`, `check_auth_token` and `auth/token.py`. Inherited events "
    "of forks count once. A search waits for what is not indexed yet, at most {search_wait_seconds_max:g} "
    "seconds; then `up_to_date` is false and `indexed_through` says how far it reaches. In one session: "
    "`GET /v1/sessions/{session_id}/events?q=…`. Pages of one search show one point in time as long as the "
    "server remembers it.",
    (
        Operation(
            "search: GET /v1/search",
            "Search all sessions. Hits are grouped by session.",
            {200: json_answer("Sessions with their best hits, the best first.", ref("FoundSessions"))},
            (
                QUERY,
                LIMIT,
                HITS,
                PAGE,
                in_query(
                    "session", text(), "Only in this session, what it inherits included. May be repeated."
                ),
                in_query("agent", text(), "Only in sessions of the agent with this id."),
                in_query(
                    "metadata",
                    free(),
                    "Only in sessions with these pairs in their metadata, as `metadata[team]=infra`.",
                    style="deepObject",
                ),
                in_query("order", choice("score"), "By score, the only order of hits in several sessions."),
                TYPE,
                *SCOPES,
                *CREATED_AT.values(),
            ),
            errors=("invalid_session", "session_not_found", *READING),
            head=True,
        ),
    ),
    {
        "Hit": {
            "allOf": [ref("Event"), schema_of(HitMember, open_ended=True)],
            "description": "An event as it is stored, and why it was found.",
        },
        "FoundEvents": schema_of(FoundEventsAnswer),
        "FoundPositions": schema_of(FoundPositionsAnswer),
        "FoundSessions": schema_of(FoundSessionsAnswer),
    },
)
