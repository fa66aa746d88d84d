"""Decides an append to a session: new events get positions, repeated ones are recognised."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import (
    EventIdConflictError,
    IdempotencyMismatchError,
    InvalidEventError,
    SessionArchivedError,
    SessionNotFoundError,
)
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import event_ids, original_times, record, summary, threads
from durable_sessions.sessions.drafts import DEFINES, Draft
from durable_sessions.sessions.session_lookup import absent, require_incarnation, session_of, usable
from durable_sessions.streams import append, lifetime, offsets
from durable_sessions.streams.effects import Effect, Name, RecordsAppended, StreamCreated, StreamDescribed
from durable_sessions.streams.readonly import StreamRecord, as_created
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Producer
from durable_sessions.times import rfc3339

JSON = "application/json"


class _Outcome(msgspec.Struct):
    outcome_id: msgspec.Raw = lenient.NULL
    max_iterations: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_OUTCOME = msgspec.json.Decoder(_Outcome)


@dataclass(slots=True)
class Batch:
    """A request to append events, to close the session, or both; ``terms`` are the stream's own conditions.

    With ``creates`` a missing session is created. With ``unique`` a different event under an existing id is
    refused; otherwise the stored one stays, and the answer says so. ``digests`` are those of stored events
    that were read for the comparison, by the stream's tag and position.
    """

    drafts: Sequence[Draft]
    actor: str
    terms: append.Append
    key: str | None = None
    check: int = 0
    creates: bool = True
    unique: bool = False
    digests: dict[tuple[str, int], int] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Repeats:
    """Which events of a request are stored already, by index, and which of these have another body.

    ``unread`` are the positions of stored events that must be read before they can be compared.
    """

    repeated: list[int] = field(default_factory=list)
    differ: list[int] = field(default_factory=list)
    unread: list[int] = field(default_factory=list)


NO_REPEATS = Repeats()
"""Shared by most requests; never changed."""


@dataclass(slots=True)
class Stored:
    """The answer to an append: for each event its bytes if it is new, else its position.

    ``life`` is the incarnation of the session. If ``repeats`` has unread events, nothing was appended: read
    them and decide again.
    """

    tail: int
    closed: bool
    events: list[bytes | int] = field(default_factory=list)
    producer: Producer | None = None
    duplicate: bool = False
    life: str = ""
    repeats: Repeats = NO_REPEATS


def decide(
    state: State, key: Key, batch: Batch, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], Stored]:
    """Return the effects and the answer of an append, or refuse it; a refusal changes nothing."""
    effects: list[Effect] = []
    stream = usable(state, key, now_ms, effects)
    if stream is None:
        if batch.terms.if_exists or batch.terms.incarnation is not None:
            raise absent()
        if not batch.creates:
            raise SessionNotFoundError(session=session_of(key))
        created = StreamCreated(state.next_id, *key, JSON, now_ms)
        effects.append(created)
        stream = as_created(created)
    else:
        if batch.terms.incarnation is not None:
            require_incarnation(stream, batch.terms.incarnation)
        # Before the conditions of the stream are checked: a retry must get the answer of the first attempt,
        # also if the session was closed or has grown since.
        found = _found(state, stream, batch, now_ms, limits)
        if found is not None:
            return found
    repeat = append.admit(stream, batch.terms, now_ms, limits, close_only=not batch.drafts)
    if repeat is not None:
        touched, result = repeat
        stored = Stored(
            result.tail,
            result.closed,
            [],
            result.producer,
            result.duplicate,
            event_ids.tag(stream),
            _repeated_events(state, stream, batch),
        )
        # If events must be read first, nothing is changed: the caller reads them and decides again.
        return [] if stored.repeats.unread else [*effects, *touched], stored
    placed, stored = place(state, stream, batch, now_ms, limits, ids)
    return [*effects, *placed] if effects else placed, stored


def place(
    state: State, stream: StreamRecord, batch: Batch, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], Stored]:
    """Return the effects and the answer of an append that has been admitted."""
    alone = len(batch.drafts) == 1 and batch.key is None and not batch.terms.close
    if alone and _is_plain(stream, batch.drafts[0]):
        return _place_plain(stream, batch, now_ms)
    effects: list[Effect] = []
    added = _place(state, stream, batch, now_ms, ids)
    life = event_ids.tag(stream)
    if added.repeats.unread:
        return [], Stored(stream.tail, stream.closed, life=life, repeats=added.repeats)
    if added.lengths or batch.terms.close or batch.terms.producer is not None:
        effects.append(
            RecordsAppended(
                stream.id,
                stream.tail,
                now_ms,
                tuple(added.lengths),
                batch.terms.producer,
                batch.terms.seq,
                batch.terms.close,
                b"".join(added.pieces),
                tuple(added.names),
            )
        )
    changed = _follow(stream, added.new, now_ms, limits, close=batch.terms.close)
    if changed:
        effects.append(StreamDescribed(stream.id, now_ms, changed))
    tail = stream.tail + len(added.lengths)
    return effects, Stored(
        tail, batch.terms.close, added.events, batch.terms.producer, life=life, repeats=added.repeats
    )


def _is_plain(stream: StreamRecord, draft: Draft) -> bool:
    """Say whether an event has no name and changes no attribute, which is true of most."""
    if draft.id is not None or draft.thread is not None or draft.happened_ms is not None or draft.is_import:
        return False
    kind = draft.type
    is_folded = kind in summary.RELEVANT or kind == DEFINES
    return not is_folded and original_times.TIMES not in stream.attributes


def _place_plain(stream: StreamRecord, batch: Batch, now_ms: int) -> tuple[list[Effect], Stored]:
    """Return what :func:`place` does for one plain event: a fast path for the most common append."""
    position, terms = stream.tail, batch.terms
    life = event_ids.tag(stream)
    event = event_ids.event_id(life, position)
    front = f'"id":"{event}","offset":"{offsets.encode(position)}",{_members(now_ms, batch.actor)}'
    stored = batch.drafts[0].stored(front)
    data = stored + b","
    appended = RecordsAppended(
        stream.id, position, now_ms, (len(data),), terms.producer, terms.seq, terms.close, data
    )
    return [appended], Stored(position + 1, terms.close, [stored], terms.producer, life=life)


def _found(
    state: State, stream: StreamRecord, batch: Batch, now_ms: int, limits: Limits
) -> tuple[list[Effect], Stored] | None:
    """Return the answer to a request that was carried out before, recognised by its key or all its ids.

    A repeat is answered even if the session takes no more events; an archived one refuses all else.
    """
    if batch.key is not None:
        repeated = _repeated(state, stream, batch.key, batch)
        if repeated is not None:
            return [], repeated
    archived = record.ARCHIVED in stream.attributes
    if not stream.closed and not archived:
        return None
    known = _all_known(state, stream, batch)
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


class _Known(NamedTuple):
    """The position of an event with an id, and its digest; 0 if the digest is not in memory."""

    position: int
    digest: int = 0


def _repeated(state: State, stream: StreamRecord, key: str, batch: Batch) -> Stored | None:
    """Return the answer to a request that was carried out before with this key, None if none was."""
    found = state.named(stream, event_ids.key_name(key))
    if found is None:
        return None
    if found.check != batch.check:
        raise IdempotencyMismatchError
    events: list[bytes | int] = []
    position = found.first
    there: list[tuple[int, _Known]] = []
    for index, draft in enumerate(batch.drafts):
        known = None if draft.id is None else _known(state, stream, draft.id)
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


def _all_known(state: State, stream: StreamRecord, batch: Batch) -> list[_Known]:
    """Return the positions of the events of a request if all of them are stored, else nothing."""
    found: list[_Known] = []
    for draft in batch.drafts:
        known = None if draft.id is None else _known(state, stream, draft.id)
        if known is None:
            return []
        found.append(known)
    return found


def _repeated_events(state: State, stream: StreamRecord, batch: Batch) -> Repeats:
    """Return the repeats of an append that a producer sent before; only events with ids are found."""
    there = []
    for index, draft in enumerate(batch.drafts):
        known = None if draft.id is None else _known(state, stream, draft.id)
        if known is not None:
            there.append((index, known))
    return _compared(stream, batch, there) if there else NO_REPEATS


def _compared(stream: StreamRecord, batch: Batch, there: Iterable[tuple[int, _Known]]) -> Repeats:
    repeats = Repeats()
    for index, known in there:
        _compare(stream, batch, index, known, repeats)
    return repeats


def _compare(stream: StreamRecord, batch: Batch, index: int, known: _Known, repeats: Repeats) -> None:
    """Record an event whose id is stored already, and whether the stored one differs."""
    repeats.repeated.append(index)
    digest = known.digest or batch.digests.get((event_ids.tag(stream), known.position))
    if digest is None:
        repeats.unread.append(known.position)
    elif digest != batch.drafts[index].digest:
        repeats.differ.append(index)


class _Added(NamedTuple):
    """What a batch adds to the stream, and the bytes or positions of all of its events."""

    events: list[bytes | int]
    pieces: list[bytes]
    lengths: list[int]
    names: list[Name]
    new: list[tuple[Draft, str | None, int]]
    repeats: Repeats


def _place(state: State, stream: StreamRecord, batch: Batch, now_ms: int, ids: Ids) -> _Added:
    added = _Added([], [], [], [], [], Repeats())
    tag = event_ids.tag(stream)
    back = _members(now_ms, batch.actor)
    suffix = "" if batch.key is None else event_ids.key_suffix(batch.key, batch.check)
    # When the catalog is rebuilt, the key is recovered from the stored events: from the end of a server's
    # id, or, if clients gave all the ids, from a member of the first event.
    mark = f'"request_key":"{suffix}",' if suffix and all(draft.id for draft in batch.drafts) else ""
    given: dict[str, _Known] = {}
    position = stream.tail
    for index, draft in enumerate(batch.drafts):
        if draft.id is not None:
            # An id can also occur twice within one request.
            known = given.get(draft.id) or _known(state, stream, draft.id)
            if known is not None:
                added.events.append(known.position)
                _compare(stream, batch, index, known, added.repeats)
                if batch.unique and added.repeats.differ:
                    raise EventIdConflictError(event=draft.id, index=index)
                continue
            _require_not_reserved(stream, draft.id, index)
            given[draft.id] = _Known(position, draft.digest)
            added.names.append(Name(event_ids.id_name(draft.id), position, 1, draft.digest))
        event = draft.id or event_ids.event_id(tag, position, suffix)
        front = f'"id":"{event}",{mark}"offset":"{offsets.encode(position)}",{back}'
        mark = ""
        outcome = None
        if draft.type == DEFINES:
            outcome, members = _outcome(draft, ids)
            front += members
        piece = draft.stored(front) + b","
        added.pieces.append(piece)
        added.lengths.append(len(piece))
        added.events.append(piece[:-1])
        added.new.append((draft, outcome, position))
        position += 1
    if batch.key is not None and added.lengths:
        added.names.append(Name(event_ids.key_name(batch.key), stream.tail, len(added.lengths), batch.check))
    return added


@lru_cache(maxsize=64)
def _members(now_ms: int, actor: str) -> str:
    """Return the server's members that all events of one append share; cached for appends of one moment."""
    at = rfc3339(now_ms)
    return f'"created_at":"{at}","processed_at":"{at}","actor":{msgspec.json.encode(actor).decode()},'


