"""Slots in answers; events are passed on as they are stored, so these structs describe them only."""

from typing import Annotated, Any

import msgspec

from durable_sessions.schema_notes import Offset, Whole, about, ref


class HeldSlotAnswer(msgspec.Struct):
    """A slot and the event that holds it.

    With `values=false` the members after `event` stand in its place.
    """

    slot: Annotated[str, about("The name of the slot.")]
    event: Annotated[Any | msgspec.UnsetType, about(**ref("Event"))] = msgspec.UNSET
    id: Annotated[str | msgspec.UnsetType, about("The id of the event.")] = msgspec.UNSET
    offset: Offset | msgspec.UnsetType = msgspec.UNSET
    type: str | msgspec.UnsetType = msgspec.UNSET
    bytes: Annotated[Whole | msgspec.UnsetType, about("How large the event is.")] = msgspec.UNSET


class SlotPageAnswer(msgspec.Struct):
    """A page of slots."""

    data: list[HeldSlotAnswer]
    next_after: Annotated[str | None, about("What to send as `after` for the next page; null at the end.")]
    next_offset: Annotated[Offset, about("The moment that the answer is of.")]
    incarnation: Annotated[str, about("Which life of the session this is of.")]
