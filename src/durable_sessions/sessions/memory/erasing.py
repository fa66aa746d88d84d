"""Erases from memory scopes what was redacted in sessions: the record stays, without value and reason."""

from typing import NamedTuple

import msgspec

from durable_sessions.errors import LegalHoldError, OverloadedError
from durable_sessions.limits import Limits
from durable_sessions.sessions.memory import records
from durable_sessions.sessions.memory.scopes import Scopes
from durable_sessions.sessions.tombstones import Mark
from durable_sessions.streams.effects import Effect, ErasedRecord, RecordsErased
from durable_sessions.streams.state import State


class OwedErasure(msgspec.Struct, frozen=True, tag_field="type", tag="erase"):
    """What a scope of another partition is owed when an event is redacted."""

    id: str
    incarnation: str
    mark: Mark
    by: str | None = None
    """Who redacted it; not known of what earlier versions owe."""


OWED = msgspec.json.Decoder(OwedErasure)


def is_owed(data: bytes) -> bool:
    """Say whether a delivered record is an erasure; all others are records of the log."""
    return data.startswith(b'{"type":"erase"')


class RecordToErase(NamedTuple):
    """A record to erase, as it was read, with its stream and position."""

    stream: int
    position: int
    record: records.ScopeRecord
    size: int


async def found(
    scopes: Scopes, workspace: str, scope: str, incarnation: str, event: str
) -> RecordToErase | None:
    """Return the record of an event in a scope; None if there is none, or nothing of it to erase."""
    view = scopes.view(workspace, scope)
    if view is None:
        return None
    position = (await scopes.history(view)).position_of(incarnation, event)
    if position is None:
        return None
    stored = (await scopes.streams.read(view, position, 1, position + 1)).data
    record = records.decode(stored[:-1])
    if getattr(record, "redacted", None) is not None:
        return None
    return RecordToErase(view.stream.id, position, record, len(stored))


def effects(
    state: State, target: RecordToErase, mark: Mark, by: str | None, now_ms: int, limits: Limits
) -> list[Effect]:
    """Return the effects of erasing a record, or refuse; none if its scope is gone."""
    stream = state.get_id(target.stream)
    left = records.erased(target.record, mark, by)
    if stream is None or left is None:
        return []
    if stream.held:
        raise LegalHoldError(path=stream.key.path)
    if len(stream.overlay) + 1 > limits.overlay_records_max:
        raise OverloadedError(what="erased events that are still being removed (overlay_records_max)")
    data = records.encode(left) + b","
    erased = ErasedRecord(target.position, data)
    return [RecordsErased(stream.id, now_ms, (erased,), target.size - len(data), ())]
