"""Events in requests and answers; they are kept byte for byte, so these structs describe them only."""

from typing import Annotated, Any

import msgspec

from durable_sessions.schema_notes import Offset, Time, Whole, about, ref

_TYPE_CHARACTERS = r"[^\u0000-\u001f\u007f-\u009f\u2028\u2029]+$"
_Type = Annotated[
    str,
    about(
        "What happened. `user.*`, `agent.*`, `session.*`, `span.*` as Managed Agents has them, `ds.*` as the "
        "schema of this name says, or a type of your own.",
        minLength=1,
        maxLength="{event_type_max}",
        pattern=f"^{_TYPE_CHARACTERS}",
        examples=["user.message"],
    ),
]
_FreeType = Annotated[
    _Type,
    about("What happened: any type that does not begin with `ds.`.", pattern=rf"^(?!ds\.){_TYPE_CHARACTERS}"),
]
_Event = Annotated[Any, about(**ref("Event"))]


class FreeEvent(msgspec.Struct):
    """An event in a request whose type does not begin with `ds.`.

    An event as you send it: a type, and whatever else you like, kept byte for byte. `offset`, `created_at`,
    `processed_at` and `actor` are the server's; yours are kept as `original_…`, and times must be RFC 3339.
    These, `type` and `id` stand in it once. At most {event_bytes_max:,} bytes (413) and {json_depth_max}
    levels deep.
    """

    type: _FreeType
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


class AppendConditions(msgspec.Struct, forbid_unknown_fields=True):
    """What must be so for an append, or nothing is written (412).

    All members are optional, and all that are sent must hold, together with the append.
    """

    slots: Annotated[
        dict[str, str | None] | msgspec.UnsetType,
        about(
            "By the name of a slot: the id of the event that holds it, null for none.",
            maxProperties="{condition_slots_max}",
        ),
    ] = msgspec.UNSET
    tail: Annotated[Offset | msgspec.UnsetType, about("Where the session ends.")] = msgspec.UNSET
    exists: Annotated[bool | msgspec.UnsetType, about("Whether there is a session.")] = msgspec.UNSET
    incarnation: Annotated[
        str | msgspec.UnsetType,
        about("Which life of the session it is.", pattern="^[0-9a-f]{12}$"),
    ] = msgspec.UNSET


class WrappedEvents(msgspec.Struct, forbid_unknown_fields=True, rename={"conditions": "if"}):
    """Events to append, as Managed Agents wraps them.

    Other members are refused; in Anthropic's dialect they are ignored.
    """

    events: Annotated[
        list[Annotated[Any, about(**ref("NewEvent"))]],
        about(
            "Empty only together with `if`: a test, which creates nothing.",
            maxItems="{events_per_request_max}",
        ),
    ]
    conditions: AppendConditions | msgspec.UnsetType = msgspec.UNSET
    session: Annotated[
        Any | msgspec.UnsetType,
        about(
            "What the session is to be if this very append creates it, as in `POST /v1/sessions`, without "
            "`id` and `initial_events`; else it is ignored.",
            **ref("NewSession"),
        ),
    ] = msgspec.UNSET


class ClippedMember(msgspec.Struct):
    """What was cut out of an event that is longer than `clip`."""

    bytes: Annotated[Whole, about("How large the event is as it is stored.")]
    members: Annotated[list[str], about("The texts that were cut in the middle, as JSON Pointers.")]


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
    clipped: Annotated[
        ClippedMember | msgspec.UnsetType, about("With `clip`: this is a copy with long texts cut.")
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
    first: Annotated[Whole | None, about("The position of the first event in `data`, null without any.")]
    positions: Annotated[
        list[Whole] | msgspec.UnsetType,
        about("Only with filters and `pairs`: the positions of all events in `data`."),
    ] = msgspec.UNSET
