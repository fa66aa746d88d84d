"""Names that live outside their home partition: notes at home, and refusals where a name was given up.

A fork lives in the partition of its parent. The home of its name has a *note* that says so, under a number
that grows with every note of the name. Another partition creates a stream of that name only if it was shown
a note that it has not given up. It may *give up* a note while it has no such stream, and refuses that note
for ever after; then home may write the next one. So at any time at most one partition can create a name, and
each step alone leaves a valid state: a note without a stream only says where the name would begin.

Notes and refusals are streams of the server's own, without records: log, flush, catalog and repair treat them
like all others. They belong to no workspace, so no client can reach them, and no quota counts them.
"""

from typing import NamedTuple

import msgspec

from durable_sessions.streams import lifetime
from durable_sessions.streams.effects import Effect, StreamCreated, StreamDescribed
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import SYSTEM_WORKSPACE, Key

NOTES = "__placed"
REFUSALS = "__given_up"
NO_NOTE = 0
"""The number before that of any note."""
AT_HOME = -1
"""The partition in a note of a name that lives at home again."""

_JSON = "application/json"
_PLACEMENT, _THROUGH = "placement", "through"


class Placement(NamedTuple):
    """The partition that a name lives in, and the number of the note that says so."""

    partition: int
    note: int


_DECODER = msgspec.json.Decoder(Placement)


def note_key(name: Key) -> Key:
    """Return where the home of a name has its note."""
    return Key(SYSTEM_WORKSPACE, f"{NOTES}/{name.workspace}/{name.path}")


def refusal_key(name: Key) -> Key:
    """Return where a partition keeps which notes of a name it has given up."""
    return Key(SYSTEM_WORKSPACE, f"{REFUSALS}/{name.workspace}/{name.path}")


def named_by(key: Key) -> Key | None:
    """Return the name that a note is about, None for any other stream."""
    if key.workspace != SYSTEM_WORKSPACE or key.folder != NOTES:
        return None
    _, workspace, path = key.path.split("/", 2)
    return Key(workspace, path)


def noted(state: State, name: Key) -> Placement | None:
    """Return what home has noted of a name, None if nothing."""
    note = state.get(note_key(name))
    return None if note is None else _DECODER.decode(note.attributes[_PLACEMENT])


def given_up(state: State, name: Key) -> int:
    """Return up to which number a partition has given up the notes of a name."""
    refusal = state.get(refusal_key(name))
    return NO_NOTE if refusal is None else int(refusal.attributes[_THROUGH])


def place(
    state: State, name: Key, partition: int, after: int, now_ms: int
) -> tuple[list[Effect], Placement | None]:
    """Note at home that a name lives in a partition, unless there is another note than ``after``.

    ``after`` is the note that was given up. Returns the note that counts from now on; None if home has a
    stream of that name, which then decides about it.
    """
    removed: list[Effect] = list(lifetime.expire(state, name, now_ms))
    if _is_there(state, name, removed):
        return [], None
    known = noted(state, name) or Placement(AT_HOME, NO_NOTE)
    # Home has no such stream: there is nothing to give up of a name that lives at home.
    is_current = partition == AT_HOME if known.partition == AT_HOME else known.note != after
    if is_current:
        return [], known
    placement = Placement(partition, known.note + 1)
    encoded = msgspec.json.encode(placement)
    return removed + _described(state, note_key(name), now_ms, _PLACEMENT, encoded), placement


def give_up(state: State, name: Key, note: int, now_ms: int) -> tuple[list[Effect], bool]:
    """Refuse a note of a name from now on, and all before it; false while there is a stream of that name."""
    removed: list[Effect] = list(lifetime.expire(state, name, now_ms))
    if _is_there(state, name, removed):
        return [], False
    if note <= given_up(state, name):
        return [], True
    return removed + _described(state, refusal_key(name), now_ms, _THROUGH, b"%d" % note), True


def _is_there(state: State, name: Key, removed: list[Effect]) -> bool:
    """Say whether a stream has the name; an expired stream keeps it only for as long as forks need it."""
    stream = state.get(name)
    return stream is not None and not (removed and not stream.forks)


def _described(state: State, key: Key, now_ms: int, attribute: str, value: bytes) -> list[Effect]:
    known = state.get(key)
    described = {attribute: value}
    if known is not None:
        return [StreamDescribed(known.id, now_ms, {**described})]
    created = StreamCreated(state.next_id, *key, _JSON, now_ms)
    return [created, StreamDescribed(created.stream, now_ms, {**described})]
