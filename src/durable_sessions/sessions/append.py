"""Decides an append to a session: new events get positions, repeated ones are recognised."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import (
    EventIdConflictError,
    InvalidEventError,
    LeaseLostError,
    LeaseRequiredError,
    LegalHoldError,
    PreconditionNotMetError,
    SessionNotFoundError,
    TooManySlotsError,
)
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import (
    conditions,
    cost_budget,
    dropped_at_once,
    event_ids,
    original_times,
    record,
    repeats,
    summary,
    threads,
    usage_days,
)
from durable_sessions.sessions.batch import JSON, Batch, Repeats, Stored
from durable_sessions.sessions.digests import ERASED
from durable_sessions.sessions.drafts import DEFINES, Draft
from durable_sessions.sessions.event_ids import KnownEvent, find
from durable_sessions.sessions.graph.companions import Word
from durable_sessions.sessions.graph.governor import Governor, SentEvent, governs
from durable_sessions.sessions.graph.rules import Appender
from durable_sessions.sessions.memory import recording
from durable_sessions.sessions.memory.recording import MemoryIntent
from durable_sessions.sessions.memory.records import ScopeRecord
from durable_sessions.sessions.session_lookup import (
    absent,
    require_beginning,
    require_incarnation,
    session_of,
    usable,
)
from durable_sessions.streams import append, offsets
from durable_sessions.streams.effects import (
    EMPTIED_PREFIX,
    Effect,
    Name,
    RecordsAppended,
    SlotChange,
    SlotsChanged,
    StreamCreated,
    StreamDescribed,
)
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.times import rfc3339


class _Outcome(msgspec.Struct):
    outcome_id: msgspec.Raw = lenient.NULL
    max_iterations: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_OUTCOME = msgspec.json.Decoder(_Outcome)


def decide(
    state: State, key: Key, batch: Batch, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], Stored]:
    """Return the effects and the answer of an append, or refuse it; a refusal changes nothing."""
    effects: list[Effect] = []
    stream = usable(state, key, now_ms, effects)
    begun: _Begun | None = None
    if stream is None:
        if batch.terms.if_exists or batch.terms.incarnation is not None:
            raise absent()
        if not batch.creates:
            raise SessionNotFoundError(session=session_of(key))
        if batch.conditions is not None:
            if batch.is_test:
                require_beginning(batch.terms.if_tail)
            conditions.require(state, None, batch.conditions)
            if batch.is_test:
                return [], Stored(0, closed=False)
        repeats.require_resolved(state, None, batch)
        begun = _begin(state, key, batch, now_ms, limits)
        effects += begun.effects
        stream = state.as_created(begun.created, begun.attributes)
    else:
        if batch.terms.incarnation is not None:
            require_incarnation(stream, batch.terms.incarnation)
        repeats.require_resolved(state, stream, batch)
        # Before the conditions of the stream are checked: a retry must get the answer of the first attempt,
        # also if the session was closed or has grown since.
        found = repeats.answered_before(state, stream, batch, now_ms, limits)
        if found is not None:
            return found
    repeat = _admit(stream, batch, now_ms, limits, is_new=begun is not None)
    if repeat is not None:
        touched, result = repeat
        stored = Stored(
            result.tail,
            result.closed,
            [],
            result.producer,
            result.duplicate,
            event_ids.tag(stream),
            repeats.of_producer(state, stream, batch),
        )
        # If events must be read first, nothing is changed: the caller reads them and decides again.
        return [] if stored.repeats.unread else [*effects, *touched], stored
    # Events that are all stored already were appended when the conditions held, and are not appended again.
    if batch.conditions is not None and begun is None and not repeats.all_known(state, stream, batch):
        conditions.require(state, stream, batch.conditions)
    if begun is not None and batch.opening:
        opened, stream = _open(state, stream, begun, batch, now_ms, limits, ids)
        effects += opened
    placed, stored = place(state, stream, batch, now_ms, limits, ids)
    return [*effects, *placed] if effects else placed, stored


def _admit(
    stream: StreamRecord, batch: Batch, now_ms: int, limits: Limits, *, is_new: bool
) -> tuple[list[Effect], append.AppendResult] | None:
    close_only = not batch.drafts and not batch.is_test
    try:
        return append.admit(stream, batch.terms, now_ms, limits, close_only=close_only)
    except PreconditionNotMetError:
        if is_new:
            require_beginning(batch.terms.if_tail)  # which says that there is no session
        raise


class _Begun(NamedTuple):
    """A session that an append creates: the effects, and the attributes that it begins with."""

    created: StreamCreated
    attributes: dict[str, bytes]
    effects: list[Effect]


def _begin(state: State, key: Key, batch: Batch, now_ms: int, limits: Limits) -> _Begun:
    created = StreamCreated(state.next_id, *key, JSON, now_ms)
    if batch.session is None:
        return _Begun(created, {}, [created])
    attributes = {record.SESSION: record.encode(batch.session, limits)}
    by = Appender(batch.actor, batch.may_judge)
    attributes = cost_budget.begin(attributes, batch.session, by, 0, now_ms, limits)
    described = StreamDescribed(created.stream, now_ms, {**attributes})
    return _Begun(created, attributes, [created, described])


def _open(
    state: State,
    stream: StreamRecord,
    begun: _Begun,
    batch: Batch,
    now_ms: int,
    limits: Limits,
    ids: Ids,
) -> tuple[list[Effect], StreamRecord]:
    """Return the effects of what a new session begins with, and the stream as it is behind that."""
    first = Batch(batch.opening, batch.actor, append.Append(b"", JSON), may_judge=batch.may_judge)
    effects, stored = place(state, stream, first, now_ms, limits, ids)
    attributes = dict(begun.attributes)
    for effect in effects:
        if isinstance(effect, StreamDescribed):
            attributes |= {name: value for name, value in effect.attributes.items() if value is not None}
    return effects, state.as_created(begun.created, attributes, stored.tail)


def place(
    state: State, stream: StreamRecord, batch: Batch, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], Stored]:
    """Return the effects and the answer of an append that has been admitted."""
    alone = len(batch.drafts) == 1 and batch.key is None and not batch.terms.close
    if alone and _is_plain(stream, batch, batch.drafts[0]):
        return _place_plain(stream, batch, now_ms)
    effects: list[Effect] = []
    governor = _governor(state, stream, batch, now_ms, limits)
    added = _place(state, stream, batch, now_ms, ids, governor)
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
    if added.slots:
        effects.append(_slots_changed(state, stream, added.slots, limits))
    changed = _follow(stream, added.new, now_ms, limits, close=batch.terms.close)
    if governor is not None:
        changed |= governor.changes()
    if changed:
        effects.append(StreamDescribed(stream.id, now_ms, changed))
    if added.memory:
        effects += recording.effects(state, stream, added.memory, now_ms, limits)
    tail = stream.tail + len(added.lengths)
    return effects, Stored(
        tail, batch.terms.close, added.events, batch.terms.producer, life=life, repeats=added.repeats
    )


def _governor(
    state: State, stream: StreamRecord, batch: Batch, now_ms: int, limits: Limits
) -> Governor | None:
    """Return what checks the events against the session's state; None if nothing could refuse or follow."""
    attributes = stream.attributes
    kinds = [draft.type for draft in batch.drafts]
    is_free = batch.cost is msgspec.UNSET and (batch.epoch is None or kinds)
    if is_free and not any(governs(attributes, kind, batch.actor, batch.epoch) for kind in kinds):
        return None
    by = Appender(batch.actor, batch.may_judge)
    status = summary.of(attributes).status
    governor = Governor(
        attributes,
        by,
        now_ms,
        limits,
        status,
        lambda event: event in batch.calls,
        session_of(stream.key),
    )
    held_back = (draft.type for draft in batch.drafts if draft.imported != "trusted")
    try:
        governor.require_lease(held_back, batch.epoch)
    except (LeaseLostError, LeaseRequiredError):
        # What is all stored already is answered as the first time, whoever has the lease now.
        if not repeats.all_known(state, stream, batch):
            raise
    return governor


