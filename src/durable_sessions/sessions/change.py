"""Decides changes of a session other than appends: update, archive, delete."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from durable_sessions.errors import SessionArchivedError, SessionRunningError
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import append, event_ids, record, summary, threads
from durable_sessions.sessions.create import encode
from durable_sessions.sessions.drafts import UPDATED, Draft
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.session_lookup import existing, require_life, require_tail, session_of
from durable_sessions.streams import lifetime
from durable_sessions.streams.append import Append
from durable_sessions.streams.effects import Effect, StreamDescribed
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key

Revise = Callable[[Record], tuple[Record, dict[str, object]]]
"""Makes a new record of one, and tells what of it has changed."""


@dataclass(slots=True)
class By:
    """Who changes a session; ``strict`` refuses what Anthropic's API refuses.

    With ``incarnation`` only that life of it is changed, with ``if_tail`` only if it ends there.
    """

    actor: str
    strict: bool = False
    incarnation: str | None = None
    if_tail: frozenset[int] | None = None


def update(
    state: State, key: Key, revise: Revise, by: By, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], str]:
    """Return the effects of an update: the record, and an event that says what has changed."""
    stream = _wanted(state, key, by, now_ms)
    _require_open(stream)
    said, changed = revise(record.of(stream.attributes))
    if not changed:
        return [], event_ids.tag(stream)
    if "agent" in changed:
        _require_rest(stream, by)
    described = StreamDescribed(stream.id, now_ms, {record.SESSION: encode(said, limits)})
    announced: list[Effect] = []
    if not stream.closed:  # a closed session can be renamed, but takes no event that says so
        announced = _tell(state, stream, UPDATED, changed, by, now_ms, limits, ids)
    return [described, *announced], event_ids.tag(stream)


def archive(
    state: State, key: Key, by: By, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], str]:
    """Return the effects of archiving a session: it is terminated and closed, so that its followers end."""
    stream = _wanted(state, key, by, now_ms)
    archived = record.ARCHIVED in stream.attributes
    if archived and stream.closed:
        return [], event_ids.tag(stream)
    _require_rest(stream, by)
    effects: list[Effect] = []
    ended = stream.closed or summary.of(stream.attributes).status == "terminated"
    if not stream.closed:
        kind = None if ended else "session.status_terminated"
        effects += _tell(state, stream, kind, {}, by, now_ms, limits, ids, close=True)
    changed: dict[str, bytes | None] = {} if archived else {record.ARCHIVED: b"%d" % now_ms}
    if ended:
        changed[summary.SUMMARY] = summary.end(stream.attributes, now_ms).encode()
    return [*effects, StreamDescribed(stream.id, now_ms, changed)], event_ids.tag(stream)


def archive_thread(
    state: State, key: Key, thread: str, by: By, now_ms: int
) -> tuple[list[Effect], threads.Thread | None]:
    """Return the effects of archiving a thread, and the thread; None if the session has no such thread."""
    stream = _wanted(state, key, by, now_ms)
    known = threads.of(stream.attributes).get(thread)
    if known is None or known.archived_at_ms is not None:
        return [], known
    archived = threads.archive(known, now_ms)
    return [StreamDescribed(stream.id, now_ms, {threads.PREFIX + thread: archived.encode()})], archived


def delete(state: State, key: Key, by: By, now_ms: int) -> tuple[list[Effect], str]:
    """Return the effects of deleting a session."""
    stream = _wanted(state, key, by, now_ms)
    _require_rest(stream, by)
    return list(lifetime.delete(state, key, now_ms)), event_ids.tag(stream)


def _wanted(state: State, key: Key, by: By, now_ms: int) -> StreamRecord:
    """Return the session that is to be changed, or refuse if it is not the one that is meant."""
    stream = existing(state, key, now_ms)
    if by.incarnation is not None:
        require_life(stream, by.incarnation)
    if by.if_tail is not None:
        require_tail(stream, by.if_tail)
    return stream


def _require_open(stream: StreamRecord) -> None:
    if record.ARCHIVED in stream.attributes:
        raise SessionArchivedError(session=session_of(stream.key))


def _require_rest(stream: StreamRecord, by: By) -> None:
    if by.strict and summary.of(stream.attributes).status == "running":
        raise SessionRunningError(session=session_of(stream.key))


def _tell(
    state: State,
    stream: StreamRecord,
    kind: str | None,
    members: dict[str, object],
    by: By,
    now_ms: int,
    limits: Limits,
    ids: Ids,
    *,
    close: bool = False,
) -> list[Effect]:
    """Return the effects of an event that the server itself appends; without a ``kind`` there is none."""
    drafts = []
    if kind is not None:
        body = msgspec.json.encode({"type": kind, **members})
        drafts.append(Draft(kind, body, body[1:], is_live=False))
    batch = append.Batch(drafts, by.actor, Append(b"", append.JSON, close=close))
    return append.place(state, stream, batch, now_ms, limits, ids)[0]
