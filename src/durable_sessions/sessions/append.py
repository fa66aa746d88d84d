"""Deciding an append to a session: what is new gets its place, what was there before is found again."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import (
    IdempotencyMismatchError,
    InvalidEventError,
    SessionArchivedError,
    SessionNotFoundError,
)
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import event_ids, original_times, record, summary, threads
from durable_sessions.sessions.drafts import DEFINES, Draft
from durable_sessions.sessions.finding import session_of, usable
from durable_sessions.streams import append, offsets
from durable_sessions.streams.effects import Appended, Effect, Name, StreamCreated, StreamDescribed
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Producer, Stream
from durable_sessions.times import rfc3339

JSON = "application/json"


class _Outcome(msgspec.Struct):
    outcome_id: msgspec.Raw = lenient.NULL
    max_iterations: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_OUTCOME = msgspec.json.Decoder(_Outcome)


@dataclass(slots=True)
class Batch:
    """A request to append events, to close the session, or both; ``terms`` are the stream's own conditions.

    With ``creates`` a session that is missing comes into being.
    """

    drafts: Sequence[Draft]
    actor: str
    terms: append.Append
    key: str | None = None
    check: int = 0
    creates: bool = True


@dataclass(slots=True)
class Stored:
    """The answer to an append: for each event its bytes if it is new, else its position."""

    tail: int
    closed: bool
    events: list[bytes | int] = field(default_factory=list)
    producer: Producer | None = None
    duplicate: bool = False


def decide(
    state: State, key: Key, batch: Batch, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], Stored]:
    """Return the effects and the answer of an append, or refuse it; a refusal changes nothing."""
    effects: list[Effect] = []
    stream = usable(state, key, now_ms, effects, creates=batch.creates)
    if stream is None:
        if not batch.creates:
            raise SessionNotFoundError(session=session_of(key))
        created = StreamCreated(state.next_id, *key, JSON, now_ms)
        effects.append(created)
        stream = Stream.of(created)
    elif record.ARCHIVED in stream.attributes:
        raise SessionArchivedError(session=session_of(key))
    if batch.key is not None:
        repeated = _repeated(state, stream, batch.key, batch)
        if repeated is not None:
            return effects, repeated
    repeat = append.admit(stream, batch.terms, now_ms, limits, close_only=not batch.drafts)
    if repeat is not None:
        touched, result = repeat
        return [*effects, *touched], Stored(result.tail, result.closed, [], result.producer, result.duplicate)
    placed, stored = place(state, stream, batch, now_ms, limits, ids)
    return [*effects, *placed] if effects else placed, stored


def place(
    state: State, stream: Stream, batch: Batch, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], Stored]:
    """Return the effects and the answer of an append that has been admitted."""
    if len(batch.drafts) == 1 and batch.key is None and _is_plain(stream, batch.drafts[0]):
        return _place_plain(stream, batch, now_ms)
    effects: list[Effect] = []
    added = _place(state, stream, batch, now_ms, ids)
    if added.lengths or batch.terms.close or batch.terms.producer is not None:
        effects.append(
            Appended(
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
    changed = _follow(stream, added.new, now_ms, limits)
    if changed:
        effects.append(StreamDescribed(stream.id, now_ms, changed))
    return effects, Stored(
        stream.tail + len(added.lengths), batch.terms.close, added.events, batch.terms.producer
    )


def _is_plain(stream: Stream, draft: Draft) -> bool:
    """Say whether an event has no name and changes nothing but the log, as most do not."""
    if draft.id is not None or draft.thread is not None or draft.happened_ms is not None:
        return False
    kind = draft.type
    is_told = kind in summary.RELEVANT or kind == DEFINES
    return not is_told and original_times.TIMES not in stream.attributes


def _place_plain(stream: Stream, batch: Batch, now_ms: int) -> tuple[list[Effect], Stored]:
    """Return the same for one plain event, of which there are so many that it is worth a way of its own."""
    position, terms = stream.tail, batch.terms
    event = event_ids.event_id(event_ids.tag(stream), position)
    front = f'"id":"{event}","offset":"{offsets.encode(position)}",{_members(now_ms, batch.actor)}'
    stored = batch.drafts[0].stored(front)
    data = stored + b","
    appended = Appended(
        stream.id, position, now_ms, (len(data),), terms.producer, terms.seq, terms.close, data
    )
    return [appended], Stored(position + 1, terms.close, [stored], terms.producer)


def _repeated(state: State, stream: Stream, key: str, batch: Batch) -> Stored | None:
    """Return the answer to a request that was carried out before with this key, None if none was."""
    found = state.named(stream, event_ids.key_name(key))
    if found is None:
        return None
    if found.check != batch.check:
        raise IdempotencyMismatchError
    events: list[bytes | int] = []
    position = found.first
    for index, draft in enumerate(batch.drafts):
        known = None if draft.id is None else _known(state, stream, draft.id, index)
        events.append(position if known is None else known)
        position += known is None or known == position
    return Stored(found.first + found.count, stream.closed, events, duplicate=True)


class _Added(NamedTuple):
    """What a batch adds, and where all of its events are then."""

    events: list[bytes | int]
    pieces: list[bytes]
    lengths: list[int]
    names: list[Name]
    new: list[tuple[Draft, str | None]]


def _place(state: State, stream: Stream, batch: Batch, now_ms: int, ids: Ids) -> _Added:
    added = _Added([], [], [], [], [])
    tag = event_ids.tag(stream)
    back = _members(now_ms, batch.actor)
    suffix = "" if batch.key is None else event_ids.key_suffix(batch.key, batch.check)
    # The key must be told from what is stored; an id that a client gave has no room for it.
    mark = f'"request_key":"{suffix}",' if suffix and all(draft.id for draft in batch.drafts) else ""
    given: dict[str, int] = {}
    position = stream.tail
    for index, draft in enumerate(batch.drafts):
        if draft.id is not None:
            known = given.get(draft.id)
            if known is None:
                known = _known(state, stream, draft.id, index)
            if known is not None:
                added.events.append(known)
                continue
            given[draft.id] = position
            added.names.append(Name(event_ids.id_name(draft.id), position, 1))
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
        added.new.append((draft, outcome))
        position += 1
    if batch.key is not None and added.lengths:
        added.names.append(Name(event_ids.key_name(batch.key), stream.tail, len(added.lengths), batch.check))
    return added


@lru_cache(maxsize=64)
def _members(now_ms: int, actor: str) -> str:
    """Return the server's members that the events of a moment have in common."""
    at = rfc3339(now_ms)
    return f'"created_at":"{at}","processed_at":"{at}","actor":{msgspec.json.encode(actor).decode()},'


