"""Refusals, in both shapes."""

from typing import Annotated, Literal

import msgspec

from durable_sessions.schema_notes import Offset, about

_Code = Annotated[str, about("Stable; `x-errors` of this document says what each means.")]
_Message = Annotated[str, about("What is wrong and what to send instead. May change.")]


class RefusalDetails(msgspec.Struct):
    """What Anthropic's shape has no place for."""

    error_code: _Code
    index: Annotated[int | msgspec.UnsetType, about("Which event of the request it is about.")] = (
        msgspec.UNSET
    )
    path: Annotated[str | msgspec.UnsetType, about("Which member of the event: `features[1].id`.")] = (
        msgspec.UNSET
    )
    stops: Annotated[
        list[dict[str, str]] | msgspec.UnsetType, about("What stops the session: kind and event.")
    ] = msgspec.UNSET
    limit: Annotated[str | msgspec.UnsetType, about("With `budget_exceeded`: which limit.")] = msgspec.UNSET
    max: int | float | msgspec.UnsetType = msgspec.UNSET
    value: int | float | msgspec.UnsetType = msgspec.UNSET
    features: Annotated[list[str] | msgspec.UnsetType, about("With `gate_closed`: what does not pass.")] = (
        msgspec.UNSET
    )
    conflicts: Annotated[list[str] | msgspec.UnsetType, about("With `adopt_conflict`: the keys.")] = (
        msgspec.UNSET
    )
    needed: Annotated[int | msgspec.UnsetType, about("With `context_too_small`: tokens.")] = msgspec.UNSET
    principal: Annotated[str | msgspec.UnsetType, about("Whom it is about.")] = msgspec.UNSET
    worker: Annotated[str | msgspec.UnsetType, about("With `session_claimed`: who has it.")] = msgspec.UNSET
    expires_at: Annotated[str | msgspec.UnsetType, about("With `session_claimed`: for how long.")] = (
        msgspec.UNSET
    )
    exists: Annotated[bool | msgspec.UnsetType, about("With `precondition_failed`: whether it exists.")] = (
        msgspec.UNSET
    )
    tail: Annotated[
        Offset | msgspec.UnsetType, about("With `precondition_failed` and `stream_closed`: where it ends.")
    ] = msgspec.UNSET
    slots: Annotated[
        dict[str, str | None] | msgspec.UnsetType,
        about("With `precondition_failed`: which event holds each slot of the conditions, null for none."),
    ] = msgspec.UNSET
    incarnation: Annotated[
        str | msgspec.UnsetType,
        about("With 410 and 412: the incarnation of the session that has this id now."),
    ] = msgspec.UNSET


class SessionsRefusal(msgspec.Struct):
    """What went wrong, in Anthropic's shape."""

    type: Annotated[str, about("Anthropic's type, which follows from the status.")]
    message: _Message
    details: RefusalDetails
    conflicting_memory_id: Annotated[
        str | msgspec.UnsetType, about("With `memory_path_conflict`: which memory has the path.")
    ] = msgspec.UNSET


class SessionsErrorBody(msgspec.Struct):
    """A refusal of the sessions API.

    A refusal in Anthropic's shape: on all of `/v1` but `/v1/stream`.
    """

    type: Literal["error"]
    error: SessionsRefusal
    request_id: Annotated[str, about("The same as in the header `request-id`.")]


class NativeRefusal(msgspec.Struct):
    """What went wrong, in our own shape."""

    code: _Code
    message: _Message
    current_holder: Annotated[
        str | msgspec.UnsetType, about("With `ALREADY_CLAIMED`: who holds the lease.")
    ] = msgspec.UNSET
    generation: Annotated[int | msgspec.UnsetType, about("With `ALREADY_CLAIMED`: the lease's.")] = (
        msgspec.UNSET
    )


class ErrorBody(msgspec.Struct):
    """A refusal of the protocol, of what is outside of ``/v1``, or of the carrier.

    Any other refusal, and that of a request that was not understood or did not arrive.
    """

    error: NativeRefusal
