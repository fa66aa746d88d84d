"""What an event does with slots: ``slot``, ``slot_prefix`` and ``slot_empty`` of events of free types.

Members that do not fit are plain payload. The rules depend on the event alone, because they are applied again
to stored events when the catalog is rebuilt; so the bounds here are no settings.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from durable_sessions import lenient
from durable_sessions.streams.effects import EMPTIED, EMPTIED_PREFIX, HELD, SlotChange

NAME_BYTES_MAX = 512
"""The longest name of a slot, in bytes of UTF-8."""
NAMES_MAX = 8
"""How many slots one event can hold."""
EMPTY_KEEP, EMPTY_DROP = "keep", "drop"
STRICT_TYPES = "ds."
"""Events of these types have no free members."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_LIST = msgspec.json.Decoder(list[msgspec.Raw])

Given = msgspec.Raw | msgspec.UnsetType


class SlotWish(NamedTuple):
    """What an event does: hold these slots, or empty them and those that begin with ``prefix``.

    With ``drops``, the events that held them are to be erased once they hold nothing any more.
    """

    names: tuple[str, ...] = ()
    prefix: str | None = None
    empties: bool = False
    drops: bool = False

    def changes(self, position: int) -> Iterator[SlotChange]:
        """Yield what the event at a position does, slot by slot."""
        if self.prefix is not None:
            yield SlotChange(position, self.prefix, EMPTIED_PREFIX)
        for name in self.names:
            yield SlotChange(position, name, EMPTIED if self.empties else HELD)


class _Envelope(msgspec.Struct):
    """The members of a stored event that say what it does with slots."""

    type: str
    slot: Given = msgspec.UNSET
    slot_prefix: Given = msgspec.UNSET
    slot_empty: Given = msgspec.UNSET


_ENVELOPE = msgspec.json.Decoder(_Envelope)


def is_name(value: str | None) -> bool:
    """Say whether a text can name a slot."""
    return bool(value) and is_prefix(value)


def is_prefix(value: str | None) -> bool:
    """Say whether names of slots can begin with a text."""
    return value is not None and len(value.encode()) <= NAME_BYTES_MAX and _CONTROL.search(value) is None


def of_members(kind: str, slot: Given, prefix: Given, empty: Given) -> SlotWish | None:
    """Return what an event of a type does with slots, None if it does nothing."""
    if kind.startswith(STRICT_TYPES):
        return None
    names = () if isinstance(slot, msgspec.UnsetType) else _names(slot)
    if isinstance(empty, msgspec.UnsetType):
        return SlotWish(names) if names else None
    word = lenient.text(empty)
    if word not in (EMPTY_KEEP, EMPTY_DROP):
        return SlotWish(names) if names else None
    begins = None if isinstance(prefix, msgspec.UnsetType) else lenient.text(prefix)
    if not is_prefix(begins):
        begins = None
    if not names and begins is None:
        return None
    return SlotWish(names, begins, empties=True, drops=word == EMPTY_DROP)


def of_event(event: bytes) -> SlotWish | None:
    """Return what a stored event does with slots, None if it does nothing."""
    if b"slot" not in event and b"\\u" not in event:
        return None
    found = lenient.decode(_ENVELOPE, event)
    return of_members(found.type, found.slot, found.slot_prefix, found.slot_empty)


def _names(raw: msgspec.Raw) -> tuple[str, ...]:
    """Return the slots that a member names, none if it does not fit."""
    data = bytes(raw)
    if data[:1] == b"[":
        values = [lenient.text(one) for one in _LIST.decode(data)]
        if len(values) > NAMES_MAX:
            return ()
    else:
        values = [lenient.text(raw)]
    names = [value for value in values if value is not None and is_name(value)]
    return tuple(dict.fromkeys(names)) if len(names) == len(values) else ()
