"""Decides a redaction: events are erased, with what attributes say of them, and an event records it.

Everything is one batch. Events that a fork inherits are erased where they lie, for the source and all forks.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from durable_sessions.errors import LegalHoldError, OverloadedError
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import append, digests, event_ids, record, summary, usage_days
from durable_sessions.sessions.batch import JSON, Batch
from durable_sessions.sessions.change import By
from durable_sessions.sessions.drafts import Draft
from durable_sessions.sessions.graph import control
from durable_sessions.sessions.memory import erasing
from durable_sessions.sessions.memory.erasing import OwedErasure, RecordToErase
from durable_sessions.sessions.memory.records import encode, scope_key
from durable_sessions.sessions.session_lookup import existing, require_incarnation, require_tail
from durable_sessions.sessions.tombstones import Mark, Remains
from durable_sessions.streams.append import Append
from durable_sessions.streams.effects import Effect, ErasedRecord, Name, RecordsErased, StreamDescribed
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.times import rfc3339

REDACTED = "ds.redacted"


@dataclass(slots=True)
class Redaction:
    """A request to erase events and artifacts; without ``digest`` no SHA-256 of the events is kept."""

    events: Sequence[str]
    reason: str
    artifacts: Sequence[str] = ()
    digest: bool = True


class EventToErase(NamedTuple):
    """An event to erase: the stream that holds it, its position there, and what stays of it."""

    stream: int
    position: int
    remains: Remains


class MemoryToErase(NamedTuple):
    """The record of an event in a memory scope; None if the scope is in another partition."""

    target: EventToErase
    scope: str
    incarnation: str
    record: RecordToErase | None


@dataclass(slots=True)
class RedactionPlan:
    """What was read before the decision, and what must not have changed since.

    ``erasures`` counts those of each stream that holds a target. ``shown_by`` are the streams that show a
    target, these and their forks; ``rewritten`` are those of them whose attributes have a text of a target,
    each with what remains of these. ``next_stream`` is the number that the next stream gets. ``memory`` is
    what memory scopes have of the targets.
    """

    targets: list[EventToErase] = field(default_factory=list)
    erasures: dict[int, int] = field(default_factory=dict)
    shown_by: set[int] = field(default_factory=set)
    rewritten: dict[int, list[Remains]] = field(default_factory=dict)
    next_stream: int = 0
    memory: list[MemoryToErase] = field(default_factory=list)


class Redacted(NamedTuple):
    """The answer: the event that records it, or the position of a new one; neither if there is none.

    Without ``done`` nothing was changed, because the plan no longer holds: plan again.
    """

    life: str
    position: int | None = None
    event: bytes | None = None
    done: bool = True


def decide(
    state: State,
    key: Key,
    request: Redaction,
    plan: RedactionPlan,
    by: By,
    now_ms: int,
    limits: Limits,
    ids: Ids,
) -> tuple[list[Effect], Redacted]:
    """Return the effects of a redaction and its answer, or refuse it."""
    session = existing(state, key, now_ms)
    if by.incarnation is not None:
        require_incarnation(session, by.incarnation)
    if by.if_tail is not None:
        require_tail(session, by.if_tail)
    life = event_ids.tag(session)
    if not _holds(state, plan):
        return [], Redacted(life, done=False)
    takes_events = not session.closed and record.ARCHIVED not in session.attributes
    event = event_ids.event_id(life, session.tail) if takes_events else None
    effects: list[Effect] = []
    for number in plan.erasures:
        stream = state.get_id(number)
        assert stream is not None, "the plan holds"
        targets = [one for one in plan.targets if one.stream == number]
        # A legal hold of any stream that has a target, such as the source of a fork, refuses the whole.
        if stream.held:
            raise LegalHoldError(path=stream.key.path)
        effects.append(_erased(stream, targets, request, event, now_ms, limits))
    for number, erased in plan.rewritten.items():
        shown = state.get_id(number)
        assert shown is not None, "the plan holds"
        if changed := without_texts(shown.attributes, erased, limits):
            effects.append(StreamDescribed(number, now_ms, {**changed}))
    for one in plan.memory:
        mark = _mark(one.target.remains, request, event, now_ms)
        effects += _erased_memory(state, key.workspace, one, mark, by.actor, now_ms, limits)
    if event is not None:
        effects += _recorded(state, session, request, plan, by, now_ms, limits, ids)
    return effects, Redacted(life, None if event is None else session.tail)


def _holds(state: State, plan: RedactionPlan) -> bool:
    """Say whether what was planned is still so: nothing was erased since, and no fork made."""
    for number, erasures in plan.erasures.items():
        stream = state.get_id(number)
        if stream is None or stream.erasures != erasures:
            return False
    # Only streams that are newer than the plan can be forks that it does not know.
    forks = range(plan.next_stream, state.next_stream)
    made = (state.by_id.get(number) for number in forks)
    if any(one is not None and one.parent in plan.shown_by for one in made):
        return False
    return all(state.get_id(number) is not None for number in plan.rewritten)


def _erased(
    stream: StreamRecord,
    targets: Sequence[EventToErase],
    request: Redaction,
    event: str | None,
    now_ms: int,
    limits: Limits,
) -> RecordsErased:
    if len(stream.overlay) + len(targets) > limits.overlay_records_max:
        raise OverloadedError(what="erased events that are still being removed (overlay_records_max)")
    records: list[ErasedRecord] = []
    names: list[Name] = []
    freed = 0
    for one in targets:
        data = one.remains.tombstone(_mark(one.remains, request, event, now_ms)) + b","
        records.append(ErasedRecord(one.position, data))
        freed += one.remains.size + 1 - len(data)
        if not event_ids.is_own(one.remains.id, stream):
            names.append(Name(event_ids.id_name(one.remains.id), one.position, 1, digests.ERASED))
    return RecordsErased(stream.id, now_ms, tuple(records), freed, tuple(names))


def _erased_memory(
    state: State, workspace: str, one: MemoryToErase, mark: Mark, by: str, now_ms: int, limits: Limits
) -> Sequence[Effect]:
    """Return the effects of erasing a memory: in this batch, or owed to the partition that has the scope."""
    if one.record is not None:
        return erasing.effects(state, one.record, mark, by, now_ms, limits)
    # The other partition carries it out later; as a part of this batch the debt cannot be lost.
    owed = encode(OwedErasure(one.target.remains.id, one.incarnation, mark, by))
    return state.outbox.owe([(scope_key(workspace, one.scope), owed)], limits.outbox_bytes_max)


def _mark(remains: Remains, request: Redaction, event: str | None, now_ms: int) -> Mark:
    sha256, size = _digest(remains, request), remains.size
    # It was erased before: then the marks are of what was there first, not of the tombstone.
    if remains.earlier is not None:
        size = remains.earlier.bytes
    return Mark(event, rfc3339(now_ms), request.reason, sha256, size)


def _digest(remains: Remains, request: Redaction) -> str | None:
    if not request.digest:
        return None
    return remains.sha256 if remains.earlier is None else remains.earlier.sha256


def _recorded(
    state: State,
    session: StreamRecord,
    request: Redaction,
    plan: RedactionPlan,
    by: By,
    now_ms: int,
    limits: Limits,
    ids: Ids,
) -> Sequence[Effect]:
    """Return the effects of the event that says what was erased, and why."""
    events = [
        {
            "id": one.remains.id,
            "offset": one.remains.offset,
            "type": one.remains.type,
            "sha256": _digest(one.remains, request),
            "bytes": one.remains.size if one.remains.earlier is None else one.remains.earlier.bytes,
        }
        for one in plan.targets
    ]
    said: dict[str, object] = {"type": REDACTED, "events": events, "reason": request.reason}
    if request.artifacts:
        said["artifacts"] = list(request.artifacts)
    body = msgspec.json.encode(said)
    draft = Draft(REDACTED, body, body[1:], is_live=False)
    batch = Batch([draft], by.actor, Append(b"", JSON))
    return append.place(state, session, batch, now_ms, limits, ids)[0]


# Attributes -----------------------------------------------------------------------------


def without_texts(
    attributes: Mapping[str, bytes], erased: Iterable[Remains], limits: Limits
) -> dict[str, bytes]:
    """Return the attributes that hold texts of erased events, without these; nothing if none does."""
    remains = list(erased)
    known = {text for one in remains for text in one.texts}
    changed: dict[str, bytes] = {}
    said = record.of(attributes)
    if said.title and any(_begins(text, said.title) for text in known):
        changed[record.SESSION] = msgspec.structs.replace(said, title=None).encode()
    folded = summary.of(attributes)
    for outcome in folded.outcomes:
        if outcome.description in known or outcome.explanation in known:
            outcome.description = "" if outcome.description in known else outcome.description
            outcome.explanation = None if outcome.explanation in known else outcome.explanation
            changed[summary.SUMMARY] = folded.encode()
    if (used := usage_days.without_names(attributes, known)) is not None:
        changed[usage_days.USED] = used
    return changed | control.without_events(attributes, {one.id for one in remains}, limits)


def _begins(text: str, title: str) -> bool:
    """Say whether a title was taken from a text: its beginning, or that of a line, with spaces joined."""
    wanted = " ".join(title.removesuffix("…").removesuffix("...").split())
    if not wanted:
        return False
    # Titles are made of the first words of a message or of a line in it, with their spaces joined.
    joined = " ".join(text.split())
    lines = (" ".join(line.split()) for line in text.splitlines())
    return joined.startswith(wanted) or any(line.startswith(wanted) for line in lines)
