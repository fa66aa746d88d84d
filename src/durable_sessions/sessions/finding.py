"""Finding the stream of a session at the tip."""

from durable_sessions.errors import PathBlockedError, SessionNotFoundError, StreamGoneError
from durable_sessions.streams import lifetime
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream


def session_of(key: Key) -> str:
    """Return the id of the session whose stream this is."""
    return key.path.partition("/")[2]


def usable(
    state: State, key: Key, now_ms: int, effects: list[Effect], *, creates: bool = False
) -> Stream | None:
    """Return the stream of a session, None if there is none; refuse if only its forks need it.

    An expired one makes room for a new one: the effects of its expiry are added to ``effects``.
    With ``creates`` the refusal says that no other session can take its place.
    """
    stream = state.get(key)
    if stream is None or not (stream.soft_deleted or stream.mortal):
        return stream
    expired = lifetime.expire(state, key, now_ms)
    if stream.soft_deleted or (expired and stream.forks):
        raise PathBlockedError(path=key.path) if creates else StreamGoneError(path=key.path)
    effects += expired
    return None if expired else stream


def existing(state: State, key: Key, now_ms: int) -> Stream:
    """Return the stream of a session that can be used now, or refuse."""
    stream = usable(state, key, now_ms, [])
    if stream is None:
        raise SessionNotFoundError(session=session_of(key))
    return stream