def _is_plain(stream: StreamRecord, batch: Batch, draft: Draft) -> bool:
    """Say whether an event has no name and changes no attribute, which is true of most."""
    return batch.cost is msgspec.UNSET and _changes_nothing(
        stream.attributes, draft, batch.actor, batch.epoch
    )


def _changes_nothing(attributes: Mapping[str, bytes], draft: Draft, actor: str, epoch: int | None) -> bool:
    """Say whether an event has no name, and nothing of the session follows from it."""
    if governs(attributes, draft.type, actor, epoch):
        return False
    if draft.id is not None or draft.thread is not None or draft.happened_ms is not None or draft.is_import:
        return False
    if draft.slots is not None:
        return False
    kind = draft.type
    is_folded = kind in summary.RELEVANT or kind == DEFINES
    return not is_folded and original_times.TIMES not in attributes


def plain(stream: StreamRecord, draft: Draft, actor: str, now_ms: int) -> tuple[RecordsAppended, str] | None:
    """Return what :func:`decide` does with nothing but one event, None if it needs more: a fast path.

    With the effect comes the incarnation. What could be refused needs more, and so do sessions that can
    expire.
    """
    attributes = stream.attributes
    if (
        stream.closed
        or stream.soft_deleted
        or stream.ttl_seconds is not None
        or stream.expires_at_ms is not None
        or record.ARCHIVED in attributes
        or not _changes_nothing(attributes, draft, actor, None)
    ):
        return None
    life = event_ids.tag(stream)
    data = _plain_event(stream, life, draft, actor, now_ms) + b","
    return RecordsAppended(stream.id, stream.tail, now_ms, (len(data),), None, None, False, data), life


