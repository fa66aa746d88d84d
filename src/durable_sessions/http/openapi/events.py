"""Events of a session: append, read, follow, and their schemas."""

from dataclasses import replace

from durable_sessions.http.bodies.events import (
    AppendedEvents,
    EventPageAnswer,
    FreeEvent,
    StoredEvent,
    WrappedEvents,
)
from durable_sessions.http.openapi import search, strict_events
from durable_sessions.http.openapi.answer_headers import (
    EVENT_POSITION,
    EVENTS_DIFFER,
    EVENTS_REPEATED,
    IDEMPOTENT_REPLAYED,
    PRODUCER_EPOCH,
    PRODUCER_SEQ,
    STREAM_CLOSED,
    STREAM_EXPIRES_AT,
    STREAM_NEXT_OFFSET,
    STREAM_TTL,
    STREAM_UP_TO_DATE,
)
from durable_sessions.http.openapi.common import CREATED_AT, CURSOR, FROM_OFFSET, LIVE, TYPE
from durable_sessions.http.openapi.error_groups import EVENTS, READING
from durable_sessions.http.openapi.parts import (
    EVENT_STREAM,
    JSON,
    NDJSON,
    Answer,
    Noun,
    Operation,
    in_query,
    json_answer,
    json_body,
)
from durable_sessions.http.openapi.request_headers import (
    ACCEPT,
    ANTHROPIC_VERSION,
    APPENDING,
    IDEMPOTENCY_KEY,
    LAST_EVENT_ID,
    PREFER,
    SESSION_EPOCH,
    SESSION_IMPORT,
)
from durable_sessions.http.openapi.schemas import choice, flag, frame, many, ref, text, whole
from durable_sessions.http.openapi.struct_schemas import schema_of
from durable_sessions.limits import Limits

_POSITION_MAX = 2**40
ORDERS = ("asc", "desc")
"""Orders of events by position; ``score`` is for searches."""
DELTAS = ("agent.message", "agent.thinking")
"""Types of events of which clients may ask for parts."""
PAIRS = in_query(
    "pairs",
    choice("keep"),
    "`keep` never parts a tool call from its result: what is missing is added, with `added_for_pair`.",
    "keep",
    default="",
)
EVENT_DELTAS = in_query(
    "event_deltas[]",
    many(choice(*DELTAS)),
    "Accepted for the SDKs' sake; deltas are never stored, so none are sent.",
)

# Which events a read is for. ``EventRange`` parses what is described here.
_START = in_query("from", whole(maximum=_POSITION_MAX), "From this event on, counted from 0.", 0, default=0)
_TAIL = in_query(
    "tail", whole(maximum="{page_events_max}"), "Only this many of the last events.", 50, default=0
)
_AROUND = in_query(
    "around",
    {"anyOf": [whole(maximum=_POSITION_MAX), text(minLength=1)]},
    "The event with this number or id, and those next to it.",
    1,
    "event_not_found",
    default=0,
)
_AROUND_POSITION = replace(_AROUND, schema=whole(maximum=_POSITION_MAX))
CLIP = in_query(
    "clip",
    whole(minimum=1_024, maximum=1_048_576),
    "Of an event that is stored in more bytes than this: a copy with its long texts cut in the middle, and "
    "with `clipped`. All others are as they are stored. Not with `live`.",
    16_384,
)
LENS = in_query(
    "lens",
    flag(),
    "Whether events that an adapter has stored get a member `lens`, which says in our words what they mean: "
    "its `type` and `content`, or `name` and `input`, and so on. Not with `live` or `q`.",
    "true",
)
_WINDOW = in_query(
    "window",
    whole(maximum="{page_events_max//2}"),
    "With `around`: how many on each side; 10 if absent.",
    10,
    default=10,
)
_LIMIT = in_query(
    "limit",
    whole(minimum=1, maximum="{page_events_max}"),
    "Events on a page, 1 to {page_events_max:,}; 1,000 if absent. A page also ends at {page_bytes_max:,} "
    "bytes. With `q`: 1 to {search_hits_max:,}; 20 if absent.",
    10,
    default=1_000,
)
_FOUND_LIMIT = replace(_LIMIT, schema=whole(minimum=1, maximum="{search_hits_max}"), default=20)
RANGE = (
    FROM_OFFSET,
    _START,
    _TAIL,
    _AROUND,
    _WINDOW,
    in_query(
        "order",
        choice(*ORDERS, "score"),
        "Oldest first if absent; with `q` the best first, which is `score`.",
        "desc",
    ),
    _LIMIT,
    in_query("page", text(), "The `next_page` of the page before."),
    CLIP,
    LENS,
)
"""The parameters that select the events of a read."""


class EventRange:
    """The parameters that select the events of a read, for the parser of a server with these limits."""

    def __init__(self, limits: Limits) -> None:
        self.start, self.tail = _START.within(limits), _TAIL.within(limits)
        self.around, self.window = _AROUND_POSITION.within(limits), _WINDOW.within(limits)
        self.limit, self.found_limit = _LIMIT.within(limits), _FOUND_LIMIT.within(limits)


FRAMES = Answer(
    "The stream: one frame for each event, `id:` its id, `event:` its type, `data:` the event as stored. A "
    "comment is sent at once and when nothing else was for a while.",
    {EVENT_STREAM: frame("`data` is the event.")},
)
_WRAPPED = schema_of(WrappedEvents)
_READ = (STREAM_NEXT_OFFSET, STREAM_UP_TO_DATE, STREAM_CLOSED)
_APPENDED = (
    STREAM_NEXT_OFFSET,
    STREAM_CLOSED,
    IDEMPOTENT_REPLAYED,
    EVENTS_REPEATED,
    EVENTS_DIFFER,
    PRODUCER_EPOCH,
    PRODUCER_SEQ,
)


