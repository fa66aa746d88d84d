"""Decides which subscriptions exist and which streams they watch."""

from collections.abc import Collection, Iterable, Iterator, Mapping
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
    SubscriptionCreated,
    SubscriptionRemoved,
    Unlinked,
)
from durable_sessions.streams.globs import Glob
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.subscriptions import (
    LINK_BYTES,
    Config,
    Link,
    Subscription,
    SubscriptionKey,
    link_bytes,
    links_as_effects,
)
from durable_sessions.streams.watched import Changes, linked, peeked, visible

BEFORE_FIRST = -1
NO_LINKS: Mapping[str, Link] = {}
_SPARE_BYTES = 1_024  # how much longer a link may be than the one that makes room for it


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A request to create a subscription; ``base_url`` is how its client reaches this server."""

    config: Config
    streams: tuple[str, ...]
    base_url: str


def find(state: State, key: SubscriptionKey) -> Subscription:
    """Return a subscription; raise if it does not exist."""
    subscription = state.subscriptions.get(key)
    if subscription is None:
        raise SubscriptionNotFoundError(id=key.id)
    return subscription


def create(
    state: State,
    key: SubscriptionKey,
    request: Subscribe,
    paths: Iterable[str],
    now_ms: int,
    limits: Limits,
    later: Collection[str] = (),
    seen: Mapping[str, Link] = NO_LINKS,
) -> tuple[list[Effect], bool]:
    """Return the effects of a create and whether it is new; ``paths`` are those that the pattern matches.

    There must also be room for the streams that :func:`add` links ``later``. ``seen`` are recent results of
    :func:`explicit_link` by path; those that are out of date are looked up again.
    """
    existing = state.subscriptions.get(key)
    config = request.config
    if existing is not None:
        if existing.config != config:
            raise SubscriptionExistsError(id=key.id)
        return [], False
    if len(state.subscriptions.of(key.workspace)) >= limits.subscriptions_max:
        raise TooManySubscriptionsError(most=limits.subscriptions_max, things="subscriptions in a workspace")
    if len(state.subscriptions) >= limits.all_subscriptions_max:
        raise TooManySubscriptionsError(
            most=limits.all_subscriptions_max, things="subscriptions on this server"
        )
    effects: list[Effect] = [SubscriptionCreated(*key, msgspec.json.encode(config), request.base_url, now_ms)]
    if config.wake_stream is not None:
        effects += _leave_wake_stream(state, Key(key.workspace, config.wake_stream))
    links: dict[str, Link | None] = dict(_explicit(state, key, config, request.streams, now_ms, seen))
    if config.pattern is not None:
        glob = Glob(config.pattern)
        for path in paths:
            if path in links or not _matches(state, glob, config, Key(key.workspace, path)):
                continue
            stream = visible(state, Key(key.workspace, path), now_ms)
            if stream is not None:
                links[path] = Link(False, stream.tail, stream.id)
    _require_room(state, key, None, [*links, *(path for path in later if path not in links)], limits)
    return effects + changes_as_effects(key, links), True


def add(state: State, key: SubscriptionKey, found: Mapping[str, Link]) -> list[Effect]:
    """Return the effects of linking streams as a new pattern has found them, if they are still there."""
    subscription = state.subscriptions.get(key)
    if subscription is None or subscription.glob is None:
        return []
    changes: dict[str, Link | None] = {}
    for path, link in found.items():
        known = subscription.links.get(path)
        # An append since then may have linked the stream from its start; but what the pattern found is older
        # than the subscription, so the link that was found replaces that one.
        if known is not None and known != Link(False, BEFORE_FIRST, link.stream):
            continue
        stream = None if link.stream is None else peeked(state, link.stream)
        if stream is not None and not stream.soft_deleted and _matched_by(state, subscription, stream.key):
            changes[path] = link
    return changes_as_effects(key, changes)


def remove(state: State, key: SubscriptionKey) -> list[Effect]:
    """Return the effects of a delete, none if the subscription does not exist."""
    return [] if state.subscriptions.get(key) is None else [SubscriptionRemoved(*key)]


def link(
    state: State,
    key: SubscriptionKey,
    paths: Collection[str],
    now_ms: int,
    limits: Limits,
    seen: Mapping[str, Link] = NO_LINKS,
) -> list[Effect]:
    """Return the effects of adding explicit links; what was acknowledged on a path stays so."""
    subscription = find(state, key)
    links = subscription.links
    changes: dict[str, Link | None] = {}
    for path, fresh in _explicit(state, key, subscription.config, paths, now_ms, seen).items():
        known = links.get(path)
        if known is None or known.stream not in (None, fresh.stream):
            changes[path] = fresh
        elif not known.explicit or known.stream != fresh.stream:
            changes[path] = Link(True, known.acked, fresh.stream)
    _require_room(state, key, subscription, [path for path in changes if path not in links], limits)
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
    count, size = len(subscription.links), subscription.links_bytes
    room = _room(state, subscription.key.workspace, limits)
    spare = _caught_up(state, subscription)
    for path in paths:
        if not is_unsettled(state, subscription, path, now_ms):
            continue
        known = subscription.links.get(path)
        stream = visible(state, Key(subscription.key.workspace, path), now_ms)
        if known is not None and known.stream is not None:
            changes[path] = known = None
            count, size = count - 1, size - link_bytes(path)
        if stream is None:
            continue
        if known is not None:
            changes[path] = known._replace(stream=stream.id)
        elif _is_found(state, subscription, stream):
            weight = link_bytes(path)
            full = count >= limits.subscription_streams_max or size + weight > limits.subscription_bytes_max
            if full or size + weight - subscription.links_bytes > room:
                # Full: a link that has nothing pending makes room, see _caught_up.
                victim = next((candidate for candidate in spare if candidate not in changes), None)
                if victim is None or link_bytes(victim) < weight - _SPARE_BYTES:
                    left.append(path)
                    continue
                changes[victim] = None
                count, size = count - 1, size - link_bytes(victim)
            changes[path] = Link(False, BEFORE_FIRST, stream.id)
            count, size = count + 1, size + weight
    return changes, left


def changes_as_effects(key: SubscriptionKey, changes: Changes) -> list[Effect]:
    """Return the effects that carry out changes of links."""
    gone = tuple([path for path, link in changes.items() if link is None])
    new = {path: link for path, link in changes.items() if link is not None}
    effects: list[Effect] = []
    if gone:
        effects.append(Unlinked(*key, gone))
    return [*effects, *links_as_effects(key, new)]


def explicit_link(state: State, stream: Key, now_ms: int) -> Link:
    """Return a link to what is at a path now. It can be slow: the stream may have to be loaded."""
    found = visible(state, stream, now_ms)
    return Link(True, 0, None) if found is None else Link(True, found.tail, found.id)


def _explicit(
    state: State,
    key: SubscriptionKey,
    config: Config,
    paths: Collection[str],
    now_ms: int,
    seen: Mapping[str, Link],
) -> dict[str, Link]:
    if config.wake_stream in paths:
        raise InvalidRequestError(
            problem=f"Leave the wake_stream {config.wake_stream!r} out of streams: "
            "every wake would cause the next."
        )
    links = {}
    for path in paths:
        link = seen.get(path)
        if link is None or not _is_current(state, key.workspace, path, link):
            link = explicit_link(state, Key(key.workspace, path), now_ms)
        links[path] = link
    return links


def _is_current(state: State, workspace: str, path: str, link: Link) -> bool:
    """Say whether an explicit link is still up to date, looking only at what is in memory."""
    if link.stream is None:
        key = Key(workspace, path)  # a stream that was made since is in memory
        return key not in state.streams and state.subscriptions.reported.get(key) is None
    stream = state.by_id.get(link.stream) or state.subscriptions.reported.numbered(link.stream)
    # A stream that is mortal may have expired since.
    return stream is not None and stream.tail == link.acked and not stream.soft_deleted and not stream.mortal


def _is_found(state: State, subscription: Subscription, stream: Stream) -> bool:
    """Say whether a pattern matches a stream that has no link yet; it counts once something was appended."""
    return stream.tail > stream.base and _matched_by(state, subscription, stream.key)


def _matched_by(state: State, subscription: Subscription, stream: Key) -> bool:
    return subscription.glob is not None and _matches(state, subscription.glob, subscription.config, stream)


def _matches(state: State, glob: Glob, config: Config, stream: Key) -> bool:
    """Say whether a pattern matches a stream.

    It never matches a stream of wake events: a subscription would wake itself for ever, and
    two with wide patterns would wake each other.
    """
    if stream.path == config.wake_stream or not glob.matches(stream.path):
        return False
    return not state.subscriptions.is_wake_stream(stream)


def _leave_wake_stream(state: State, wake_stream: Key) -> list[Effect]:
    """Remove a stream that becomes a wake stream from all subscriptions whose patterns matched it so far."""
    return [
        Unlinked(*watcher.key, (wake_stream.path,))
        for watcher in state.subscriptions.watching(wake_stream)
        if not watcher.links[wake_stream.path].explicit
    ]


def _require_room(
    state: State, key: SubscriptionKey, known: Subscription | None, more: Collection[str], limits: Limits
) -> None:
    """Refuse to add so many links, or links this large."""
    count, size = (0, 0) if known is None else (len(known.links), known.links_bytes)
    added = sum(map(link_bytes, more))
    if count + len(more) > limits.subscription_streams_max:
        raise TooManySubscriptionsError(
            most=limits.subscription_streams_max, things="streams in a subscription"
        )
    if size + added > limits.subscription_bytes_max:
        raise TooManySubscriptionsError(
            most=limits.subscription_bytes_max,
            things=f"bytes for the streams of a subscription (their paths and {LINK_BYTES} bytes for each)",
        )
    if added > _room(state, key.workspace, limits):
        raise TooManySubscriptionsError(
            most=limits.all_subscription_bytes_max,
            things="bytes for all subscriptions of the server; a workspace may take what it leaves free",
        )


def _room(state: State, workspace: str, limits: Limits) -> int:
    """Return how many bytes more a workspace's links may take: never more than is left for others."""
    free = limits.all_subscription_bytes_max - state.subscriptions.bytes_held
    # The largest ``more`` for which held + more <= free - more.
    return (free - state.subscriptions.bytes_of(workspace)) // 2


def _caught_up(state: State, subscription: Subscription) -> Iterator[str]:
    """Yield the links that may be dropped to make room: matched by pattern, with nothing pending.

    The stream of a dropped one is found again by its next append, then from its start: at the
    limit records may come twice but are never missed.
    """
    for path, link in subscription.links.items():
        if link.explicit or link.stream is None:
            continue
        if path in subscription.behind:
            stream = peeked(state, link.stream)
            if stream is None or link.acked < stream.tail:
                continue
        yield path
