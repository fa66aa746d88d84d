"""Deciding which subscriptions exist and which streams they watch."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import msgspec

from durable_sessions.errors import (
    InvalidRequestError,
    SubscriptionExistsError,
    SubscriptionNotFoundError,
    TooManySubscriptionsError,
)
from durable_sessions.limits import Limits
from durable_sessions.streams.effects import (
    Effect,
    Linked,
    SubscriptionCreated,
    SubscriptionRemoved,
    Unlinked,
)
from durable_sessions.streams.globs import Glob
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.subscriptions import Config, Link, Subscription, SubscriptionKey
from durable_sessions.streams.watched import Changes, linked, visible

BEFORE_FIRST = -1


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A request to create a subscription; ``base_url`` is how its client reaches this server."""

    config: Config
    streams: tuple[str, ...]
    base_url: str


def find(state: State, key: SubscriptionKey) -> Subscription:
    """Return a subscription, or say that it does not exist."""
    subscription = state.subscriptions.get(key)
    if subscription is None:
        raise SubscriptionNotFoundError(id=key.id)
    return subscription


def create(
    state: State, key: SubscriptionKey, request: Subscribe, paths: Iterable[str], now_ms: int, limits: Limits
) -> tuple[list[Effect], bool]:
    """Return the effects of a create and whether it is new; ``paths`` are the workspace's streams."""
    existing = state.subscriptions.get(key)
    config = request.config
    if existing is not None:
        if existing.config != config:
            raise SubscriptionExistsError(id=key.id)
        return [], False
    if len(state.subscriptions.of(key.workspace)) >= limits.subscriptions_max:
        raise TooManySubscriptionsError(most=limits.subscriptions_max, things="subscriptions in a workspace")
    effects: list[Effect] = [SubscriptionCreated(*key, msgspec.json.encode(config), request.base_url, now_ms)]
    if config.wake_stream is not None:
        effects += _leave_wake_stream(state, Key(key.workspace, config.wake_stream))
    links: dict[str, Link | None] = dict(_explicit(state, key, config, request.streams, now_ms))
    if config.pattern is not None:
        glob = Glob(config.pattern)
        for path in paths:
            stream = visible(state, Key(key.workspace, path), now_ms)
            if path not in links and stream is not None and _matches(state, glob, config, stream.key):
                links[path] = Link(False, stream.tail, stream.id)
    _require_room(len(links), limits)
    return effects + changes_as_effects(key, links), True


def remove(state: State, key: SubscriptionKey) -> list[Effect]:
    """Return the effects of a delete, none if the subscription does not exist."""
    return [] if state.subscriptions.get(key) is None else [SubscriptionRemoved(*key)]


def link(
    state: State, key: SubscriptionKey, paths: Iterable[str], now_ms: int, limits: Limits
) -> list[Effect]:
    """Return the effects of adding explicit links; what was acknowledged on a path stays so."""
    subscription = find(state, key)
    links = subscription.links
    changes: dict[str, Link | None] = {}
    for path, fresh in _explicit(state, key, subscription.config, paths, now_ms).items():
        known = links.get(path)
        if known is None or known.stream not in (None, fresh.stream):
            changes[path] = fresh
        elif not known.explicit or known.stream != fresh.stream:
            changes[path] = Link(True, known.acked, fresh.stream)
    _require_room(len(links) + sum(path not in links for path in changes), limits)
    return changes_as_effects(key, changes)


def unlink(state: State, key: SubscriptionKey, path: str, now_ms: int) -> list[Effect]:
    """Return the effects of removing an explicit link; a stream that the pattern matches stays linked."""
    subscription = find(state, key)
    known = subscription.links.get(path)
    if known is None or not known.explicit:
        return []
    stream = linked(state, known, now_ms)
    if stream is not None and _matched_by(state, subscription, stream.key):
        return changes_as_effects(key, {path: known._replace(explicit=False)})
    return changes_as_effects(key, {path: None})


def is_unsettled(state: State, subscription: Subscription, path: str, now_ms: int) -> bool:
    """Say whether the link, or its absence, does not fit the stream at a path any more."""
    known = subscription.links.get(path)
    stream = visible(state, Key(subscription.key.workspace, path), now_ms)
    if known is not None and known.stream is not None:
        return stream is None or stream.id != known.stream
    return stream is not None and (known is not None or _is_found(state, subscription, stream))