def _plain_event(stream: StreamRecord, life: str, draft: Draft, actor: str, now_ms: int) -> bytes:
    """Return an event as it is stored that has nothing but its type and its place."""
    position = stream.tail
    event = event_ids.event_id(life, position)
    front = f'"id":"{event}","offset":"{offsets.encode(position)}",{_members(now_ms, actor)}'
    return draft.stored(front)


def _place_plain(stream: StreamRecord, batch: Batch, now_ms: int) -> tuple[list[Effect], Stored]:
    """Return what :func:`place` does for one plain event: a fast path for the most common append."""
    position, terms = stream.tail, batch.terms
    life = event_ids.tag(stream)
    stored = _plain_event(stream, life, batch.drafts[0], batch.actor, now_ms)
    data = stored + b","
    appended = RecordsAppended(
        stream.id, position, now_ms, (len(data),), terms.producer, terms.seq, terms.close, data
    )
    return [appended], Stored(position + 1, terms.close, [stored], terms.producer, life=life)


class _Added(NamedTuple):
    """What a batch adds to the stream, and the bytes or positions of all of its events."""

    events: list[bytes | int]
    pieces: list[bytes]
    lengths: list[int]
    names: list[Name]
    new: list[tuple[Draft, str | None, int]]
    repeats: Repeats
    slots: list[SlotChange]
    memory: list[tuple[MemoryIntent, ScopeRecord]]


def _place(
    state: State, stream: StreamRecord, batch: Batch, now_ms: int, ids: Ids, governor: Governor | None
) -> _Added:
    added = _Added([], [], [], [], [], Repeats(), [], [])
    tag = event_ids.tag(stream)
    back = _members(now_ms, batch.actor)
    suffix = "" if batch.key is None else event_ids.key_suffix(batch.key, batch.check)
    # When the catalog is rebuilt, the key is recovered from the stored events: from the end of a server's
    # id, or, if clients gave all the ids, from a member of the first event.
    mark = f'"request_key":"{suffix}",' if suffix and all(draft.id for draft in batch.drafts) else ""
    given: dict[str, KnownEvent] = {}
    looked_up: set[str] = set()

    def knows(target: str) -> bool:
        # Events of one request often rest on the same one, and a look-up may reach the catalog.
        if target in given or target in looked_up:
            return True
        if find(state, stream, target) is None:
            return False
        looked_up.add(target)
        return True

    position = stream.tail
    for index, draft in enumerate(batch.drafts):
        if draft.id is not None:
            # An id can also occur twice within one request.
            known = given.get(draft.id) or find(state, stream, draft.id)
            if known is not None:
                added.events.append(known.position)
                repeats.compare(stream, batch, index, known, added.repeats)
                if batch.unique and added.repeats.differ:
                    raise EventIdConflictError(event=draft.id, index=index)
                continue
            _require_not_reserved(stream, draft.id, index)
            given[draft.id] = KnownEvent(position, draft.digest)
            added.names.append(Name(event_ids.id_name(draft.id), position, 1, draft.digest))
        event = draft.id or event_ids.event_id(tag, position, suffix)
        body, outcome, members = _with_outcome(draft, ids)
        if index in batch.lives:
            members = f'"ref_incarnations":{msgspec.json.encode(batch.lives[index]).decode()},'
            body = b"{%b%b" % (members.encode(), draft.rest)
        if governor is not None:
            sent = SentEvent(draft.type, body, draft.strict, draft.imported)
            governor.take(sent, event, position, index, knows)
        front = f'"id":"{event}",{mark}"offset":"{offsets.encode(position)}",{back}'
        mark = ""
        piece = draft.stored(front + members) + b","
        added.pieces.append(piece)
        added.lengths.append(len(piece))
        added.events.append(piece[:-1])
        added.new.append((draft, outcome, position))
        if draft.slots is not None:
            added.slots.extend(draft.slots.changes(position))
        if draft.memory is not None and draft.strict is not None:
            name = recording.named(stream, tag, event)
            recorded = recording.record(draft.strict, draft.memory, name, batch.actor, now_ms)
            added.memory.append((draft.memory, recorded))
        position += 1
    if any(draft.dropped_by is not None for draft in batch.drafts):
        _drop_at_once(stream, added, are_all=len(added.new) == len(batch.drafts))
    if governor is not None and batch.cost is not msgspec.UNSET:
        governor.limit_cost(batch.cost, position)
    if governor is not None and added.lengths:
        _write_behind(stream, governor, added, back)
    if batch.key is not None and added.lengths:
        added.names.append(Name(event_ids.key_name(batch.key), stream.tail, len(added.lengths), batch.check))
    return added


