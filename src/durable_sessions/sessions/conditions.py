"""Conditions of an append: what must be so at the tip, or nothing is written."""

import re
from dataclasses import dataclass, field

import msgspec

from durable_sessions.errors import InvalidEventError, InvalidOffsetError, PreconditionNotMetError
from durable_sessions.json_problems import problem
from durable_sessions.limits import Limits
from durable_sessions.sessions import event_ids, slots
from durable_sessions.streams import offsets
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.state import State

_INCARNATION = re.compile(r"[0-9a-f]{12}", re.ASCII)
_SHOWN = '{"slots":{"head":null},"tail":"<offset>","exists":true,"incarnation":"…"}'


@dataclass(slots=True)
class Conditions:
    """What must be so; None is not asked for. The value of a slot is the id of its holder, None for none."""

    slots: dict[str, str | None] = field(default_factory=dict)
    tail: int | None = None
    exists: bool | None = None
    incarnation: str | None = None


class _Given(msgspec.Struct, forbid_unknown_fields=True):
    slots: dict[str, str | None] | msgspec.UnsetType = msgspec.UNSET
    tail: str | msgspec.UnsetType = msgspec.UNSET
    exists: bool | msgspec.UnsetType = msgspec.UNSET
    incarnation: str | msgspec.UnsetType = msgspec.UNSET


_GIVEN = msgspec.json.Decoder(_Given)


def parse(raw: bytes, limits: Limits) -> Conditions:
    """Return the conditions that stand beside events as ``if``."""
    try:
        given = _GIVEN.decode(raw)
    except msgspec.MsgspecError as error:
        said = f'In "if": {problem(error, _Given)}. Send {_SHOWN}, each optional.'
        raise InvalidEventError(problem=said) from None
    wanted = Conditions()
    if isinstance(given.slots, dict):
        wanted.slots = _slots(given.slots, limits)
    if isinstance(given.tail, str):
        try:
            wanted.tail = offsets.decode(given.tail)
        except InvalidOffsetError:
            raise InvalidEventError(problem='In "if": "tail" is a Stream-Next-Offset.') from None
    if isinstance(given.exists, bool):
        wanted.exists = given.exists
    if isinstance(given.incarnation, str):
        if not _INCARNATION.fullmatch(given.incarnation):
            raise InvalidEventError(
                problem='In "if": "incarnation" is what Session-Incarnation said: 12 hexadecimal digits.'
            )
        wanted.incarnation = given.incarnation
    return wanted


def _slots(given: dict[str, str | None], limits: Limits) -> dict[str, str | None]:
    if len(given) > limits.condition_slots_max:
        raise InvalidEventError(
            problem=f'In "if": {len(given)} slots are too many; send at most {limits.condition_slots_max}.'
        )
    for name in given:
        if not slots.is_name(name):
            raise InvalidEventError(
                problem=f'In "if": a slot has a name of 1 to {slots.NAME_BYTES_MAX} bytes without control '
                "characters."
            )
    return given


def require(state: State, stream: StreamRecord | None, wanted: Conditions) -> None:
    """Refuse unless all conditions hold; ``stream`` is None if there is no session.

    The refusal names the holders by their positions; the caller puts the ids of the events there instead.
    """
    holders = {name: None if stream is None else state.slot(stream, name) for name in wanted.slots}
    tail = 0 if stream is None else stream.tail
    life = None if stream is None else event_ids.tag(stream)
    failed = None
    if wanted.exists is not None and wanted.exists != (stream is not None):
        failed = "The session exists." if stream is not None else "There is no session."
    elif wanted.incarnation is not None and wanted.incarnation != life:
        failed = "There is no session." if life is None else f"The session is {life}, another incarnation."
    elif wanted.tail is not None and wanted.tail != tail:
        failed = f"The session ends at {offsets.encode(tail)}, not where the condition says."
    else:
        for name, event in wanted.slots.items():
            if holders[name] != _position(state, stream, event):
                failed = f"Another event holds the slot {name!r}." if event else f"The slot {name!r} is held."
                if holders[name] is None:
                    failed = f"No event holds the slot {name!r}."
                break
    if failed is not None:
        raise PreconditionNotMetError(
            problem=failed,
            exists=stream is not None,
            tail=None if stream is None else offsets.encode(tail),
            incarnation=life,
            holders=holders,
        )


# An id that no event has must match no slot, not even an empty one, whose holder is None.
_NOWHERE = -1


def _position(state: State, stream: StreamRecord | None, event: str | None) -> int | None:
    """Return where an event is, a position that none has if it is nowhere; None for no event."""
    if event is None:
        return None
    found = None if stream is None else event_ids.find(state, stream, event)
    return _NOWHERE if found is None else found.position
