"""Events in the description: the envelope, append, read, follow."""

from dataclasses import replace

from durable_sessions.http.bodies.events import (
    AppendedEvents,
    EventPageAnswer,
    NewEvent,
    StoredEvent,
    WrappedEvents,
)
from durable_sessions.http.openapi import search
from durable_sessions.http.openapi.common import (
    ANTHROPIC_VERSION,
    APPENDED_REFUSALS,
    CREATED_AT,
    CURSOR,
    FROM_OFFSET,
    LIVE,
    SESSION_ID,
    TYPE,
    appending,
)
from durable_sessions.http.openapi.errors import ONE_SESSION, READING, WRITING
from durable_sessions.http.openapi.parts import (
    EVENT_STREAM,
    JSON,
    NDJSON,
    Answer,
    Call,
    Noun,
    Operation,
    Parameter,
    in_header,
    in_path,
    in_query,
    json_answer,
    json_body,
)
from durable_sessions.http.openapi.schemas import Schema, choice, frame, many, ref, text, whole
from durable_sessions.http.openapi.struct_schemas import StructSchemas
from durable_sessions.limits import Limits

_PATH = "/v1/sessions/{session_id}/events"
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
_LAST_EVENT_ID = in_header(
    "Last-Event-ID",
    text(),
    "Replay from behind this event, whatever `offset` says: browsers send it when they connect again.",
)
EVENT_DELTAS = in_query(
    "event_deltas[]",
    many(choice(*DELTAS)),
    "Accepted for the SDKs' sake; deltas are never stored, so none are sent.",
)
FRAMES = Answer(
    "The stream: one frame for each event, `id:` its id, `event:` its type, `data:` the event as stored. A "
    "comment is sent at once and when nothing else was for a while.",
    {EVENT_STREAM: frame("`data` is the event.")},
)


def _body(schemas: StructSchemas) -> Schema:
    wrapped = schemas.of(WrappedEvents)
    return {"anyOf": [wrapped, wrapped["properties"]["events"], ref("NewEvent")]}


def noun(limits: Limits) -> Noun:
    """Return the description of events."""
    schemas = StructSchemas(limits)
    return Noun(
        "Events",
        "The log itself. An append is answered when the events are on disk. All events of a request are "
        f"stored, or none. A request holds at most {limits.events_per_request_max:,} events and "
        f"{limits.append_body_bytes_max:,} bytes.",
        (_append(limits, schemas), _read(limits), _head(), *_streams(), _one()),
        {
            "NewEvent": schemas.of(NewEvent, open_ended=True),
            "Event": schemas.of(StoredEvent, open_ended=True),
            "EventPage": schemas.of(EventPageAnswer),
        },
    )