def _with_outcome(draft: Draft, ids: Ids) -> tuple[bytes, str | None, str]:
    """Return an event as rules read it, the outcome that it defines, and the members that say so."""
    if draft.type != DEFINES:
        return draft.body, None, ""
    outcome, members = _outcome(draft, ids)
    return b'{"outcome_id":%b,%b' % (msgspec.json.encode(outcome), draft.rest), outcome, members


def _drop_at_once(stream: StreamRecord, added: _Added, *, are_all: bool) -> None:
    """Let only what stays of them be stored of new events that later ones of the same append drop."""
    drafts = [draft for draft, _, _ in added.new]
    events = [event for event in added.events if isinstance(event, bytes)]
    shown = [at for at, event in enumerate(added.events) if isinstance(event, bytes)]
    erased: set[int] = set()
    for at, left in dropped_at_once.replacements(drafts, events, are_all=are_all):
        if stream.held:
            raise LegalHoldError(path=stream.key.path)
        added.pieces[at], added.lengths[at], added.events[shown[at]] = left + b",", len(left) + 1, left
        erased.add(added.new[at][2])
    for at, name in enumerate(added.names):
        if name.first in erased:
            added.names[at] = Name(name.name, name.first, name.count, ERASED)


def _write_behind(stream: StreamRecord, governor: Governor, added: _Added, back: str) -> None:
    """Add what the server itself writes behind the events of a batch: a tripped budget, and companions."""
    tag = event_ids.tag(stream)

    def write(word: Word) -> None:
        position = stream.tail + len(added.lengths)
        event = event_ids.event_id(tag, position)
        body = governor.write(word, event, position)
        draft = Draft(word["type"], body, body[1:])
        piece = draft.stored(f'"id":"{event}","offset":"{offsets.encode(position)}",{back}') + b","
        added.pieces.append(piece)
        added.lengths.append(len(piece))
        added.new.append((draft, None, position))

    if (trip := governor.trip()) is not None:
        write(trip)
    for word in governor.companions():
        write(word)


def _slots_changed(
    state: State, stream: StreamRecord, changes: Sequence[SlotChange], limits: Limits
) -> SlotsChanged:
    """Return the effect of what new events do with slots; refuse if they use too many."""
    names = {change.name for change in changes if change.kind != EMPTIED_PREFIX}
    used = stream.slots_used + sum(not state.slot_is_known(stream, name) for name in names)
    if used > limits.slots_per_session_max:
        raise TooManySlotsError(slots_per_session_max=limits.slots_per_session_max)
    return SlotsChanged(stream.id, used, tuple(changes))


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
            problem=f"Only the server gives ids such as {event}; choose another.",
            index=index,
        )


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
    used = usage_days.fold(stream.attributes, [draft for draft, _, _ in new], now_ms, limits)
    if used is not None:
        changed[usage_days.USED] = used
    threaded = [draft for draft, _, _ in new if draft.thread is not None]
    if threaded:
        changed |= threads.fold(stream.attributes, threaded, now_ms, limits)
    if close:
        changed |= threads.closed({**stream.attributes, **changed}, now_ms)
    times = original_times.fold(stream.attributes, [draft for draft, _, _ in new], now_ms)
    if times is not None:
        changed[original_times.TIMES] = times
    return changed
