"""All subscriptions of one partition, changed by effects and by nothing else.

A subscription watches streams through links and is woken when one of them grows beyond what
was acknowledged. At most one wake is in flight; its generation fences off every earlier one.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from durable_sessions.streams.effects import (
    Acked,
    Delivered,
    DeliveryFailed,
    Effect,
    Linked,
    StreamTold,
    SubscriptionCreated,
    SubscriptionEffect,
    SubscriptionRemoved,
    Unlinked,
    WakeClaimed,
    WakeEnded,
    Woken,
)
from durable_sessions.streams.globs import Glob
from durable_sessions.streams.patterns import PatternIndex
from durable_sessions.streams.reported_streams import ReportedStreams
from durable_sessions.streams.stream import Key

Kind: TypeAlias = Literal["webhook", "pull-wake"]


LINK_BYTES = 400
SUBSCRIPTION_BYTES = 1_000
_LINKS_PER_EFFECT = 2_000


def link_bytes(path: str) -> int:
    """Return about how many bytes a link to a path takes in memory."""
    return LINK_BYTES + len(path)


class Config(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a client asked for, normalised: two requests mean the same if these are equal.

    ``streams`` is a digest of the streams first asked for. The links themselves change later,
    and repeating the list here would double the size of the largest request.
    """

    type: Kind
    lease_ttl_ms: int
    pattern: str | None = None
    streams: str | None = None
    webhook_url: str | None = None
    wake_stream: str | None = None
    description: str | None = None


class SubscriptionKey(NamedTuple):
    """What names a subscription below the HTTP layer."""

    workspace: str
    id: str


class Link(NamedTuple):
    """A watched stream; ``acked`` is -1 before the first record.

    ``stream`` is the number of the stream at the path, so that one that is deleted and created again is not
    mistaken for the old one; None while there is none yet.
    """

    explicit: bool
    acked: int
    stream: int | None


@dataclass(slots=True)
class Wake:
    """A wake in flight. A pull wake has a lease once it is claimed, a webhook's once it is delivered."""

    id: str
    snapshot: dict[str, int]
    holder: str | None = None
    lease_until_ms: int | None = None
    delivered: bool = False
    retries: int = 0
    next_attempt_at_ms: int | None = None


@dataclass(slots=True)
class Subscription:
    """Everything that decisions about one subscription depend on.

    Every link whose stream may reach beyond what was acknowledged is in ``behind``; so the others, which may
    be thousands, need not be looked at. ``links_bytes`` is about what the links take in memory.
    """

    key: SubscriptionKey
    config: Config
    base_url: str
    created_at_ms: int
    links: dict[str, Link] = field(default_factory=dict)
    generation: int = 0
    wake: Wake | None = None
    behind: dict[str, None] = field(default_factory=dict, compare=False)
    links_bytes: int = field(default=0, compare=False)
    glob: Glob | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        self.glob = None if self.config.pattern is None else Glob(self.config.pattern)

    @property
    def failed(self) -> bool:
        """Say whether the last attempt to deliver the current wake failed."""
        return self.wake is not None and self.wake.retries > 0