def _outcome(draft: Draft, ids: Ids) -> tuple[str, str]:
    """Return the id of the outcome that an event defines, and the members that the event lacks."""
    given = lenient.decode(_OUTCOME, draft.body)
    members = '"max_iterations":null,' if given.max_iterations is msgspec.UNSET else ""
    if named := lenient.text(given.outcome_id):
        return named, members
    outcome = ids.token("outc_")
    return outcome, f'"outcome_id":"{outcome}",{members}'


def _known(state: State, stream: Stream, event: str, index: int) -> int | None:
    """Return where the event with an id is, None if it is new."""
    position = event_ids.position_of(event)
    if position is not None and event_ids.is_own(event, stream) and position >= stream.tail:
        raise InvalidEventError(
            problem=f"Event {index}: only the server gives ids such as {event}; choose another.",
            index=index,
        )
    if position is not None and _gave(state, stream, event, position):
        return position
    if not stream.named and stream.parent is None:
        return None
    found = state.named(stream, event_ids.id_name(event))
    return None if found is None else found.first


def _gave(state: State, stream: Stream, event: str, position: int) -> bool:
    """Say whether an id is the server's own, of an event of this stream or of one that it inherits."""
    holder: Stream | None = stream
    end = stream.tail
    while holder is not None:
        if event_ids.is_own(event, holder):
            return position < end
        end = min(end, holder.base)
        holder = state.parent(holder)
    return False


def _follow(
    stream: Stream, new: Sequence[tuple[Draft, str | None]], now_ms: int, limits: Limits
) -> dict[str, bytes | None]:
    """Return the attributes that new events change."""
    changed: dict[str, bytes | None] = {}
    relevant = [pair for pair in new if pair[0].type in summary.RELEVANT]
    if relevant:
        folded = summary.fold(stream.attributes, relevant, now_ms, limits)
        changed[summary.SUMMARY] = folded.encode()
    threaded = [draft for draft, _ in new if draft.thread is not None]
    if threaded:
        changed |= threads.fold(stream.attributes, threaded, now_ms, limits)
    times = original_times.fold(stream.attributes, (draft for draft, _ in new), now_ms)
    if times is not None:
        changed[original_times.TIMES] = times
    return changed
