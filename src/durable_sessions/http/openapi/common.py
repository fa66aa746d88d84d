"""Parameters that several nouns share."""

from hashlib import sha256

from durable_sessions.http.openapi.parts import Parameter, in_path, in_query
from durable_sessions.http.openapi.schemas import choice, flag, text, time_or_day, whole
from durable_sessions.schema_notes import OFFSET_PATTERN

ARTIFACT_EXAMPLE = "Hello, artifact.\n"

_OF_PATHS = (
    in_path(
        "session_id",
        text(pattern=r"^[A-Za-z0-9_:@-][A-Za-z0-9._:@-]{0,199}$"),
        "The session: 1 to 200 of `A-Z a-z 0-9 . _ : @ -`, not beginning with a dot.",
        "build-42",
        "invalid_session",
        "session_not_found",
    ),
    in_path("event_id", text(), "The id of the event.", "call-1", "event_not_found"),
    in_path("thread_id", text(), "The thread.", "sthr_review", "thread_not_found"),
    in_path("resource_id", text(), "The resource.", "sesrsc_01", "registered_object_not_found"),
    in_path("agent_id", text(), "The agent.", "agent_01", "registered_object_not_found"),
    in_path("environment_id", text(), "The environment.", "env_01", "registered_object_not_found"),
    in_path("work_id", text(), "The work.", "work_WyJhIiwiYiIsMF0", "registered_object_not_found"),
    in_path("file_id", text(), "The file.", "file_01", "registered_object_not_found"),
    in_path("memory_store_id", text(), "The store.", "memstore_01", "registered_object_not_found"),
    in_path("memory_id", text(), "The memory.", "mem_01", "registered_object_not_found"),
    in_path("memory_version_id", text(), "The version.", "memver_01", "registered_object_not_found"),
    in_path(
        "sha256",
        text(pattern="^[0-9a-f]{64}$"),
        "The SHA-256 of the bytes: 64 lower-case hexadecimal digits.",
        sha256(ARTIFACT_EXAMPLE.encode()).hexdigest(),
        "invalid_request",
    ),
    in_path(
        "path",
        text(minLength=1),
        "The stream: segments separated by `/`, which is part of the path, up to {path_bytes_max:,} bytes "
        "of UTF-8. Empty, `.` and `..` segments and control characters are refused; a first segment that "
        "begins with `__` is the server's.",
        "agents/build-42",
        "invalid_path",
        "stream_not_found",
        "stream_gone",
    ),
    in_path(
        "subscription_id",
        text(minLength=1, maxLength="{subscription_text_max}"),
        "The subscription, a name of your choice.",
        "summaries",
        "invalid_request",
    ),
    in_path("key_id", text(), "The id of the key, not its secret.", "key_01", "key_not_found"),
    in_path("folder", text(), "The folder.", "reference"),
    in_path("page", text(), "The name of a page.", "sessions", "route_not_found"),
)
PATH_PARAMETERS = {one.name: one for one in _OF_PATHS}
"""Parameters of paths by name; an operation has those that its path names."""

FROM_OFFSET = in_query(
    "offset",
    {"anyOf": [{"enum": ["-1", "now"]}, {"type": "string", "pattern": OFFSET_PATTERN}]},
    "Where to begin, inclusive: `-1` is the start, `now` the end, else a saved `Stream-Next-Offset`.",
    "-1",
    "invalid_offset",
)
LIVE = in_query(
    "live",
    choice("long-poll", "sse"),
    "`long-poll` waits for news, `sse` follows as server-sent events. Both need `offset`.",
    default="",
)
ENVELOPE = in_query(
    "envelope",
    text(),
    "The same as the header `Stream-Envelope`, for libraries that read a URL and send no headers.",
    "ai.chunk",
    "invalid_header",
)
CURSOR = in_query("cursor", text(), "The last `Stream-Cursor`, for caches between you and the server.")

_ENDS = {"gt": "after", "gte": "at or after", "lt": "before", "lte": "at or before"}
CREATED_AT = {
    end: in_query(
        f"created_at[{end}]",
        time_or_day(),
        f"Only those created {meaning} this RFC 3339 time or the start of this day, UTC; write `+` as `%2B`.",
        "2026-01-01T00:00:00Z" if end.startswith("g") else "2036-01-01T00:00:00Z",
    )
    for end, meaning in _ENDS.items()
}
"""Filters by the time at which something was stored, by their ends."""
AFTER = in_query(
    "after",
    time_or_day(),
    "Only what happened after this RFC 3339 time, or after the start of this day, UTC. Of what was imported "
    "that is its original time; imported events without one match neither `after` nor `before`.",
    "2026-01-01T00:00:00Z",
)
BEFORE = in_query(
    "before",
    time_or_day(),
    "Only what happened before this RFC 3339 time, or before the start of this day, UTC.",
    "2036-01-01T00:00:00Z",
)
HAPPENED = (AFTER, BEFORE)
"""Filters by the time at which something happened, here or elsewhere."""
TYPE = in_query(
    "type", text(), "Only this type; `agent.*` means all that begin so. May be repeated.", "agent.*"
)


def page_limit(default: int, most: int) -> Parameter:
    """Return the parameter that limits the items of a page."""
    return in_query(
        "limit",
        whole(minimum=1, maximum=most),
        f"Items on a page, 1 to {most:,}; {default:,} if absent.",
        10,
        default=default,
    )


ALL_LIMIT = page_limit(1_000, 1_000)
"""Of what a session has few of: its threads and resources."""
REGISTRY_LIMIT = page_limit(20, 100)
"""Of agents and environments."""

PAGE = in_query("page", text(), "The `next_page` of the page before. Filters and order are sent again.")

INCLUDE_ARCHIVED = in_query("include_archived", flag(), "Archived ones, too; not if absent.", "true")

REGISTRY_PAGE = (REGISTRY_LIMIT, PAGE, INCLUDE_ARCHIVED, CREATED_AT["gte"], CREATED_AT["lte"])
"""The parameters of a list of agents or environments."""

UPDATE = "What is absent stays as it is. Other members are refused; in Anthropic's dialect they are ignored."
"""What is said of the body of an update."""

INCARNATION = in_query(
    "incarnation",
    text(pattern="^[0-9a-f]{12}$"),
    "Only if the session is still this one, as `Session-Incarnation` told: else a read is 410, a change 412.",
)
