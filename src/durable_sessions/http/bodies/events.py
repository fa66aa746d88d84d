"""Events in requests and answers; they are kept byte for byte, so these structs describe them only."""

from typing import Annotated, Any

import msgspec

from durable_sessions.schema_notes import Offset, Time, about, ref

_Type = Annotated[
    str,
    about(
        "What happened. `user.*`, `agent.*`, `session.*`, `span.*` as Managed Agents has them, or a type of "
        "your own.",
        minLength=1,
        maxLength="{event_type_max}",
        pattern=r"^[^\u0000-\u001f\u007f-\u009f\u2028\u2029]+$",
        examples=["user.message"],
    ),
]
_Event = Annotated[Any, about(**ref("Event"))]


class NewEvent(msgspec.Struct):
    """An event in a request.

    An event as you send it: a type, and whatever else you like, kept byte for byte. `offset`, `created_at`,
    `processed_at` and `actor` are the server's; yours are kept as `original_…`, and times must be RFC 3339.
    These, `type` and `id` stand in it once. At most {event_bytes_max:,} bytes (413) and {json_depth_max}
    levels deep.
    """

    type: _Type
    id: Annotated[
        str | None,
        about(
            "An id of your own, unique in the session. Appending it again writes nothing and is answered "
            "with the first event.",
            minLength=1,
            maxLength="{event_id_max}",
            pattern=r'^[^\u0000-\u001f\u007f-\u009f\u2028\u2029"\\]+$',
        ),
    ] = None


class WrappedEvents(msgspec.Struct, forbid_unknown_fields=True):
    """Events to append, as Managed Agents wraps them.

    Other members are refused; in Anthropic's dialect they are ignored.
    """

    events: Annotated[
        list[Annotated[Any, about(**ref("NewEvent"))]], about(minItems=1, maxItems="{events_per_request_max}")
    ]


class StoredEvent(msgspec.Struct):
    """An event in an answer.

    An event as it is stored: the server's members first, then yours, as they came.
    """

    id: Annotated[str, about("`sevt_…`, or the one that you gave.")]
    offset: Offset
    created_at: Annotated[Time, about("When it became part of the log.")]
    processed_at: Annotated[Time, about("The same; for the SDKs.")]
    actor: Annotated[str, about("The principal of the key that appended it; `local` without keys.")]
    type: _Type
    added_for_pair: Annotated[
        bool | msgspec.UnsetType, about("With `pairs=keep`: this event was added to complete a tool call.")
    ] = msgspec.UNSET


class AppendedEvents(msgspec.Struct):
    """The events of an append, as stored."""

    data: list[_Event]


class EventPageAnswer(msgspec.Struct):
    """A page of events."""

    data: list[_Event]
    next_page: Annotated[str | None, about("What to send as `page` for the next page.")]
    next_offset: Offset
    up_to_date: Annotated[bool, about("Whether the page reaches the end of the session.")]
    incarnation: Annotated[str, about("Which life of the session this is of.")]