def _append(limits: Limits, schemas: StructSchemas) -> Operation:
    message = {"type": "user.message", "content": [{"type": "text", "text": "Make it green."}]}
    call = {"type": "agent.tool_use", "id": "call-1", "name": "bash", "input": {"command": "make test"}}
    result = {
        "type": "agent.tool_result",
        "tool_use_id": "call-1",
        "content": [{"type": "text", "text": "ok"}],
    }
    headers = (
        "Stream-Next-Offset",
        "Stream-Closed",
        "Idempotent-Replayed",
        "Events-Repeated",
        "Events-Differ",
        "Producer-Epoch",
        "Producer-Seq",
    )
    return Operation(
        "post",
        _PATH,
        "appendEvents",
        "Append events",
        {
            204: Answer("Durable.", headers=headers),
            200: json_answer(
                "Durable; the events as stored, in Anthropic's dialect or with `Prefer: "
                "return=representation`.",
                schemas.of(AppendedEvents),
                *headers,
            ),
        },
        'The body is `{"events":[…]}`, a list, or one event. A session that is missing is created, except in '
        'Anthropic\'s dialect, where it is 404, the body is `{"events":[…]}`, and `user.*` events are '
        "checked.",
        (
            SESSION_ID,
            ANTHROPIC_VERSION,
            in_header(
                "Idempotency-Key",
                text(minLength=1, maxLength=limits.idempotency_key_max),
                "Names this request. Sent again with the same body it writes nothing and is answered as the "
                f"first time; with another body it is 409. Up to {limits.idempotency_key_max} bytes.",
                "6f1d0c5e",
            ),
            in_header("Prefer", text(), "`return=representation` answers with the events as stored."),
            *appending(limits),
        ),
        json_body(_body(schemas), "Empty only together with `Stream-Closed: true`.", required=False),
        (
            *ONE_SESSION,
            *APPENDED_REFUSALS,
            "invalid_event",
            "session_archived",
            "idempotency_mismatch",
            "content_type_mismatch",
            "event_too_large",
            *READING,
            *WRITING,
        ),
        "writer",
        (
            Call("One event", body=message, status=204),
            Call("A list", body=[call, result], status=204),
            Call(
                "Wrapped, with the stored events in the answer",
                headers={"Prefer": "return=representation"},
                body={"events": [{"type": "app.note", "text": "a type of your own"}]},
            ),
            Call("Safe to repeat", headers={"Idempotency-Key": "6f1d0c5e"}, body=message, status=204),
            Call(
                "Exactly once, numbered by a producer",
                headers={"Producer-Id": "worker-7", "Producer-Epoch": "0", "Producer-Seq": "0"},
                body=message,
                status=204,
            ),
            Call("The last event", headers={"Stream-Closed": "true"}, body={"type": "app.done"}, status=204),
            Call(
                "As the official SDKs do",
                headers={"anthropic-version": "2026-10-21"},
                body={"events": [message]},
            ),
        ),
    )


