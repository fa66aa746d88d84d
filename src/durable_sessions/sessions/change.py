"""Decides changes of a session other than appends: update, archive, delete."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from durable_sessions.errors import SessionArchivedError, SessionRunningError
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import append, cost_budget, event_ids, record, summary, threads
from durable_sessions.sessions.batch import JSON, Batch
from durable_sessions.sessions.drafts import UPDATED, Draft
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.rules import Appender
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.session_lookup import (
    existing,
    present,
    require_incarnation,
    require_tail,
    session_of,
)
from durable_sessions.streams import lifetime
from durable_sessions.streams.append import Append
from durable_sessions.streams.effects import Effect, StreamDescribed
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key

Revise = Callable[[Record], tuple[Record, dict[str, object]]]
"""Returns a changed record, and the properties that changed."""


@dataclass(slots=True)
class By:
    """Who changes a session, and on which conditions; ``strict`` refuses what Anthropic's API refuses.

    ``may_judge`` says that it is an evaluator.
    ``incarnation`` must be the session's; ``if_tail`` has the tails of which one must be the session's. With
    ``if_missing`` there must be no session, so that none is ever changed.
    """

    actor: str
    strict: bool = False
    may_judge: bool = False
    incarnation: str | None = None
    if_tail: frozenset[int] | None = None
    if_missing: bool = False


def update(
    state: State, key: Key, revise: Revise, by: By, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], str]:
    """Return the effects of an update: the record, and an event with what has changed."""
    stream = _wanted(state, key, by, now_ms)
    _require_open(stream)
    control = Control(stream.attributes, limits)
    kept = record.of(stream.attributes)
    # An event may have set another limit on cost since: what is shown is what is changed.
    said, changed = revise(msgspec.structs.replace(kept, budget=cost_budget.shown(kept, control.meter)))
    if not changed:
        return [], event_ids.tag(stream)
    cost: float | msgspec.UnsetType | None = msgspec.UNSET
    if "budget" in changed:
        cost = cost_budget.usd(said.budget)
        cost_budget.require_allowed(control, cost, Appender(by.actor, by.may_judge), limits)
    if "agent" in changed:
        _require_not_running(stream, by)
    described = StreamDescribed(stream.id, now_ms, {record.SESSION: record.encode(said, limits)})
    announced: list[Effect] = []
    if not stream.closed:  # a closed session can be renamed, but takes no event that says so
        announced = _server_event(state, stream, UPDATED, changed, by, now_ms, limits, ids, cost=cost)
    return [described, *announced], event_ids.tag(stream)


def archive(
    state: State, key: Key, by: By, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], str]:
    """Return the effects of archiving a session: it is terminated and closed, so that its followers end."""
    stream = _wanted(state, key, by, now_ms)
    archived = record.ARCHIVED in stream.attributes
    if archived and stream.closed:
        return [], event_ids.tag(stream)
    _require_not_running(stream, by)
    effects: list[Effect] = []
    # The event that terminates the session also closes the stream, in one effect: followers see both or none.
    ended = stream.closed or summary.of(stream.attributes).status == "terminated"
    if not stream.closed:
        kind = None if ended else "session.status_terminated"
        effects += _server_event(state, stream, kind, {}, by, now_ms, limits, ids, close=True)
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
    _require_not_running(stream, by)
    return list(lifetime.delete(state, key, now_ms)), event_ids.tag(stream)


def _wanted(state: State, key: Key, by: By, now_ms: int) -> StreamRecord:
    """Return the session to change, or refuse if it does not meet the conditions."""
    stream = existing(state, key, now_ms)
    if by.if_missing:
        raise present(stream)
    if by.incarnation is not None:
        require_incarnation(stream, by.incarnation)
    if by.if_tail is not None:
        require_tail(stream, by.if_tail)
    return stream


def _require_open(stream: StreamRecord) -> None:
    if record.ARCHIVED in stream.attributes:
        raise SessionArchivedError(session=session_of(stream.key))


def _require_not_running(stream: StreamRecord, by: By) -> None:
    if by.strict and summary.of(stream.attributes).status == "running":
        raise SessionRunningError(session=session_of(stream.key))


def _server_event(
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
    cost: float | msgspec.UnsetType | None = msgspec.UNSET,
) -> list[Effect]:
    """Return the effects of an event that the server itself appends; without a ``kind`` there is none."""
    drafts = []
    if kind is not None:
        body = msgspec.json.encode({"type": kind, **members})
        drafts.append(Draft(kind, body, body[1:], is_live=False))
    batch = Batch(drafts, by.actor, Append(b"", JSON, close=close), cost=cost)
    return append.place(state, stream, batch, now_ms, limits, ids)[0]
