"""Decides what the memory events of an append add to their scopes, in the same batch as the events.

If the scope is in this partition, the record is part of the batch. If it is in another one, the batch owes it
the record: that is an effect of the batch too, so there is no record without its event, and no event whose
record is lost.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from durable_sessions.errors import MemoryScopeFullError
from durable_sessions.limits import Limits
from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.graph.schemas import StrictEvent
from durable_sessions.sessions.memory.records import (
    NamedEvent,
    ReadRecord,
    RollBackRecord,
    ScopeRecord,
    WriteRecord,
    encode,
    scope_key,
)
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.streams.effects import Effect, RecordsAppended, ScopeCreated
from durable_sessions.streams.readonly import StreamHeader
from durable_sessions.streams.state import State
from durable_sessions.times import rfc3339

_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class MemoryIntent:
    """Where the record of a memory event goes, and the writes that it names, as they were looked up.

    A write without incarnation is of the session itself, in the same append. With ``is_home`` the scope is in
    this partition.
    """

    scope: str
    is_home: bool
    writes: list[NamedEvent] = field(default_factory=list)


def record(
    event: StrictEvent, intent: MemoryIntent, name: NamedEvent, actor: str, now_ms: int
) -> ScopeRecord:
    """Return the record of a memory event that is called ``name``."""
    assert name.session is not None
    assert name.incarnation is not None
    common = (name.id, name.session, name.incarnation, rfc3339(now_ms), actor)
    writes = [
        one if one.incarnation is not None else NamedEvent(one.id, name.session, name.incarnation)
        for one in intent.writes
    ]
    if isinstance(event, schemas.MemoryWritten):
        because = [
            NamedEvent(ref.id, None if ref.artifact is not None else ref.session or name.session)
            for ref in event.refs
            if ref.rel == "because"
        ]
        return WriteRecord(
            *common,
            key=event.key,
            value=event.value,
            kind=event.kind,
            why=event.why,
            because=because,
            confidence=event.confidence,
        )
    if isinstance(event, schemas.MemoryRead):
        return ReadRecord(*common, at=event.at, returned=writes, influence=event.influence, key=event.key)
    assert isinstance(event, schemas.MemoryRolledBack)
    return RollBackRecord(*common, write=writes[0], reason=event.reason)


def effects(
    state: State,
    session: StreamHeader,
    records: Iterable[tuple[MemoryIntent, ScopeRecord]],
    now_ms: int,
    limits: Limits,
) -> list[Effect]:
    """Return the effects of recording what a session's events say, or refuse if a scope is full."""
    by_scope: dict[str, list[bytes]] = {}
    is_home = True
    for intent, one in records:
        is_home = intent.is_home
        by_scope.setdefault(intent.scope, []).append(encode(one))
    workspace = session.key.workspace
    if not is_home:
        owed = [
            (scope_key(workspace, scope), data) for scope, encoded in by_scope.items() for data in encoded
        ]
        return [*state.outbox.owe(owed, limits.outbox_bytes_max)]
    # A session that the same batch creates has the next number already.
    number = max(state.next_id, session.id + 1)
    made: list[Effect] = []
    for scope, encoded in by_scope.items():
        key = scope_key(workspace, scope)
        stream = state.get(key)
        lengths = tuple(len(data) + 1 for data in encoded)
        if stream is None:
            made.append(ScopeCreated(number, *key, _JSON, now_ms))
            at, tail, held = number, 0, 0
            number += 1
        else:
            at, tail, held = stream.id, stream.tail, stream.record_bytes
        require_room(scope, tail, held, len(encoded), sum(lengths), limits)
        data = b"".join(one + b"," for one in encoded)
        made.append(RecordsAppended(at, tail, now_ms, lengths, None, None, False, data))
    return made


def require_room(
    scope: str, tail: int, record_bytes: int, more_records: int, more_bytes: int, limits: Limits
) -> None:
    """Refuse records that a scope has no room for."""
    if (
        tail + more_records > limits.memory_records_per_scope_max
        or record_bytes + more_bytes > limits.memory_bytes_per_scope_max
    ):
        raise MemoryScopeFullError(
            scope=scope,
            memory_records_per_scope_max=limits.memory_records_per_scope_max,
            memory_bytes_per_scope_max=limits.memory_bytes_per_scope_max,
        )


def named(session: StreamHeader, incarnation: str, event: str) -> NamedEvent:
    """Return the full name of an event of a session."""
    return NamedEvent(event, session_of(session.key), incarnation)
