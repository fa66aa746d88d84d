"""Decides the creation of a session: a new one, a fork of another, or a repeat for one that exists."""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import DurableSessionsError, InvalidHeaderError, SessionExistsError
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import append, cost_budget, digests, event_ids, original_times, record, summary
from durable_sessions.sessions.batch import JSON, NO_REPEATS, Batch, Repeats
from durable_sessions.sessions.drafts import Draft
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.rules import Appender
from durable_sessions.sessions.record import ForkedFrom, Record
from durable_sessions.sessions.session_lookup import present, require_incarnation, session_of, usable
from durable_sessions.streams import create
from durable_sessions.streams.append import Append
from durable_sessions.streams.effects import Effect, StreamCreated, StreamDescribed
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.times import rfc3339

_MADE_FOR_RESOURCES = frozenset({"id", "created_at", "updated_at"})


@dataclass(slots=True)
class NewSession:
    """A request to create a session; with ``confirms`` an existing session that matches is accepted.

    With ``unique`` two initial events must not have the same id. ``source_life`` is the incarnation that the
    source of a fork must have. ``may_judge`` says that the caller is an evaluator. ``folded`` is the control
    of a source at the position where the fork begins, by (stream, position). With ``only_new`` a session that
    exists is refused, even if it matches. ``calls``, ``lives`` and ``unresolved`` are what the initial events
    refer to, as in an append.
    """

    record: Record
    actor: str
    drafts: Sequence[Draft] = field(default_factory=list)
    ttl_seconds: int | None = None
    expires_at_ms: int | None = None
    fork: create.Fork | None = None
    confirms: bool = False
    closed: bool = False
    unique: bool = False
    source_life: str | None = None
    may_judge: bool = False
    folded: dict[tuple[int, int], dict[str, bytes]] = field(default_factory=dict)
    only_new: bool = False
    calls: Container[str] = ()
    lives: Mapping[int, list[str | None]] = field(default_factory=dict)
    unresolved: Mapping[int, DurableSessionsError] = field(default_factory=dict)
    _digest: str | None = None

    def digest(self) -> str:
        """Return the digest of the initial events; computed once, since large ones take long."""
        if self._digest is None:
            self._digest = digests.of_creation((draft.id, draft.body) for draft in self.drafts)
        return self._digest


@dataclass(slots=True)
class Made:
    """The answer to a creation: whether the session is new, and its incarnation.

    ``ignored`` says that the initial events could not be compared: the session is older than their digest.
    ``repeats`` are initial events that occur twice, or that a fork inherits. If the control of the source at
    a position is ``unfolded``, as (stream, position), nothing was created: fold it and decide again.
    """

    new: bool
    life: str
    ignored: bool = False
    repeats: Repeats = NO_REPEATS
    unfolded: tuple[int, int] | None = None


def decide(
    state: State, key: Key, request: NewSession, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], Made]:
    """Return the effects of a creation and its answer, or refuse it."""
    existing = usable(state, key, now_ms, [])
    if existing is not None:
        if request.only_new:
            raise present(existing)
        ignored = _require_same(state, existing, request)
        return [], Made(False, event_ids.tag(existing), ignored)
    if request.unresolved:  # checked of a new session only: of a repeat, the targets may be gone since
        raise request.unresolved[min(request.unresolved)]
    _require_future(request, now_ms)
    wanted = create.Create(JSON, request.ttl_seconds, request.expires_at_ms, fork=request.fork)
    effects, _ = create.decide(state, key, wanted, now_ms, limits, None, frees=True)
    created = effects[-1]
    assert isinstance(created, StreamCreated)
    attributes = {record.SESSION: record.encode(_record(state, created, request), limits)}
    if created.parent is not None:
        inherited = _inherited(state, created, request, limits)
        if inherited is None:
            return [], Made(False, "", unfolded=(created.parent, created.base))
        attributes |= inherited
    by = Appender(request.actor, request.may_judge)
    attributes = cost_budget.begin(attributes, request.record, by, created.base, now_ms, limits)
    stream = state.as_created(created, attributes)
    effects.append(StreamDescribed(created.stream, now_ms, {**attributes}))
    made = Made(True, event_ids.tag(stream))
    if request.drafts or request.closed:
        terms = Append(b"", JSON, close=request.closed)
        batch = Batch(
            request.drafts,
            request.actor,
            terms,
            unique=request.unique,
            may_judge=request.may_judge,
            calls=request.calls,
            lives=request.lives,
        )
        placed, stored = append.place(state, stream, batch, now_ms, limits, ids)
        if stored.repeats.unread:
            # Ids that the server gave to events that the fork inherits, whose bodies are not read here. A
            # digest that no event has makes these count as different.
            batch.digests = {(stored.life, position): -1 for position in stored.repeats.unread}
            placed, stored = append.place(state, stream, batch, now_ms, limits, ids)
        effects += placed
        made.repeats = stored.repeats
    return effects, made


