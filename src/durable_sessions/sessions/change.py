"""Deciding changes of a session that are not appends: update, archive, delete."""

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from durable_sessions.errors import SessionArchivedError, SessionRunningError
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import append, record, summary, threads
from durable_sessions.sessions.create import encode
from durable_sessions.sessions.drafts import Draft
from durable_sessions.sessions.finding import existing, session_of
from durable_sessions.sessions.record import Record
from durable_sessions.streams import lifetime
from durable_sessions.streams.append import Append
from durable_sessions.streams.effects import Effect, StreamDescribed
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream

Revise = Callable[[Record], tuple[Record, dict[str, object]]]
"""Makes a new record of one, and tells what of it has changed."""


@dataclass(slots=True)
class By:
    """Who changes a session; ``strict`` refuses what Anthropic's API refuses."""

    actor: str
    strict: bool = False


def update(
    state: State, key: Key, revise: Revise, by: By, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], None]:
    """Return the effects of an update: the record, and an event that says what has changed."""
    stream = existing(state, key, now_ms)
    _require_open(stream)
    said, changed = revise(record.of(stream.attributes))
    if not changed:
        return [], None
    if "agent" in changed:
        _require_rest(stream, by)
    described = StreamDescribed(stream.id, now_ms, {record.SESSION: encode(said, limits)})
    told: list[Effect] = []
    if not stream.closed:
        told = _tell(state, stream, "session.updated", changed, by, now_ms, limits, ids)
    return [described, *told], None


def archive(
    state: State, key: Key, by: By, now_ms: int, limits: Limits, ids: Ids
) -> tuple[list[Effect], None]:
    """Return the effects of archiving a session: it is terminated, and takes nothing more."""
    stream = existing(state, key, now_ms)
    if record.ARCHIVED in stream.attributes:
        return [], None
    _require_rest(stream, by)
    effects: list[Effect] = []
    if summary.of(stream.attributes).status != "terminated" and not stream.closed:
        effects += _tell(state, stream, "session.status_terminated", {}, by, now_ms, limits, ids)
    changed: dict[str, bytes | None] = {record.ARCHIVED: b"%d" % now_ms}
    if not effects:
        changed[summary.SUMMARY] = summary.end(stream.attributes, now_ms).encode()
    return [*effects, StreamDescribed(stream.id, now_ms, changed)], None


def archive_thread(
    state: State, key: Key, thread: str, now_ms: int
) -> tuple[list[Effect], threads.Thread | None]:
    """Return the effects of archiving a thread, and the thread; None if the session has no such thread."""
    stream = existing(state, key, now_ms)
    known = threads.of(stream.attributes).get(thread)
    if known is None or known.archived_at_ms is not None:
        return [], known
    archived = threads.archive(known, now_ms)
    return [StreamDescribed(stream.id, now_ms, {threads.PREFIX + thread: archived.encode()})], archived


def delete(state: State, key: Key, by: By, now_ms: int) -> tuple[list[Effect], None]:
    """Return the effects of deleting a session."""
    _require_rest(existing(state, key, now_ms), by)
    return list(lifetime.delete(state, key, now_ms)), None


def _require_open(stream: Stream) -> None:
    if record.ARCHIVED in stream.attributes:
        raise SessionArchivedError(session=session_of(stream.key))


def _require_rest(stream: Stream, by: By) -> None:
    if by.strict and summary.of(stream.attributes).status == "running":
        raise SessionRunningError(session=session_of(stream.key))


def _tell(
    state: State,
    stream: Stream,
    kind: str,
    members: dict[str, object],
    by: By,
    now_ms: int,
    limits: Limits,
    ids: Ids,
) -> list[Effect]:
    """Return the effects of an event that the server itself appends."""
    body = msgspec.json.encode({"type": kind, **members})
    draft = Draft(kind, body, body[1:], is_live=False)
    batch = append.Batch([draft], by.actor, Append(b"", append.JSON))
    return append.place(state, stream, batch, now_ms, limits, ids)[0]
