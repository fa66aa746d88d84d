"""Finds the stream of a session in the state at the tip, and checks the conditions of a request."""

from durable_sessions.errors import PreconditionNotMetError, SessionNotFoundError
from durable_sessions.sessions import event_ids
from durable_sessions.streams import lifetime, offsets
from durable_sessions.streams.effects import Effect, PathFreed
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key


def session_of(key: Key) -> str:
    """Return the id of the session whose stream this is."""
    return key.path.partition("/")[2]


def usable(state: State, key: Key, now_ms: int, effects: list[Effect]) -> StreamRecord | None:
    """Return the stream of a session, None if there is none.

    A deleted or expired session makes room for a new one: the effects of that are added to ``effects``. If
    it is kept for its forks, it gives up its path.
    """
    stream = state.get(key)
    # Most sessions can neither expire nor are deleted: no more is computed for these.
    if stream is None or not (stream.soft_deleted or stream.mortal):
        return stream
    expired = lifetime.expire(state, key, now_ms)
    effects += expired
    if stream.soft_deleted or (expired and stream.forks):
        effects.append(PathFreed(stream.id))
        return None
    return None if expired else stream


def existing(state: State, key: Key, now_ms: int) -> StreamRecord:
    """Return the stream of a session that can be used now, or refuse."""
    stream = usable(state, key, now_ms, [])
    if stream is None:
        raise SessionNotFoundError(session=session_of(key))
    return stream


def require_incarnation(stream: StreamRecord, incarnation: str) -> None:
    """Refuse a change that is meant for another incarnation of the session."""
    life = event_ids.tag(stream)
    if life != incarnation:
        raise PreconditionNotMetError(
            problem=f"The session is {life}, not {incarnation[:40]}: "
            "that one was deleted, and its id given to another.",
            exists=True,
            tail=offsets.encode(stream.tail),
            incarnation=life,
        )


def require_tail(stream: StreamRecord, tails: frozenset[int]) -> None:
    """Refuse a change unless the session ends at one of these tails."""
    if stream.tail not in tails:
        tail = offsets.encode(stream.tail)
        raise PreconditionNotMetError(
            problem=f"The session ends at {tail}, which If-Match does not name.",
            exists=True,
            tail=tail,
            incarnation=event_ids.tag(stream),
        )


def require_beginning(tails: frozenset[int] | None) -> None:
    """Refuse to create a session unless the end that is expected of it is its beginning."""
    if tails is not None and 0 not in tails:
        raise PreconditionNotMetError(
            problem="If-Match names where a session ends, and there is none.",
            exists=False,
            tail=offsets.encode(0),
        )


def present(stream: StreamRecord) -> PreconditionNotMetError:
    """Return the refusal of a change that requires that there is no session."""
    return PreconditionNotMetError(
        problem="If-None-Match wants that there is no session, and there is one.",
        exists=True,
        tail=offsets.encode(stream.tail),
        incarnation=event_ids.tag(stream),
    )


def absent() -> PreconditionNotMetError:
    """Return the refusal of a change that requires a session to exist."""
    return PreconditionNotMetError(
        problem="If-Match wants a session that exists, and there is none.",
        exists=False,
        tail=None,
    )