class EventRange:
    """The parameters that select the events of a read, on a server with these limits."""

    def __init__(self, limits: Limits) -> None:
        most = limits.page_events_max
        self.start = in_query(
            "from", whole(maximum=_POSITION_MAX), "From this event on, counted from 0.", 0, default=0
        )
        self.tail = in_query("tail", whole(maximum=most), "The last so many.", 50, default=0)
        self.around = in_query(
            "around",
            whole(maximum=_POSITION_MAX),
            "The event with this number and those next to it.",
            1,
            default=0,
        )
        self.window = in_query(
            "window",
            whole(maximum=most // 2),
            "With `around`: how many on each side; 10 if absent.",
            10,
            default=10,
        )
        self.limit = in_query(
            "limit",
            whole(minimum=1, maximum=most),
            f"Events on a page, 1 to {most:,}; 1,000 if absent. A page also ends at "
            f"{limits.page_bytes_max:,} bytes. With `q`: 1 to {limits.search_hits_max:,}; 20 if absent.",
            10,
            default=1_000,
        )
        self.found_limit = replace(
            self.limit, schema=whole(minimum=1, maximum=limits.search_hits_max), default=20
        )

    def described(self) -> tuple[Parameter, ...]:
        """Return all of them, with the order and the page."""
        order = in_query(
            "order",
            choice(*ORDERS, "score"),
            "Oldest first if absent; with `q` the best first, which is `score`.",
            "desc",
        )
        page = in_query("page", text(), "The `next_page` of the page before.")
        return (FROM_OFFSET, self.start, self.tail, self.around, self.window, order, self.limit, page)


def page_answer(description: str) -> Answer:
    """Return a page of events, in either format."""
    return Answer(
        description,
        {JSON: ref("EventPage"), NDJSON: text("One event per line.")},
        ("Stream-Next-Offset", "Stream-Up-To-Date", "Stream-Closed"),
    )


def _read(limits: Limits) -> Operation:
    return Operation(
        "get",
        _PATH,
        "readEvents",
        "Read events",
        {
            200: Answer(
                "A page of events. With `live=sse`, an event stream in the Durable Streams protocol's "
                "format: `data` events with a JSON array, each followed by a `control` event.",
                {
                    JSON: {"anyOf": [ref("EventPage"), ref("FoundEvents")]},
                    NDJSON: text("One event per line, with `Accept: application/x-ndjson`."),
                    EVENT_STREAM: frame("With `live=sse`: `event` is `data` or `control`."),
                },
                ("Stream-Next-Offset", "Stream-Up-To-Date", "Stream-Closed"),
            ),
            204: Answer(
                "With `live=long-poll`: nothing came in time, or nothing can come any more.",
                headers=("Stream-Next-Offset", "Stream-Up-To-Date", "Stream-Closed"),
            ),
        },
        "Begin at one of `offset`, `from`, `tail`, `around` and `page`; at the start if none is sent. "
        f"Filters combine. A filtered read looks at {limits.scanned_events_max:,} events at a time, so that "
        "a page may be short and still have a `next_page`. A live read needs `offset` and takes no filter. "
        "With `q` the answer holds what was found instead, the best first; see Search.",
        (
            SESSION_ID,
            *EventRange(limits).described(),
            TYPE,
            in_query("types[]", many(text()), "The same, as the SDKs spell it.", ["user.message"]),
            *CREATED_AT.values(),
            search.QUERY,
            *search.SCOPES,
            PAIRS,
            LIVE,
            CURSOR,
            in_header("Accept", text(), "`application/x-ndjson` answers with one event per line."),
        ),
        refusals=(
            *ONE_SESSION,
            "invalid_request",
            "invalid_offset",
            "search_unavailable",
            "too_many_scans",
            *READING,
        ),
        calls=(
            Call("All of them, page by page"),
            Call("Find something", {"q": 'green +"make test"'}),
            Call("Go on from a saved offset", {"offset": "0000000000000000_0000000000000001"}),
            Call("The last fifty", {"tail": "50"}),
            Call(
                "Around the second event, tool calls whole", {"around": "1", "window": "1", "pairs": "keep"}
            ),
            Call("What the agent did, newest first", {"type": "agent.*", "order": "desc"}),
            Call("One event per line", headers={"Accept": NDJSON}),
            Call("Wait for news", {"offset": "now", "live": "long-poll"}, status=204),
            Call("Follow", {"offset": "-1", "live": "sse"}),
        ),
    )


def _head() -> Operation:
    headers = ("Stream-Next-Offset", "Stream-Closed", "Stream-TTL", "Stream-Expires-At")
    return Operation(
        "head",
        _PATH,
        "headEvents",
        "Where a session ends",
        {200: Answer("Only headers: the end, whether it is closed, how long it is kept.", headers=headers)},
        "Does not renew a TTL.",
        (SESSION_ID,),
        refusals=ONE_SESSION,
    )


def _streams() -> tuple[Operation, ...]:
    refusals = (*ONE_SESSION, "invalid_request", "invalid_offset", "event_not_found", *READING)
    parameters = (
        SESSION_ID,
        FROM_OFFSET,
        in_query(
            "types[]", many(text()), "Only these types; `agent.*` means all that begin so.", ["agent.*"]
        ),
        EVENT_DELTAS,
        _LAST_EVENT_ID,
    )
    followed = Operation(
        "get",
        "/v1/sessions/{session_id}/events/stream",
        "streamEvents",
        "Follow a session, event by event",
        {200: FRAMES},
        "As Managed Agents' stream: what happens from now on. With `offset` or `Last-Event-ID` it "
        "replays from there, so that nothing is missed and nothing comes twice. It ends when the session "
        "is closed, or after `session.deleted`. A slow reader slows nobody and loses nothing.",
        parameters,
        refusals=refusals,
        calls=(Call("From the start, then live", {"offset": "-1"}),),
    )
    return followed, replace(
        followed,
        path="/v1/sessions/{session_id}/stream",
        id="streamSession",
        summary="Follow a session: another name for the same",
        text="The same as `/events/stream`.",
    )


def _one() -> Operation:
    return Operation(
        "get",
        "/v1/sessions/{session_id}/events/{event_id}",
        "getEvent",
        "Read one event",
        {200: json_answer("The event as stored.", ref("Event"))},
        "",
        (SESSION_ID, in_path("event_id", text(), "The id of the event.", "call-1")),
        refusals=(*ONE_SESSION, "event_not_found", *READING),
    )