def page_answer(description: str) -> Answer:
    """Return a page of events, in either format."""
    return Answer(description, {JSON: ref("EventPage"), NDJSON: text("One event per line.")}, _READ)


_FOLLOW = Operation(
    "streamEvents: GET /v1/sessions/{session_id}/events/stream",
    "Follow a session, event by event. As Managed Agents' stream: what happens from now on. With "
    "`offset` or `Last-Event-ID` it replays from there, so that nothing is missed and nothing comes "
    "twice. It ends when the session is closed, or after `session.deleted`. A slow reader slows nobody "
    "and loses nothing.",
    {200: FRAMES},
    (
        FROM_OFFSET,
        in_query(
            "types[]", many(text()), "Only these types; `agent.*` means all that begin so.", ["agent.*"]
        ),
        EVENT_DELTAS,
        LAST_EVENT_ID,
    ),
    errors=("offset_beyond_tail", *READING),
)

NOUN = Noun(
    "Events",
    "The log itself. An append is answered when the events are on disk. All events of a request are stored, "
    "or none. A request holds at most {events_per_request_max:,} events and {append_body_bytes_max:,} bytes.",
    (
        Operation(
            "appendEvents: POST /v1/sessions/{session_id}/events",
            'Append events. The body is `{"events":[…]}`, a list, or one event. A session that is missing '
            'is created, except in Anthropic\'s dialect, where it is 404, the body is `{"events":[…]}`, and '
            "`user.*` events are checked.",
            {
                204: Answer("Durable.", headers=_APPENDED),
                200: json_answer(
                    "Durable; the events as stored, in Anthropic's dialect or with `Prefer: "
                    "return=representation`.",
                    AppendedEvents,
                    *_APPENDED,
                ),
            },
            (ANTHROPIC_VERSION, IDEMPOTENCY_KEY, PREFER, SESSION_IMPORT, *APPENDING, SESSION_EPOCH),
            json_body(
                {"anyOf": [_WRAPPED, _WRAPPED["properties"]["events"], ref("NewEvent")]},
                "Empty only together with `Stream-Closed: true`.",
                required=False,
            ),
            (
                *EVENTS,
                "lease_required",
                "stream_closed",
                "session_archived",
                "content_type_mismatch",
                *READING,
            ),
        ),
        Operation(
            "readEvents: GET /v1/sessions/{session_id}/events",
            "Read events. Begin at one of `offset`, `from`, `tail`, `around` and `page`; at the start if "
            "none is sent. Filters combine. A filtered read looks at {scanned_events_max:,} events at a "
            "time, so that a page may be short and still have a `next_page`. A live read needs `offset` "
            "and takes no filter. With `q` the answer holds what was found instead, the best first; see "
            "Search.",
            {
                200: Answer(
                    "A page of events. With `live=sse`, an event stream in the Durable Streams protocol's "
                    "format: `data` events with a JSON array, each followed by a `control` event.",
                    {
                        JSON: {"anyOf": [ref("EventPage"), ref("FoundEvents"), ref("FoundPositions")]},
                        NDJSON: text("One event per line, with `Accept: application/x-ndjson`."),
                        EVENT_STREAM: frame("With `live=sse`: `event` is `data` or `control`."),
                    },
                    _READ,
                ),
                204: Answer(
                    "With `live=long-poll`: nothing came in time, or nothing can come any more.",
                    headers=_READ,
                ),
            },
            (
                *RANGE,
                TYPE,
                in_query("types[]", many(text()), "The same, as the SDKs spell it.", ["user.message"]),
                *CREATED_AT.values(),
                search.QUERY,
                *search.SCOPES,
                search.FIELDS,
                PAIRS,
                LIVE,
                CURSOR,
                ACCEPT,
            ),
            errors=("offset_beyond_tail", *READING),
        ),
        Operation(
            "headEvents: HEAD /v1/sessions/{session_id}/events",
            "Where a session ends. Does not renew a TTL.",
            {
                200: Answer(
                    "Only headers: the end, whether it is closed, how long it is kept.",
                    headers=(STREAM_NEXT_OFFSET, STREAM_CLOSED, STREAM_TTL, STREAM_EXPIRES_AT),
                )
            },
        ),
        _FOLLOW,
        replace(
            _FOLLOW,
            route="streamSession: GET /v1/sessions/{session_id}/stream",
            said="Follow a session: another name for the same. The same as `/events/stream`.",
        ),
        Operation(
            "getEvent: GET /v1/sessions/{session_id}/events/{event_id}",
            "Read one event.",
            {
                200: json_answer(
                    "The event as stored, or a copy with `clip` or `lens`.", ref("Event"), EVENT_POSITION
                )
            },
            (CLIP, LENS),
            errors=READING,
        ),
    ),
    {
        "NewEvent": {
            "anyOf": [ref("FreeEvent"), ref("StrictEvent")],
            "description": "An event as you send it; its type says which members are checked.",
        },
        "FreeEvent": schema_of(FreeEvent, open_ended=True),
        **strict_events.SCHEMAS,
        "Event": schema_of(StoredEvent, open_ended=True),
        "EventPage": schema_of(EventPageAnswer),
    },
)
