"""Dropping: ``"slot_empty":"drop"`` erases the stored events that held the slots, in the same batch.

Only events of types of one's own are dropped: what Managed Agents' words say is the record of a run. Forks
that were made before go on showing what they show.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from durable_sessions.errors import InvalidEventError, LegalHoldError, OverloadedError
from durable_sessions.limits import Limits
from durable_sessions.sessions import digests, event_ids, slots, tombstones
from durable_sessions.sessions.batch import Batch, Stored
from durable_sessions.sessions.dropped_at_once import RECORDS_OF_RUNS
from durable_sessions.sessions.reading import EventReader
from durable_sessions.sessions.slot_cover import SlotCover
from durable_sessions.sessions.tombstones import DropMark, Remains
from durable_sessions.storage.door import Streams, StreamView
from durable_sessions.streams.effects import Effect, ErasedRecord, Name, RecordsErased
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.slots import NameRange
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.threads import CPU

_PAGE_NAMES = 1_000


class DropPlanStaleError(Exception):
    """The slots have changed since the events to drop were read, which are read again; no client sees it."""


@dataclass(slots=True)
class DropPlan:
    """The events that held the slots, with the slots of each, and what must not have changed since."""

    stream: int | None = None
    slot_changes: int = 0
    erasures: int = 0
    found: dict[int, tuple[Remains, tuple[str, ...]]] = field(default_factory=dict)


async def plan(streams: Streams, events: EventReader, key: Key, batch: Batch, limits: Limits) -> DropPlan:
    """Read all events of a session that ever held a slot that is dropped."""
    # The plan is read from durable state and compared with the tip. Unless what is pending is waited for, the
    # two would differ, and the plan would be stale at once.
    await streams.settled()
    durable = streams.peek(key)
    if durable is None or durable.removed:
        return DropPlan()
    made = DropPlan(durable.stream.id, streams.slot_changes(durable), durable.erasures)
    positions: set[int] = set()
    turn = events.turns.begin()
    for name in _names(streams, durable, batch):
        positions.update(at for at in streams.slot_history(durable, name) if at < durable.tail)
        if len(positions) > limits.dropped_events_max:
            raise InvalidEventError(
                problem=f"This drops more than {limits.dropped_events_max:,} events; drop fewer at once."
            )
        if turn.over:
            await turn.rest()
    for position in sorted(positions):
        stored = await events.one(durable, position)
        held = slots.of_event(stored)
        left = await CPU.run(tombstones.remains, stored)
        if not tombstones.is_tombstone(stored) and not left.type.startswith(RECORDS_OF_RUNS):
            made.found[position] = left, () if held is None else held.names
    return made


def _names(streams: Streams, durable: StreamView, batch: Batch) -> Iterator[str]:
    """Yield the slots that an append drops."""
    for draft in batch.drafts:
        wish = draft.slots
        if wish is None or not wish.drops:
            continue
        yield from wish.names
        after: str | None = None
        while wish.prefix is not None:
            page = streams.slot_names(durable, NameRange(wish.prefix, after), _PAGE_NAMES, held=False)
            yield from page
            if len(page) < _PAGE_NAMES:
                break
            after = page[-1]


def effects(
    state: State, key: Key, batch: Batch, made: DropPlan, stored: Stored, now_ms: int, limits: Limits
) -> list[Effect]:
    """Return the effects of dropping, in the batch of the append; none if the append was a repeat."""
    new = [
        (draft, event)
        for draft, event in zip(batch.drafts, stored.events, strict=False)
        if isinstance(event, bytes)
    ]
    is_dropping = any(draft.slots is not None and draft.slots.drops for draft, _ in new)
    stream = state.get(key)
    # The append may begin a new session, although a deleted one, which forks read, still has the path here.
    if not is_dropping or stream is None or event_ids.tag(stream) != stored.life:
        return []
    if stream.held:
        raise LegalHoldError(path=key.path)
    if (stream.id, stream.slot_changes, stream.erasures) != (made.stream, made.slot_changes, made.erasures):
        raise DropPlanStaleError
    changed: SlotCover[str] = SlotCover()
    dropped: SlotCover[str] = SlotCover()
    for draft, event in reversed(new):
        if draft.slots is not None:
            name = event_ids.stored_id(event) or ""
            changed.add(draft.slots, name)
            if draft.slots.drops:
                dropped.add(draft.slots, name)
    # The plan also has what the repeated events of the batch had dropped when they came for the first time.
    chosen = {
        position: (left, by)
        for position, (left, names) in made.found.items()
        if (by := next(filter(None, map(dropped.get, names)), None)) is not None
        and not _holds(state, stream, position, names, changed)
    }
    if not chosen:
        return []
    if len(stream.overlay) + len(chosen) > limits.overlay_records_max:
        raise OverloadedError(what="erased events that are still being removed (overlay_records_max)")
    # Forks that exist now have lower numbers than the next stream: they go on reading the records themselves.
    return [_erased(stream, chosen, state.next_stream if stream.forks else 0, now_ms)]


def _holds(
    state: State, stream: StreamRecord, position: int, names: Iterable[str], changed: SlotCover[str]
) -> bool:
    """Say whether an event still holds a slot once the new events are there."""
    return any(changed.get(name) is None and state.slot(stream, name) == position for name in names)


def _erased(
    stream: StreamRecord, chosen: dict[int, tuple[Remains, str]], spares: int, now_ms: int
) -> RecordsErased:
    records: list[ErasedRecord] = []
    names: list[Name] = []
    freed = 0
    for position, (left, by) in chosen.items():
        data = left.dropped(DropMark(by, left.size, left.sha256)) + b","
        records.append(ErasedRecord(position, data, spares))
        freed += left.size + 1 - len(data)
        if not event_ids.is_own(left.id, stream):
            names.append(Name(event_ids.id_name(left.id), position, 1, digests.ERASED))
    # As long as forks read the records, these stay in the bucket, so no bytes are given back.
    return RecordsErased(stream.id, now_ms, tuple(records), 0 if spares else freed, tuple(names))
