"""Decides a create: a new stream, a fork of another one, or a repeat for a stream that exists."""

from collections.abc import Callable
from dataclasses import dataclass

from durable_sessions.errors import (
    ContentTypeMismatchError,
    DurableSessionsError,
    ForkTooDeepError,
    InvalidForkError,
    PathBlockedError,
    StreamExistsError,
    StreamGoneError,
    StreamNotFoundError,
)
from durable_sessions.limits import Limits
from durable_sessions.streams import content, lifetime, messages, offsets
from durable_sessions.streams.effects import Effect, PathFreed, RecordsAppended, StreamCreated
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream


@dataclass(frozen=True, slots=True)
class Fork:
    """The source of a fork: a path, an anchor (None: its tail) and a distance past the anchor."""

    source: str
    anchor: int | None = None
    beyond: int = 0


@dataclass(frozen=True, slots=True)
class Create:
    """A request to create a stream; None means not given.

    ``parsed`` is the body parsed in advance, or the error that parsing gave.
    """

    content_type: str | None = None
    ttl_seconds: int | None = None
    expires_at_ms: int | None = None
    closed: bool = False
    body: bytes = b""
    fork: Fork | None = None
    parsed: messages.Payload | DurableSessionsError | None = None


@dataclass(frozen=True, slots=True)
class Created:
    """The answer to a create; ``new`` is false if the same stream existed already."""

    new: bool
    content_type: str
    tail: int
    closed: bool


def decide(
    state: State,
    key: Key,
    request: Create,
    now_ms: int,
    limits: Limits,
    anchor_end: int | None,
    *,
    frees: bool = False,
) -> tuple[list[Effect], Created]:
    """Return the effects and the answer of a create, or refuse it.

    ``anchor_end`` is where the append at the anchor of a fork ends, None if no append holds it. With
    ``frees`` a deleted stream that is kept for its forks gives up the path.
    """
    effects: list[Effect] = list(lifetime.expire(state, key, now_ms))
    existing = state.get(key)
    # An expired stream without forks is removed by ``effects``, which frees its path. With forks it is only
    # marked as deleted, and its path stays blocked unless it gives it up.
    if existing is not None and (existing.soft_deleted or (effects and existing.forks)):
        if not frees:
            raise PathBlockedError(path=key.path)
        effects.append(PathFreed(existing.id))
    elif existing is not None and not effects:
        _require_same(state, existing, request)
        touched = lifetime.touch(existing, now_ms, limits)
        return list(touched), Created(False, existing.content_type, existing.tail, existing.closed)
    source = None if request.fork is None else _source(state, key, request.fork, now_ms, frees=frees)
    created = _created(state, key, request, source, now_ms, limits, anchor_end)
    payload = messages.EMPTY
    if request.body:
        is_json = content.is_json(created.content_type)
        payload = messages.payload(request.parsed, request.body, json=is_json, limits=limits)
    effects.append(created)
    tail = created.base + payload.count
    if payload.data or request.closed:
        effects.append(
            RecordsAppended(
                created.stream,
                created.base,
                now_ms,
                payload.lengths,
                None,
                None,
                request.closed,
                payload.data,
            )
        )
    return effects, Created(True, created.content_type, tail, request.closed)


def _created(
    state: State,
    key: Key,
    request: Create,
    source: Stream | None,
    now_ms: int,
    limits: Limits,
    anchor_end: int | None,
) -> StreamCreated:
    if request.fork is None or source is None:
        return StreamCreated(
            state.next_id,
            *key,
            request.content_type or content.DEFAULT,
            now_ms,
            request.ttl_seconds,
            request.expires_at_ms,
        )
    if request.content_type is not None and not _same_type(request.content_type, source.content_type):
        raise ContentTypeMismatchError(sent=request.content_type, expected=source.content_type)
    if source.depth >= limits.fork_depth_max:
        raise ForkTooDeepError(fork_depth_max=limits.fork_depth_max)
    inherits = request.ttl_seconds is None and request.expires_at_ms is None
    return StreamCreated(
        state.next_id,
        *key,
        source.content_type,
        now_ms,
        source.ttl_seconds if inherits else request.ttl_seconds,
        source.expires_at_ms if inherits else request.expires_at_ms,
        source.id,
        _fork_position(source, request.fork, anchor_end),
        request.fork.anchor is None,
    )


def _source(state: State, key: Key, fork: Fork, now_ms: int, *, frees: bool) -> Stream:
    try:
        return lifetime.find(state, Key(key.workspace, fork.source), now_ms)
    except StreamGoneError:
        # Where deleted streams give up their paths, one that still has its path is as good as missing.
        if frees:
            raise StreamNotFoundError(path=fork.source) from None
        raise PathBlockedError(path=fork.source) from None


def _fork_position(source: Stream, fork: Fork, anchor_end: int | None) -> int:
    if fork.anchor is None:
        if fork.beyond:
            raise InvalidForkError(problem="a Stream-Fork-Sub-Offset above 0 needs a Stream-Fork-Offset")
        return source.tail
    if fork.anchor > source.tail:
        end = offsets.encode(source.tail)
        raise InvalidForkError(
            problem=f"the place to fork at lies beyond the end of the source; send {end} or an earlier offset"
        )
    if fork.beyond and (anchor_end is None or fork.anchor + fork.beyond > anchor_end):
        raise InvalidForkError(problem="Stream-Fork-Sub-Offset reaches past the append at Stream-Fork-Offset")
    return fork.anchor + fork.beyond


def _require_same(state: State, existing: Stream, request: Create) -> None:
    def differs(difference: str) -> StreamExistsError:
        return StreamExistsError(path=existing.key.path, difference=difference)

    if (request.fork is None) != (existing.parent is None):
        raise differs("fork source")
    if request.fork is not None:
        _require_same_fork(state, existing, request.fork, differs)
    asked = request.content_type or (content.DEFAULT if request.fork is None else existing.content_type)
    if not _same_type(asked, existing.content_type):
        raise differs("content type")
    inherits = request.fork is not None and request.ttl_seconds is None and request.expires_at_ms is None
    expiry = (request.ttl_seconds, request.expires_at_ms)
    if not inherits and expiry != (existing.ttl_seconds, existing.expires_at_ms):
        raise differs("TTL or expiry")
    if request.closed != existing.closed:
        raise differs("closed state")


def _require_same_fork(
    state: State, existing: Stream, fork: Fork, differs: Callable[[str], StreamExistsError]
) -> None:
    source = state.parent(existing)
    assert source is not None
    if fork.source != source.key.path:
        raise differs("fork source")
    if fork.anchor is None:
        same = existing.fork_at_tail or existing.base == source.tail
    else:
        same = existing.base == fork.anchor + fork.beyond
    if not same:
        raise differs("fork offset")


def _same_type(one: str, other: str) -> bool:
    return content.media_type(one) == content.media_type(other)
