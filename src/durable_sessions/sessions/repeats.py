"""Recognises what is stored already: a request by its key or its ids, an event by its id.

A repeat gets the answer of the first attempt, whatever has happened to the session since, and nothing is
appended twice. Of an event that is sent again with another body, the answer says that it differs.
"""

from collections.abc import Iterable

from durable_sessions.errors import IdempotencyMismatchError, SessionArchivedError
from durable_sessions.limits import Limits
from durable_sessions.sessions import event_ids, record
from durable_sessions.sessions.batch import NO_REPEATS, Batch, Repeats, Stored
from durable_sessions.sessions.digests import ERASED
from durable_sessions.sessions.event_ids import KnownEvent, find
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.streams import append, lifetime
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.state import State


def answered_before(
    state: State, stream: StreamRecord, batch: Batch, now_ms: int, limits: Limits
) -> tuple[list[Effect], Stored] | None:
    """Return the answer to a request that was carried out before, recognised by its key or all its ids.

    A repeat is answered even if the session takes no more events; an archived one refuses all else.
    """
    if batch.key is not None:
        repeated = _of_key(state, stream, batch.key, batch)
        if repeated is not None:
            return [], repeated
    archived = record.ARCHIVED in stream.attributes
    if not stream.closed and not archived:
        return None
    known = all_known(state, stream, batch)
    # A repeat whose events are all stored is answered also when the session is closed: the client must learn
    # that its first attempt has succeeded.
    if known:
        repeats = _compared(stream, batch, enumerate(known))
        if not (batch.unique and repeats.differ):
            events: list[bytes | int] = [one.position for one in known]
            stored = Stored(
                stream.tail,
                stream.closed,
                events,
                batch.terms.producer,
                duplicate=True,
                life=event_ids.tag(stream),
                repeats=repeats,
            )
            return [] if repeats.unread else list(lifetime.touch(stream, now_ms, limits)), stored
    if archived:
        raise SessionArchivedError(session=session_of(stream.key))
    return None


def require_resolved(state: State, stream: StreamRecord | None, batch: Batch) -> None:
    """Refuse new events that refer to what is not there; of a repeat, the targets may be gone since."""
    if not batch.unresolved:
        return
    if stream is not None and _was_sent_before(state, stream, batch):
        return
    for index, refused in sorted(batch.unresolved.items()):
        name = batch.drafts[index].id
        if stream is None or name is None or find(state, stream, name) is None:
            raise refused


def _was_sent_before(state: State, stream: StreamRecord, batch: Batch) -> bool:
    """Say whether a request with this key, or this number of its producer, was carried out before."""
    if batch.key is not None and state.named(stream, event_ids.key_name(batch.key)) is not None:
        return True
    return batch.terms.producer is not None and append.is_repeat(stream, batch.terms.producer)


def of_key(state: State, stream: StreamRecord, key: str, check: int) -> Stored | None:
    """Return the answer to a request of one event that was carried out before, None if none was."""
    found = state.named(stream, event_ids.key_name(key))
    if found is None:
        return None
    if found.check != check:
        raise IdempotencyMismatchError
    tail, life = found.first + found.count, event_ids.tag(stream)
    return Stored(tail, stream.closed, [found.first], duplicate=True, life=life)


def _of_key(state: State, stream: StreamRecord, key: str, batch: Batch) -> Stored | None:
    """Return the answer to a request that was carried out before with this key, None if none was."""
    found = state.named(stream, event_ids.key_name(key))
    if found is None:
        return None
    if found.check != batch.check:
        raise IdempotencyMismatchError
    events: list[bytes | int] = []
    position = found.first
    there: list[tuple[int, KnownEvent]] = []
    for index, draft in enumerate(batch.drafts):
        known = None if draft.id is None else find(state, stream, draft.id)
        if known is not None:
            there.append((index, known))
        events.append(position if known is None else known.position)
        # Events that the first request found stored already kept their positions and used no new one.
        position += known is None or known.position == position
    repeats = _compared(stream, batch, there)
    repeats.repeated = list(range(len(events)))
    return Stored(
        found.first + found.count,
        stream.closed,
        events,
        duplicate=True,
        life=event_ids.tag(stream),
        repeats=repeats,
    )


def all_known(state: State, stream: StreamRecord, batch: Batch) -> list[KnownEvent]:
    """Return the positions of the events of a request if all of them are stored, else nothing."""
    found: list[KnownEvent] = []
    for draft in batch.drafts:
        known = None if draft.id is None else find(state, stream, draft.id)
        if known is None:
            return []
        found.append(known)
    return found


def of_producer(state: State, stream: StreamRecord, batch: Batch) -> Repeats:
    """Return the repeats of an append that a producer sent before; only events with ids are found."""
    there = []
    for index, draft in enumerate(batch.drafts):
        known = None if draft.id is None else find(state, stream, draft.id)
        if known is not None:
            there.append((index, known))
    return _compared(stream, batch, there) if there else NO_REPEATS


def _compared(stream: StreamRecord, batch: Batch, there: Iterable[tuple[int, KnownEvent]]) -> Repeats:
    repeats = Repeats()
    for index, known in there:
        compare(stream, batch, index, known, repeats)
    return repeats


def compare(stream: StreamRecord, batch: Batch, index: int, known: KnownEvent, repeats: Repeats) -> None:
    """Record an event whose id is stored already, and whether the stored one differs."""
    repeats.repeated.append(index)
    digest = known.digest or batch.digests.get((event_ids.tag(stream), known.position))
    if digest is None:
        repeats.unread.append(known.position)
    elif digest not in (batch.drafts[index].digest, ERASED):
        repeats.differ.append(index)