def _require_future(request: NewSession, now_ms: int) -> None:
    """Refuse a session that would have expired already."""
    if request.ttl_seconds == 0:
        raise InvalidHeaderError(
            header="Stream-TTL", problem="a session that lives for 0 seconds is gone at once; send at least 1"
        )
    if request.expires_at_ms is not None and request.expires_at_ms <= now_ms:
        raise InvalidHeaderError(
            header="Stream-Expires-At",
            problem=f"{rfc3339(request.expires_at_ms)} is past, now is {rfc3339(now_ms)}; send a later time",
        )


def _inherited(
    state: State, created: StreamCreated, request: NewSession, limits: Limits
) -> dict[str, bytes] | None:
    """Return the attributes that a fork takes over from its source: outcomes, original times, control.

    None if the source has changed its control behind the fork, and what it was there is not folded yet.
    """
    assert created.parent is not None
    parent = state.get_id(created.parent)
    assert parent is not None, "a fork has a source"
    if request.source_life is not None:
        require_incarnation(parent, request.source_life)
    inherited: dict[str, bytes] = {}
    if (folded := summary.inherited(parent.attributes, created.base)) is not None:
        inherited[summary.SUMMARY] = folded.encode()
    if (times := original_times.inherited(parent.attributes)) is not None:
        inherited[original_times.TIMES] = times
    control = Control(parent.attributes, limits)
    if control.through <= created.base:
        return inherited | control.cross_fork().attributes()
    begun = request.folded.get((created.parent, created.base))
    return None if begun is None else inherited | begun


def _record(state: State, created: StreamCreated, request: NewSession) -> Record:
    """Return the record of a new session; a fork inherits what the request does not set."""
    said = msgspec.structs.replace(request.record, created_by=request.actor, begins_with=request.digest())
    if request.fork is None:
        return said
    assert created.parent is not None
    parent = state.get_id(created.parent)
    assert parent is not None, "a fork has a source"
    source = record.of(parent.attributes)
    given = {name: getattr(said, name) for name in _given(said)}
    forked_from = ForkedFrom(session_of(parent.key), created.base)
    return msgspec.structs.replace(source, **{**given, "forked_from": forked_from})


def _given(said: Record) -> list[str]:
    """Return the names of the fields that were set."""
    return [name for name in said.__struct_fields__ if getattr(said, name) != getattr(record.EMPTY, name)]


def _require_same(state: State, existing: StreamRecord, request: NewSession) -> bool:
    """Refuse if a session does not match a request; say whether its initial events are unknown."""
    session = session_of(existing.key)
    if not request.confirms:
        raise SessionExistsError(session=session, difference="and cannot be created again")
    there = record.of(existing.attributes)
    for name in _given(request.record):
        if not _agrees(name, request.record, there):
            raise SessionExistsError(session=session, difference=f"with another {name}")
    lifetime = (request.ttl_seconds, request.expires_at_ms)
    if lifetime != (None, None) and lifetime != (existing.ttl_seconds, existing.expires_at_ms):
        raise SessionExistsError(session=session, difference="with another TTL or expiry")
    if request.fork is not None:
        source = there.forked_from
        named = state.get(Key(existing.key.workspace, request.fork.source))
        # The source may be deleted, and its id have been given to another session since.
        other = named is not None and not named.soft_deleted and named.id != existing.parent
        if source is None or record.path_of(source.session_id) != request.fork.source or other:
            raise SessionExistsError(session=session, difference="and is not a fork of that session")
        if request.fork.anchor is not None and request.fork.anchor != source.position:
            raise SessionExistsError(session=session, difference="and was forked at another position")
    if not request.drafts:
        return False
    begun_with = there.begins_with
    if begun_with is None and there.created_by is not None:
        return True  # created before the digest was kept
    if begun_with != request.digest():
        raise SessionExistsError(session=session, difference="and began with other events")
    return False


def _agrees(name: str, request: Record, there: Record) -> bool:
    """Say whether a session has the value that a request sets; of metadata, only the given keys count."""
    wanted, found = _plain(name, request), _plain(name, there)
    if not isinstance(wanted, dict) or name != "metadata" or not isinstance(found, dict):
        return wanted == found
    return all(found.get(key) == value for key, value in wanted.items())


def _plain(name: str, said: Record) -> object:
    """Return a field for comparison: decoded, since spelling does not count, without additions."""
    value = lenient.loads(msgspec.json.encode(getattr(said, name)))
    if name != "resources":
        return value
    return [{key: one[key] for key in one if key not in _MADE_FOR_RESOURCES} for one in value]
