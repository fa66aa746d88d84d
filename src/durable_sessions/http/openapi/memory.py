"""Memory: its operations."""

from durable_sessions.http.bodies.memory import (
    MemoryEntries,
    MemoryHistory,
    MemoryScopes,
    RecallBody,
    Recalled,
)
from durable_sessions.http.openapi.common import PAGE
from durable_sessions.http.openapi.error_groups import READING, WRITING
from durable_sessions.http.openapi.parts import Noun, Operation, in_query, json_answer, json_body
from durable_sessions.http.openapi.request_headers import IDEMPOTENCY_KEY, SESSION_EPOCH
from durable_sessions.http.openapi.schemas import text, whole
from durable_sessions.http.openapi.struct_schemas import schema_of
from durable_sessions.limits import DEFAULT_LIMITS

SCOPE_PATTERN = r"^(user|agent|project|workflow|store):[A-Za-z0-9._@/-]{1,200}$"
SCOPE = in_query(
    "scope",
    text(pattern=SCOPE_PATTERN),
    "The scope: `user:`, `agent:`, `project:`, `workflow:` or `store:` and 1 to 200 of "
    "`A-Z a-z 0-9 . _ @ / -`. One in which nothing was written is empty.",
    "project:calc",
)
KEY = in_query("key", text(minLength=1, maxLength="{memory_key_max}"), "Only the entry of this key.", "sum")
QUERY = in_query(
    "q",
    text(),
    "Only entries in which these words are found, the best first; the syntax is that of a search. "
    "`name:failure_pattern` finds those of a kind.",
    "boundary",
    "invalid_query",
    "search_unavailable",
    "too_many_scans",
)
AT = in_query(
    "at",
    whole(minimum=0, maximum=10**13),
    "As of this position of the scope: what a read saw that names it. Now if absent.",
    1,
)
LIMIT = in_query(
    "limit",
    whole(minimum=1, maximum=DEFAULT_LIMITS.memory_page_max),
    "Entries, records or scopes on a page; 100 if absent.",
    10,
    default=100,
)
FROM = in_query(
    "from",
    whole(minimum=0, maximum=10**13),
    "The position to begin with; beyond the end is 400.",
    0,
    default=0,
)

NOUN = Noun(
    "Memory",
    "What sessions leave for later ones, with the evidence for it. A scope is a log of its own: an event "
    "`ds.memory.written` appends to it, `ds.memory.rolled_back` takes a write back, and `ds.memory.read` "
    "says who was told what, and for what. One entry is live for each key: the newest write that was not "
    "rolled back. What is acknowledged is in the next read and the next search. A scope takes "
    "{memory_records_per_scope_max:,} records of {memory_bytes_per_scope_max:,} bytes in all.",
    (
        Operation(
            "readMemory: GET /v1/memory",
            "Read a scope: the entry of a key, those in which words are found, or all, the newest first. "
            "Reading in this way leaves no trace; `recall` does.",
            {200: json_answer("The entries.", MemoryEntries)},
            (SCOPE, KEY, QUERY, AT, LIMIT, PAGE),
            errors=READING,
        ),
        Operation(
            "readMemoryLog: GET /v1/memory/log",
            "The history of a scope: every write, read and roll-back, in order.",
            {200: json_answer("The records.", MemoryHistory)},
            (SCOPE, FROM, LIMIT, PAGE),
            errors=READING,
        ),
        Operation(
            "listMemoryScopes: GET /v1/memory/scopes",
            "The scopes of the workspace, those that were begun last first.",
            {200: json_answer("The scopes.", MemoryScopes)},
            (LIMIT, PAGE),
            errors=("too_many_scans", *READING),
        ),
        Operation(
            "recallMemory: POST /v1/sessions/{session_id}/recall",
            "Read a scope for a session, and record in both what was returned, and for what. Nothing found "
            "is recorded, too.",
            {200: json_answer("The event, and the entries as of its `at`.", Recalled)},
            (IDEMPOTENCY_KEY, SESSION_EPOCH),
            json_body(schema_of(RecallBody)),
            (
                "invalid_query",
                "search_unavailable",
                "too_many_scans",
                "lease_lost",
                "stream_closed",
                "session_archived",
                "idempotency_mismatch",
                "memory_scope_full",
                *WRITING,
                *READING,
            ),
        ),
    ),
)