def relink(
    state: State, subscription: Subscription, paths: Iterable[str], now_ms: int, limits: Limits
) -> tuple[Changes, list[str]]:
    """Bring links up to date with the streams at these paths.

    A stream that is gone loses its link, an explicit link waiting for its stream gets it, and
    a stream that the pattern matches is linked before its first record. Returns the changes,
    and the paths for which there is no room now.
    """
    changes: dict[str, Link | None] = {}
    left: list[str] = []
    count = len(subscription.links)
    spare = _caught_up(state, subscription)
    for path in paths:
        if not is_unsettled(state, subscription, path, now_ms):
            continue
        known = subscription.links.get(path)
        stream = visible(state, Key(subscription.key.workspace, path), now_ms)
        if known is not None and known.stream is not None:
            changes[path] = known = None
            count -= 1
        if stream is None:
            continue
        if known is not None:
            changes[path] = known._replace(stream=stream.id)
        elif _is_found(state, subscription, stream):
            if count >= limits.subscription_streams_max:
                victim = next((candidate for candidate in spare if candidate not in changes), None)
                if victim is None:
                    left.append(path)
                    continue
                changes[victim] = None
                count -= 1
            changes[path] = Link(False, BEFORE_FIRST, stream.id)
            count += 1
    return changes, left


def changes_as_effects(key: SubscriptionKey, changes: Changes) -> list[Effect]:
    """Return the effects that carry out changes of links."""
    gone = tuple([path for path, link in changes.items() if link is None])
    new = tuple([(path, *link) for path, link in changes.items() if link is not None])
    effects: list[Effect] = []
    if gone:
        effects.append(Unlinked(*key, gone))
    if new:
        effects.append(Linked(*key, new))
    return effects


def _explicit(
    state: State, key: SubscriptionKey, config: Config, paths: Iterable[str], now_ms: int
) -> dict[str, Link]:
    links = {}
    for path in paths:
        if path == config.wake_stream:
            raise InvalidRequestError(
                problem=f"Leave the wake_stream {path!r} out of streams: every wake would cause the next."
            )
        stream = visible(state, Key(key.workspace, path), now_ms)
        links[path] = Link(True, 0, None) if stream is None else Link(True, stream.tail, stream.id)
    return links


def _is_found(state: State, subscription: Subscription, stream: Stream) -> bool:
    """Say whether a pattern takes in a stream without a link: it does once something was appended."""
    return stream.tail > stream.base and _matched_by(state, subscription, stream.key)


def _matched_by(state: State, subscription: Subscription, stream: Key) -> bool:
    return subscription.glob is not None and _matches(state, subscription.glob, subscription.config, stream)


def _matches(state: State, glob: Glob, config: Config, stream: Key) -> bool:
    """Say whether a pattern takes a stream in.

    It never takes in a stream of wake events: a subscription would wake itself for ever, and
    two with wide patterns would wake each other.
    """
    if stream.path == config.wake_stream or not glob.matches(stream.path):
        return False
    return not state.subscriptions.is_wake_stream(stream)


def _leave_wake_stream(state: State, wake_stream: Key) -> list[Effect]:
    """Take a stream that becomes a wake stream out of all patterns that matched it so far."""
    return [
        Unlinked(*watcher.key, (wake_stream.path,))
        for watcher in state.subscriptions.watching(wake_stream)
        if not watcher.links[wake_stream.path].explicit
    ]


def _require_room(count: int, limits: Limits) -> None:
    if count > limits.subscription_streams_max:
        raise TooManySubscriptionsError(
            most=limits.subscription_streams_max, things="streams in a subscription"
        )


def _caught_up(state: State, subscription: Subscription) -> Iterator[str]:
    """Give the links that can make room for others: matched by pattern, with nothing pending.

    The stream of a dropped one is found again by its next append, then from its start: at the
    limit records may come twice but are never missed.
    """
    for path, link in subscription.links.items():
        stream = None if link.stream is None else state.get_id(link.stream)
        if not link.explicit and stream is not None and link.acked >= stream.tail:
            yield path
