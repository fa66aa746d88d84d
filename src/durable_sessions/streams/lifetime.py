"""Finds, deletes and expires streams."""

from durable_sessions.errors import LegalHoldError, StreamGoneError, StreamNotFoundError
from durable_sessions.limits import Limits
from durable_sessions.streams.effects import StreamRemoved, StreamTouched
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream


def find(state: State, key: Key, now_ms: int) -> Stream:
    """Return a stream that can be used now; raise if it is missing or gone."""
    stream = state.get(key)
    if stream is None:
        raise StreamNotFoundError(path=key.path)
    if stream.soft_deleted:
        raise StreamGoneError(path=key.path)
    if stream.expired(now_ms):
        raise StreamGoneError(path=key.path) if stream.forks else StreamNotFoundError(path=key.path)
    return stream


def delete(state: State, key: Key, now_ms: int) -> list[StreamRemoved]:
    """Return the effects of deleting a stream, or refuse: it is missing, gone, or under a legal hold."""
    stream = find(state, key, now_ms)
    if stream.held:
        raise LegalHoldError(path=key.path)
    return remove(state, stream)


def remove(state: State, stream: Stream) -> list[StreamRemoved]:
    """Return the effects of removing a stream: soft while it has forks, otherwise final.

    Ancestors that were kept only for this stream are removed with it.
    """
    if stream.forks:
        return [StreamRemoved(stream.id, soft=True)]
    effects = [StreamRemoved(stream.id)]
    ancestor = state.parent(stream)
    while ancestor is not None and ancestor.soft_deleted and ancestor.forks == 1 and not ancestor.held:
        effects.append(StreamRemoved(ancestor.id))
        ancestor = state.parent(ancestor)
    return effects


def expire(state: State, key: Key, now_ms: int) -> list[StreamRemoved]:
    """Return the effects of a stream's expiry, none if it has not expired."""
    stream = state.get(key)
    if stream is None or stream.soft_deleted or not stream.expired(now_ms):
        return []
    return remove(state, stream)


def removal_ms(stream: Stream, limits: Limits) -> int | None:
    """Return when a sweep removes a stream that nobody uses until then; None if none does."""
    if stream.held or (stream.soft_deleted and stream.forks):
        return None
    if stream.soft_deleted:
        return 0  # overdue: its last fork went while a legal hold kept it
    ends = [stream.deadline_ms()]
    if stream.idle_ms is not None:
        ends.append(stream.recorded_at_ms + stream.idle_ms + idle_lag_ms(stream.idle_ms, limits))
    if stream.closed_at_ms is not None and stream.closed_ms is not None:
        ends.append(stream.closed_at_ms + stream.closed_ms)
    return min((end for end in ends if end is not None), default=None)


def retire(state: State, stream: Stream, now_ms: int, limits: Limits) -> list[StreamRemoved]:
    """Return the effects of removing a stream if that is due; none otherwise."""
    end = removal_ms(stream, limits)
    return [] if end is None or now_ms < end else remove(state, stream)


def idle_lag_ms(idle_ms: int, limits: Limits) -> int:
    """Return how far the recorded access of a stream with an idle policy may lag behind the real one."""
    return min(int(limits.idle_touch_lag_seconds_max * 1000), idle_ms // 10)


def touch_lag_ms(stream: Stream, limits: Limits) -> int:
    """Return how far the recorded access of a stream with a TTL may lag behind the real one."""
    assert stream.ttl_seconds is not None
    return min(int(limits.touch_lag_seconds_max * 1000), stream.ttl_seconds * 100)  # a tenth of the TTL


def touch(stream: StreamRecord, now_ms: int, limits: Limits) -> list[StreamTouched]:
    """Renew a sliding TTL in memory; return an effect if the last recorded access is too old."""
    assert isinstance(stream, Stream)
    lags = []
    if stream.ttl_seconds is not None:
        stream.accessed_at_ms = max(stream.accessed_at_ms, now_ms)
        lags.append(touch_lag_ms(stream, limits))
    if stream.idle_ms is not None:
        lags.append(idle_lag_ms(stream.idle_ms, limits))
    if not lags or now_ms - stream.recorded_at_ms < min(lags):
        return []
    return [StreamTouched(stream.id, now_ms)]


def grant_lag(stream: Stream, limits: Limits) -> None:
    """Extend a loaded stream's TTL by the most that its recorded access may lag: it never expires early."""
    if stream.ttl_seconds is not None:
        stream.accessed_at_ms = stream.recorded_at_ms + touch_lag_ms(stream, limits)
