"""Finding, deleting and expiring streams."""

from durable_sessions.errors import StreamGoneError, StreamNotFoundError
from durable_sessions.limits import Limits
from durable_sessions.streams.effects import StreamRemoved, StreamTouched
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream


def find(state: State, key: Key, now_ms: int) -> Stream:
    """Return a stream that can be used now, or say that it is missing or gone."""
    stream = state.get(key)
    if stream is None:
        raise StreamNotFoundError(path=key.path)
    if stream.soft_deleted:
        raise StreamGoneError(path=key.path)
    if stream.expired(now_ms):
        raise StreamGoneError(path=key.path) if stream.forks else StreamNotFoundError(path=key.path)
    return stream


def remove(state: State, stream: Stream) -> list[StreamRemoved]:
    """Return the effects of deleting a stream: soft while it has forks, else up its ancestry too."""
    if stream.forks:
        return [StreamRemoved(stream.id, soft=True)]
    effects = [StreamRemoved(stream.id)]
    ancestor = state.parent(stream)
    while ancestor is not None and ancestor.soft_deleted and ancestor.forks == 1:
        effects.append(StreamRemoved(ancestor.id))
        ancestor = state.parent(ancestor)
    return effects


def expire(state: State, key: Key, now_ms: int) -> list[StreamRemoved]:
    """Return the effects of a stream's expiry, none if it has not expired."""
    stream = state.get(key)
    if stream is None or stream.soft_deleted or not stream.expired(now_ms):
        return []
    return remove(state, stream)


def touch_lag_ms(stream: Stream, limits: Limits) -> int:
    """Return how far the recorded access of a stream with a TTL may lag behind the real one."""
    assert stream.ttl_seconds is not None
    return min(int(limits.touch_lag_seconds_max * 1000), stream.ttl_seconds * 100)


def touch(stream: Stream, now_ms: int, limits: Limits) -> list[StreamTouched]:
    """Renew a sliding TTL in memory; return an effect when the record of it has become too old."""
    if stream.ttl_seconds is None:
        return []
    stream.accessed_at_ms = max(stream.accessed_at_ms, now_ms)
    if now_ms - stream.recorded_at_ms < touch_lag_ms(stream, limits):
        return []
    return [StreamTouched(stream.id, now_ms)]


def grant_lag(stream: Stream, limits: Limits) -> None:
    """After a replay, give a stream the time that its last recorded access may have lagged behind."""
    if stream.ttl_seconds is not None:
        stream.accessed_at_ms = stream.recorded_at_ms + touch_lag_ms(stream, limits)
