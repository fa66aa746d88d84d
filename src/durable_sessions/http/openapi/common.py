"""Parameters and headers that several nouns share."""

from durable_sessions.http.openapi.parts import Parameter, in_header, in_path, in_query
from durable_sessions.http.openapi.schemas import choice, flag, text, time, whole
from durable_sessions.limits import Limits
from durable_sessions.schema_notes import OFFSET_EXAMPLE, OFFSET_PATTERN

SESSION = "build-42"
STREAM = "agents/build-42"
SESSION_ID = in_path(
    "session_id",
    text(pattern=r"^[A-Za-z0-9_:@-][A-Za-z0-9._:@-]{0,199}$"),
    "The session: 1 to 200 of `A-Z a-z 0-9 . _ : @ -`, not beginning with a dot.",
    SESSION,
)

ANTHROPIC_VERSION = in_header(
    "anthropic-version",
    text(),
    "With this header the request speaks Anthropic's dialect: it is checked as strictly, and answered, as "
    "Managed Agents would. The official SDKs send it by themselves.",
)

FROM_OFFSET = in_query(
    "offset",
    {"anyOf": [{"enum": ["-1", "now"]}, {"type": "string", "pattern": OFFSET_PATTERN}]},
    "Where to begin, inclusive: `-1` is the start, `now` the end, else a saved `Stream-Next-Offset`.",
    "-1",
)

LIVE = in_query(
    "live",
    choice("long-poll", "sse"),
    "`long-poll` waits for news, `sse` follows as server-sent events. Both need `offset`.",
    default="",
)

CURSOR = in_query("cursor", text(), "The last `Stream-Cursor`, for caches between you and the server.")

CLOSED = in_header(
    "Stream-Closed",
    text(),
    "`true` closes with this request; a body is then optional. Any other value counts as absent.",
)

IF_MATCH = in_header(
    "If-Match",
    text(),
    'The expected end, as `"<Stream-Next-Offset>"`, or of a session its `"<Session-Incarnation>"`: nothing '
    "is changed if it is another (412). `*` fits whatever is there.",
    f'"{OFFSET_EXAMPLE}"',
)


def appending(limits: Limits) -> tuple[Parameter, ...]:
    """Return the headers of an append."""
    most = limits.producer_number_max
    return (
        in_header(
            "Producer-Id",
            text(minLength=1, maxLength=limits.producer_id_bytes_max),
            f"Who appends, for exactly-once. Up to {limits.producer_id_bytes_max:,} bytes. Send all three or "
            "none.",
            "worker-7",
        ),
        in_header(
            "Producer-Epoch",
            whole(maximum=most),
            "Grows when a producer is started anew, and fences off the one before it (403).",
            "0",
        ),
        in_header(
            "Producer-Seq",
            whole(maximum=most),
            "Numbers the appends of an epoch from 0. A repeat is answered and not written again; a gap is "
            "409.",
            "0",
        ),
        in_header(
            "Stream-Seq",
            text(minLength=1, maxLength=limits.stream_seq_bytes_max),
            f"Must be greater, bytewise, than the last one (409). Up to {limits.stream_seq_bytes_max:,} "
            "bytes.",
        ),
        IF_MATCH,
        CLOSED,
    )


APPENDED_REFUSALS = (
    "invalid_header",
    "invalid_offset",
    "invalid_json",
    "new_epoch_sequence",
    "stale_epoch",
    "stream_closed",
    "sequence_conflict",
    "producer_gap",
    "too_many_producers",
    "precondition_failed",
)
"""The error codes for bad headers or a bad body of an append."""


def lifetime(limits: Limits) -> tuple[Parameter, ...]:
    """Return the headers for TTL and expiry."""
    return (
        in_header(
            "Stream-TTL",
            whole(maximum=limits.ttl_seconds_max),
            "Seconds without a read or a write after which it is removed. Not together with "
            "`Stream-Expires-At`.",
            "3600",
        ),
        in_header(
            "Stream-Expires-At",
            time(),
            "When it is removed, as an RFC 3339 time.",
            "2036-01-31T12:00:00Z",
        ),
    )


_ENDS = {"gt": "after", "gte": "at or after", "lt": "before", "lte": "at or before"}
CREATED_AT = {
    end: in_query(
        f"created_at[{end}]",
        text(format="date-time"),
        f"Only those created {meaning} this RFC 3339 time; write `+` as `%2B`.",
        "2026-01-01T00:00:00Z" if end.startswith("g") else "2036-01-01T00:00:00Z",
    )
    for end, meaning in _ENDS.items()
}
"""Filters by the time at which something was stored, by their ends."""
AFTER = in_query(
    "after",
    text(format="date-time"),
    "Only what happened after this RFC 3339 time. Of what was imported that is its original time.",
    "2026-01-01T00:00:00Z",
)
BEFORE = in_query(
    "before",
    text(format="date-time"),
    "Only what happened before this RFC 3339 time.",
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

HEADERS = {
    "request-id": "The name of the request; log lines and the audit record refer to it.",
    "Stream-Next-Offset": "The position behind what was answered: where to go on.",
    "Stream-Up-To-Date": "`true` if the answer reaches the end at this moment.",
    "Stream-Closed": "`true` if nothing more can come.",
    "Stream-Cursor": "Send it as `cursor` with the next long-poll.",
    "Stream-TTL": "Seconds without use after which it is removed.",
    "Stream-Expires-At": "When it is removed.",
    "Stream-SSE-Data-Encoding": "`base64` if the data events are encoded so.",
    "Producer-Epoch": "The producer's current epoch.",
    "Producer-Seq": "The highest number accepted of the producer.",
    "Producer-Expected-Seq": "The number that would have been accepted.",
    "Producer-Received-Seq": "The number that was sent.",
    "Session-Incarnation": "Tells the session from others that had its id.",
    "Events-Repeated": "Which events of the request, counted from 0, were there before: `0,2,5-9`. "
    "It may end with `...`.",
    "Events-Differ": "Which of these are others than those that were there, which stay.",
    "Idempotent-Replayed": "`true` if this was carried out before and nothing was written now.",
    "x-should-retry": "`false`: trying again will not help; the official SDKs obey it.",
    "Retry-After": "Seconds to wait before trying again.",
    "Allow": "The methods that are answered here.",
    "WWW-Authenticate": "`Bearer`.",
    "Location": "The URL of what was created.",
    "ETag": "Names these bytes; send it as `If-None-Match`.",
    "Content-Range": "Which bytes these are, of how many.",
    "Accept-Ranges": "`bytes`.",
    "Access-Control-Allow-Methods": "The methods that pages of other origins may use.",
    "Access-Control-Allow-Headers": "The headers that pages of other origins may send.",
}
"""Answer headers by name, with their meaning."""