class Subscriptions:
    """The subscriptions at the tip, with an index from each watched stream to its watchers.

    ``by_workspace`` is public for who has to know, often, whether there are any. ``told`` has the watched
    streams of other partitions.
    """

    def __init__(self) -> None:
        self.by_workspace: dict[str, dict[str, Subscription]] = {}
        self._watchers: dict[Key, dict[SubscriptionKey, Subscription]] = {}
        self._wake_streams: Counter[Key] = Counter()
        self._patterns: dict[str, PatternIndex[SubscriptionKey]] = {}
        self._bytes: Counter[str] = Counter()
        self._count = 0
        self.reported = ReportedStreams()

    def __bool__(self) -> bool:
        return bool(self.by_workspace)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Subscription]:
        for workspace in self.by_workspace.values():
            yield from workspace.values()

    def get(self, key: SubscriptionKey) -> Subscription | None:
        """Return a subscription, None if there is none."""
        return self.by_workspace.get(key.workspace, {}).get(key.id)

    def of(self, workspace: str) -> Collection[Subscription]:
        """Return the subscriptions of a workspace."""
        return self.by_workspace.get(workspace, {}).values()

    def workspaces(self) -> Collection[str]:
        """Return the workspaces that have subscriptions."""
        return self.by_workspace.keys()

    def watching(self, stream: Key) -> Collection[Subscription]:
        """Return the subscriptions that have a link to a stream, in constant time."""
        return self._watchers.get(stream, {}).values()

    def matching(self, stream: Key) -> list[Subscription]:
        """Return the subscriptions whose patterns match a stream's path."""
        patterns = self._patterns.get(stream.workspace)
        if patterns is None:
            return []
        there = self.by_workspace[stream.workspace]
        return [there[key.id] for key in patterns.matching(stream.path)]

    def bytes_of(self, workspace: str) -> int:
        """Return about how many bytes the subscriptions of a workspace take in memory."""
        return self._bytes[workspace]

    @property
    def bytes_held(self) -> int:
        """About how many bytes all subscriptions take in memory."""
        return self._bytes.total()

    def appended(self, stream: Key) -> None:
        """Note that a stream has grown."""
        watchers = self._watchers.get(stream)
        if watchers is not None:
            for subscription in watchers.values():
                subscription.behind[stream.path] = None

    def is_wake_stream(self, stream: Key) -> bool:
        """Say whether wake events of any subscription are appended to this stream."""
        return stream in self._wake_streams

    def snapshot(self) -> list[SubscriptionEffect]:
        """Return effects that give the same subscriptions when they are applied to none."""
        own = [effect for subscription in self for effect in _effects(subscription)]
        return [*own, *self.reported.snapshot()]

    def apply(self, effect: Effect) -> None:
        """Apply one effect on a subscription."""
        assert isinstance(effect, SubscriptionEffect)
        if isinstance(effect, SubscriptionCreated):
            self._create(effect)
            return
        if isinstance(effect, StreamTold):
            stream = Key(effect.workspace, effect.path)
            self.reported.apply(effect, watched=stream in self._watchers)
            self.appended(stream)
            return
        subscription = self.by_workspace[effect.workspace][effect.id]
        if isinstance(effect, SubscriptionRemoved):
            self._remove(subscription)
        elif isinstance(effect, Linked):
            self._link(subscription, effect.links)
        elif isinstance(effect, Unlinked):
            for path in effect.paths:
                del subscription.links[path]
                subscription.behind.pop(path, None)
                _forget_in_snapshot(subscription, path)
                self._unwatch(path, subscription)
        else:
            _apply_to_wake(subscription, effect)

    def _create(self, effect: SubscriptionCreated) -> None:
        config = msgspec.json.decode(effect.config, type=Config)
        key = SubscriptionKey(effect.workspace, effect.id)
        there = self.by_workspace.setdefault(key.workspace, {})
        assert key.id not in there, "an id is used again only after its removal"
        there[key.id] = Subscription(key, config, effect.base_url, effect.created_at_ms)
        self._count += 1
        self._bytes[key.workspace] += len(effect.config) + SUBSCRIPTION_BYTES
        if config.pattern is not None:
            self._patterns.setdefault(key.workspace, PatternIndex()).add(config.pattern, key)
        if config.wake_stream is not None:
            self._wake_streams[Key(key.workspace, config.wake_stream)] += 1

    def _remove(self, subscription: Subscription) -> None:
        key = subscription.key
        for path in subscription.links:
            self._unwatch(path, subscription)
        self._count -= 1
        self._bytes[key.workspace] -= len(msgspec.json.encode(subscription.config)) + SUBSCRIPTION_BYTES
        if subscription.config.pattern is not None:
            self._patterns[key.workspace].remove(subscription.config.pattern, key)
        if subscription.config.wake_stream is not None:
            wake_stream = Key(key.workspace, subscription.config.wake_stream)
            self._wake_streams[wake_stream] -= 1
            if not self._wake_streams[wake_stream]:
                del self._wake_streams[wake_stream]
        del self.by_workspace[key.workspace][key.id]
        if not self.by_workspace[key.workspace]:
            del self.by_workspace[key.workspace]
            self._patterns.pop(key.workspace, None)
            del self._bytes[key.workspace]

    def _link(self, subscription: Subscription, links: Sequence[tuple[str, bool, int, int | None]]) -> None:
        """Add or replace links; there may be ten thousand at once, so this loop does little."""
        workspace, held, behind = subscription.key.workspace, subscription.links, subscription.behind
        watchers, reported, added = self._watchers, self.reported, 0
        for path, explicit, acked, stream in links:
            known = held.get(path)
            if known is None:
                added += LINK_BYTES + len(path)
            elif known.stream != stream:
                _forget_in_snapshot(subscription, path)
            held[path] = Link(explicit, acked, stream)
            # Looking the stream up could load it, so a new link counts as behind until a decision needs it.
            behind[path] = None
            key = Key(workspace, path)
            if reported:
                reported.watched(key)
            watching = watchers.get(key)
            if watching is None:
                watchers[key] = {subscription.key: subscription}
            else:
                watching[subscription.key] = subscription
        subscription.links_bytes += added
        self._bytes[workspace] += added

    def _unwatch(self, path: str, subscription: Subscription) -> None:
        stream = Key(subscription.key.workspace, path)
        subscription.links_bytes -= link_bytes(path)
        self._bytes[stream.workspace] -= link_bytes(path)
        del self._watchers[stream][subscription.key]
        if not self._watchers[stream]:
            del self._watchers[stream]
            self.reported.drop(stream)


