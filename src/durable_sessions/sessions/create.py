"""Deciding the creation of a session: a new one, a fork of another, or the same one again."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import SessionExistsError, SessionTooLargeError
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import append, original_times, record
from durable_sessions.sessions.drafts import Draft
from durable_sessions.sessions.finding import session_of, usable
from durable_sessions.sessions.record import ForkedFrom, Record
from durable_sessions.streams import create
from durable_sessions.streams.append import Append
from durable_sessions.streams.effects import Effect, StreamCreated, StreamDescribed
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream

_MADE_FOR_RESOURCES = frozenset({"id", "created_at", "updated_at"})


@dataclass(slots=True)
class NewSession:
    """A request to create a session; with ``confirms`` one that is there already and agrees will do."""

    record: Record
    actor: str
    drafts: Sequence[Draft] = field(default_factory=list)
    ttl_seconds: int | None = None
    expires_at_ms: int | None = None
    fork: create.Fork | None = None
    confirms: bool = False
    closed: bool = False


def decide(
    state: State, key: Key, request: NewSession, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], bool]:
    """Return the effects of a creation and whether the session is new, or refuse it."""
    existing = usable(state, key, now_ms, [], creates=True)
    if existing is not None:
        _require_same(existing, request)
        return [], False
    wanted = create.Create(append.JSON, request.ttl_seconds, request.expires_at_ms, fork=request.fork)
    effects, _ = create.decide(state, key, wanted, now_ms, limits, None)
    created = effects[-1]
    assert isinstance(created, StreamCreated)
    said = _record(state, created, request)
    stream = Stream.of(created)
    if said != record.EMPTY:
        document = encode(said, limits)
        stream.attributes = {record.SESSION: document}
        effects.append(StreamDescribed(created.stream, now_ms, {record.SESSION: document}))
    if (times := _inherited_times(state, created)) is not None:
        stream.attributes = {**stream.attributes, original_times.TIMES: times}
        effects.append(StreamDescribed(created.stream, now_ms, {original_times.TIMES: times}))
    if request.drafts or request.closed:
        terms = Append(b"", append.JSON, close=request.closed)
        batch = append.Batch(request.drafts, request.actor, terms)
        placed, _ = append.place(state, stream, batch, now_ms, limits, ids)
        effects += placed
    return effects, True


def _inherited_times(state: State, created: StreamCreated) -> bytes | None:
    source = None if created.parent is None else state.get_id(created.parent)
    return None if source is None else original_times.inherited(source.attributes)


def encode(said: Record, limits: Limits) -> bytes:
    """Return what is said of a session as it is stored, or refuse it if it is too much."""
    document = said.encode()
    if len(document) > limits.session_document_bytes_max:
        raise SessionTooLargeError(
            size=len(document), session_document_bytes_max=limits.session_document_bytes_max
        )
    return document


def _record(state: State, created: StreamCreated, request: NewSession) -> Record:
    """Return what is said of a new session; a fork takes over what it does not say itself."""
    said = msgspec.structs.replace(request.record, created_by=request.actor)
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
    """Return the names of the fields that were said."""
    return [name for name in said.__struct_fields__ if getattr(said, name) != getattr(record.EMPTY, name)]


def _require_same(existing: Stream, request: NewSession) -> None:
    session = session_of(existing.key)
    if not request.confirms:
        raise SessionExistsError(session=session, difference="a new one was asked for")
    there = record.of(existing.attributes)
    for name in _given(request.record):
        if _plain(name, request.record) != _plain(name, there):
            raise SessionExistsError(session=session, difference=name)
    lifetime = (request.ttl_seconds, request.expires_at_ms)
    if lifetime != (None, None) and lifetime != (existing.ttl_seconds, existing.expires_at_ms):
        raise SessionExistsError(session=session, difference="TTL or expiry")
    if request.fork is not None:
        source = there.forked_from
        if source is None or record.path_of(source.session_id) != request.fork.source:
            raise SessionExistsError(session=session, difference="what it is forked from")
        if request.fork.anchor is not None and request.fork.anchor != source.position:
            raise SessionExistsError(session=session, difference="where it is forked")


def _plain(name: str, said: Record) -> object:
    """Return a field that can be compared, whatever spelling its JSON has, without what the server adds."""
    value = lenient.loads(msgspec.json.encode(getattr(said, name)))
    if name != "resources":
        return value
    return [{key: one[key] for key in one if key not in _MADE_FOR_RESOURCES} for one in value]