def _outcome(draft: Draft, ids: Ids) -> tuple[str, str]:
    """Return the id of the outcome that an event defines, and the members to add to the event."""
    given = lenient.decode(_OUTCOME, draft.body)
    members = '"max_iterations":null,' if given.max_iterations is msgspec.UNSET else ""
    if named := lenient.text(given.outcome_id):
        return named, members
    outcome = ids.token("outc_")
    return outcome, f'"outcome_id":"{outcome}",{members}'


def _require_not_reserved(stream: StreamRecord, event: str, index: int) -> None:
    """Refuse an id that the server could assign to an event of this session later."""
    if event_ids.is_own(event, stream):
        raise InvalidEventError(
            problem=f"Event {index}: only the server gives ids such as {event}; choose another.",
            index=index,
        )


def _known(state: State, stream: StreamRecord, event: str) -> _Known | None:
    """Return the stored event with an id, None if the id is new."""
    position = event_ids.position_of(event)
    if position is not None and _assigned(state, stream, event, position):
        return _Known(position)
    # Most streams have no named events: for these, no look-up is needed.
    if not stream.named and stream.parent is None:
        return None
    found = state.named(stream, event_ids.id_name(event))
    return None if found is None else _Known(found.first, found.check)


def _assigned(state: State, stream: StreamRecord, event: str, position: int) -> bool:
    """Say whether the server assigned this id to an event of the stream, or to one that it inherits."""
    holder: StreamRecord | None = stream
    end = stream.tail
    while holder is not None:
        if event_ids.is_own(event, holder):
            return position < end
        end = min(end, holder.base)  # of its source, a fork inherits only the events before its base
        holder = state.parent(holder)
    return False


def _follow(
    stream: StreamRecord,
    new: Sequence[tuple[Draft, str | None, int]],
    now_ms: int,
    limits: Limits,
    *,
    close: bool,
) -> dict[str, bytes | None]:
    """Return the attributes that new events, or the end of the session, change."""
    changed: dict[str, bytes | None] = {}
    relevant = [one for one in new if one[0].type in summary.RELEVANT]
    if relevant or close:
        folded = summary.fold(stream.attributes, relevant, now_ms, limits)
        if (close and summary.closed(folded, now_ms)) or relevant:
            changed[summary.SUMMARY] = folded.encode()
    threaded = [draft for draft, _, _ in new if draft.thread is not None]
    if threaded:
        changed |= threads.fold(stream.attributes, threaded, now_ms, limits)
    if close:
        changed |= threads.closed({**stream.attributes, **changed}, now_ms)
    times = original_times.fold(stream.attributes, (draft for draft, _, _ in new), now_ms)
    if times is not None:
        changed[original_times.TIMES] = times
    return changed