def links_as_effects(key: SubscriptionKey, links: Mapping[str, Link]) -> Iterator[Linked]:
    """Yield the effects that make links, each with few enough that a replay can pause between them."""
    left = iter(links.items())
    while some := tuple([(path, *link) for path, link in islice(left, _LINKS_PER_EFFECT)]):
        yield Linked(*key, some)


def _effects(subscription: Subscription) -> Iterator[SubscriptionEffect]:
    key = subscription.key
    config = msgspec.json.encode(subscription.config)
    yield SubscriptionCreated(*key, config, subscription.base_url, subscription.created_at_ms)
    yield from links_as_effects(key, subscription.links)
    wake = subscription.wake
    if wake is None:
        if subscription.generation:
            # A wake that ends at once restores the generation: tokens of earlier wakes must stay fenced.
            yield Woken(*key, subscription.generation, "", {})
            yield WakeEnded(*key)
        return
    yield Woken(*key, subscription.generation, wake.id, wake.snapshot)
    if wake.holder is not None and wake.lease_until_ms is not None:
        yield WakeClaimed(*key, wake.holder, wake.lease_until_ms)
    elif wake.delivered and wake.lease_until_ms is not None:
        yield Delivered(*key, wake.lease_until_ms)
    elif wake.lease_until_ms is not None:  # a receiver has acked before its acceptance was recorded
        yield Acked(*key, {}, wake.lease_until_ms)
    if wake.next_attempt_at_ms is not None:
        yield DeliveryFailed(*key, wake.retries, wake.next_attempt_at_ms)


def _forget_in_snapshot(subscription: Subscription, path: str) -> None:
    """Keep a "done" that was meant for one stream from acknowledging its successor at the path."""
    if subscription.wake is not None:
        subscription.wake.snapshot.pop(path, None)


WakeEffect: TypeAlias = Woken | WakeClaimed | Acked | WakeEnded | Delivered | DeliveryFailed


def _apply_to_wake(subscription: Subscription, effect: WakeEffect) -> None:
    if isinstance(effect, Woken):
        assert subscription.wake is None, "one wake at a time"
        subscription.generation = effect.generation
        subscription.wake = Wake(effect.wake_id, dict(effect.snapshot))
        return
    wake = subscription.wake
    assert wake is not None, "only a wake in flight can be worked on"
    if isinstance(effect, WakeEnded):
        subscription.wake = None
    elif isinstance(effect, WakeClaimed):
        wake.holder, wake.lease_until_ms = effect.holder, effect.lease_until_ms
    elif isinstance(effect, Acked):
        for path, acked in effect.acks.items():
            subscription.links[path] = subscription.links[path]._replace(acked=acked)
        wake.lease_until_ms = effect.lease_until_ms
    elif isinstance(effect, Delivered):
        wake.delivered, wake.lease_until_ms = True, effect.lease_until_ms
        wake.retries, wake.next_attempt_at_ms = 0, None
    else:
        wake.retries, wake.next_attempt_at_ms = effect.retries, effect.next_attempt_at_ms
