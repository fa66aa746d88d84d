"""Requests about subscriptions: every answer is given when its contents are durable."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TypeVar
from weakref import WeakValueDictionary

from durable_sessions.clock import Clock
from durable_sessions.fair_queue import FairQueue
from durable_sessions.limits import Limits
from durable_sessions.storage.companions import Companion, accompanied
from durable_sessions.storage.subscription_ports import (
    DeliveryResult,
    OtherPartitions,
    SubscribedPartition,
    Watched,
)
from durable_sessions.storage.wakeups import Wakeups
from durable_sessions.streams import subscribe, wakes
from durable_sessions.streams.deliveries import Delivery
from durable_sessions.streams.effects import Effect, StreamTold
from durable_sessions.streams.globs import Glob
from durable_sessions.streams.reported_streams import Tail
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.streams.subscribe import Subscribe
from durable_sessions.streams.subscriptions import Config, Kind, Link, Subscription, SubscriptionKey
from durable_sessions.streams.wakes import Claim, Hold
from durable_sessions.streams.watched import StreamInfo, infos_of, pending_tails, settle, stream_at
from durable_sessions.tasks import TaskSupervisor

__all__ = [
    "Delivery",
    "DeliveryResult",
    "SubscribedPartition",
    "SubscriptionManager",
    "SubscriptionView",
    "Watched",
]

T = TypeVar("T")
_LOADED_SLICE = 50
_LINKED_SLICE = 500
_SHOWN_SLICE = 1_000
Decide = Callable[[State, int], tuple[Sequence[Effect], T]]


@dataclass(frozen=True, slots=True)
class SubscriptionView:
    """A subscription as it was at one moment."""

    key: SubscriptionKey
    config: Config
    created_at_ms: int
    failed: bool
    streams: list[StreamInfo]


class SubscriptionManager:
    """Creates, changes and serves the subscriptions of a partition; ``others`` is None if there are none."""

    def __init__(
        self,
        partition: SubscribedPartition,
        clock: Clock,
        limits: Limits,
        wakeups: Wakeups,
        others: OtherPartitions | None = None,
    ) -> None:
        self._partition = partition
        self._state = partition.tip
        self._clock = clock
        self._limits = limits
        self._scans = FairQueue(limits.pattern_scans_max)
        self._linking: set[asyncio.Task[None]] = set()
        self._wakeups = wakeups
        self._others = others
        self._versions: Counter[str] = Counter()
        self._changing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._creating: Counter[str] = Counter()

    def start(self, supervisor: TaskSupervisor) -> None:
        """Resume leases, retries and undelivered wakes where the last process left them."""
        self._wakeups.start(supervisor)

    async def close(self) -> None:
        """Stop all background work."""
        for linking in tuple(self._linking):
            linking.cancel()
        await asyncio.gather(*self._linking, return_exceptions=True)
        await self._wakeups.close()

    # Streams of other partitions --------------------------------------------------------

    def changing(self, workspace: str) -> asyncio.Lock:
        """Return the lock of those who change what is watched in a workspace, or tell others of it."""
        lock = self._changing.get(workspace)
        if lock is None:
            lock = self._changing[workspace] = asyncio.Lock()
        return lock

    def watched(self, workspace: str, pattern: str | None = None, paths: Sequence[str] = ()) -> Watched:
        """Return what is watched in a workspace, and soon will be."""
        patterns = {} if pattern is None else {pattern: None}
        named = dict.fromkeys(paths)
        for subscription in self._state.subscriptions.of(workspace):
            if subscription.config.pattern is not None:
                patterns[subscription.config.pattern] = None
            named.update((path, None) for path, link in subscription.links.items() if link.explicit)
        return Watched(self._versions[workspace], list(patterns), list(named))

    def watched_versions(self) -> dict[str, int]:
        """Return the workspaces in which something is watched, with a number that changes with it."""
        workspaces = {subscription.key.workspace for subscription in self._state.subscriptions}
        return {workspace: self._versions[workspace] for workspace in workspaces}

    async def tell(self, workspace: str, tails: Sequence[Tail]) -> None:
        """Take what another partition tells of its streams; all of it is durable on return."""
        told: list[StreamTold] = []

        def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], None]:
            news = state.subscriptions.reported.news(workspace, tails)
            told.extend(effect for effect in news if self._is_wanted(state, effect))
            return told, None

        committed = self._partition.commit(decide)
        for effect in told:
            self._wakeups.tail_reported(Key(workspace, effect.path), gone=effect.tail is None)
        await committed

    def _is_wanted(self, state: State, effect: StreamTold) -> bool:
        key = Key(effect.workspace, effect.path)
        if key in state.streams:
            return False  # it lives here now
        if self._creating[effect.workspace] or effect.tail is None:
            return True
        subscriptions = state.subscriptions
        return bool(subscriptions.watching(key) or subscriptions.matching(key))

    @asynccontextmanager
    async def _watching(
        self, workspace: str, pattern: str | None, paths: Sequence[str]
    ) -> AsyncIterator[None]:
        """Let other partitions tell what is about to be watched, and take what they have of it."""
        if self._others is None:
            yield
            return
        async with self.changing(workspace):
            self._versions[workspace] += 1
            # Until the subscription is there, whatever is told is kept: it may be what it will watch.
            self._creating[workspace] += 1
            try:
                watched = self.watched(workspace, pattern, paths)
                await self.tell(workspace, await self._others.watch(workspace, watched, pattern, paths))
                yield
            finally:
                self._creating[workspace] -= 1

    async def _refresh(self, workspace: str) -> None:
        """Take what others are about to tell: what was acknowledged there counts here."""
        if self._others is not None and (tails := await self._others.untold(workspace)):
            await self.tell(workspace, tails)

    # Requests ---------------------------------------------------------------------------

    async def create(self, key: SubscriptionKey, request: Subscribe) -> tuple[bool, SubscriptionView]:
        """Create a subscription durably, or confirm that the same one exists; say whether it is new."""
        async with self._watching(key.workspace, request.config.pattern, request.streams):
            return await self._create(key, request)

    async def _create(self, key: SubscriptionKey, request: Subscribe) -> tuple[bool, SubscriptionView]:
        found: dict[str, Link] = {}
        if request.config.pattern is not None and self._state.subscriptions.get(key) is None:
            async with self._scans.part(key.workspace):
                found = await self._matching(key.workspace, Glob(request.config.pattern))
        later = dict(islice(found.items(), _LINKED_SLICE, None))
        seen = await self._seen(key.workspace, request.streams)
        created = self._partition.commit(
            lambda state, now_ms: subscribe.create(
                state, key, request, list(islice(found, _LINKED_SLICE)), now_ms, self._limits, later, seen
            )
        )
        self._wakeups.unsettle()
        if later:
            # Shielded: it must finish even if the client disconnects, or what was found would be lost.
            linking = asyncio.create_task(self._link_found(created, key, later), name="links")
            self._linking.add(linking)
            linking.add_done_callback(self._linked)
            await asyncio.shield(linking)
        # The effects are applied to the tip, though not durable yet: take the view now, before later changes.
        subscription = self._state.subscriptions.get(key)
        if subscription is not None:
            await self._wakeups.settle_links(subscription)
        view = None if subscription is None else await self._view(subscription, self._clock.now_ms())
        new = await created
        assert view is not None, "a create that was not refused leaves a subscription"
        return new, view

    async def _seen(self, workspace: str, paths: Sequence[str]) -> dict[str, Link]:
        """Look up streams by name in slices, beside other work, so that the decision need not."""
        seen: dict[str, Link] = {}
        if len(paths) <= _LOADED_SLICE:
            return seen
        for number, path in enumerate(paths, 1):
            seen[path] = subscribe.explicit_link(self._state, Key(workspace, path), self._clock.now_ms())
            if not number % _LOADED_SLICE:
                await asyncio.sleep(0)
        return seen

    async def _matching(self, workspace: str, glob: Glob) -> dict[str, Link]:
        """Return links to the streams that a pattern matches, in slices, beside other work.

        The streams are in memory afterwards, so that no decision has to load them. Streams that are created
        in the meantime are found when they are appended to.
        """
        matched: dict[str, None] = {}
        for page in self._partition.path_pages(workspace, glob.prefix):
            matched.update((path, None) for _, path in page if glob.matches(path))
            await asyncio.sleep(0)
            if len(matched) > self._limits.subscription_streams_max:
                break  # too many: refused by the decision
        for path in self._state.subscriptions.reported.paths(workspace):
            if glob.matches(path):
                matched[path] = None
        found: dict[str, Link] = {}
        for number, path in enumerate(islice(matched, self._limits.subscription_streams_max + 1), 1):
            stream = stream_at(self._state, Key(workspace, path))
            if stream is not None:
                found[path] = Link(False, stream.tail, stream.id)
            if not number % _LOADED_SLICE:
                await asyncio.sleep(0)
        return found

    def _linked(self, linking: "asyncio.Task[None]") -> None:
        self._linking.discard(linking)
        if not linking.cancelled():
            linking.exception()  # retrieved; the client is told, if it is still connected

    async def _link_found(
        self, created: Awaitable[bool], key: SubscriptionKey, found: dict[str, Link]
    ) -> None:
        """Link the streams that a new pattern has found, in slices; all links are durable on return."""
        if not await created:
            return
        state = self._state
        for start in range(0, len(found), _LINKED_SLICE):
            piece = dict(islice(found.items(), start, start + _LINKED_SLICE))
            linked = self._partition.commit(partial(_add, key, piece))
            subscription = state.subscriptions.get(key)
            if subscription is not None:
                settle(state, subscription, piece)
            await linked
        self._wakeups.unsettle()

    async def get(self, key: SubscriptionKey) -> SubscriptionView:
        """Return a subscription."""
        await self._refresh(key.workspace)
        found = await self._partition.commit(lambda state, now_ms: ([], subscribe.find(state, key)))
        await self._wakeups.settle_links(found)
        return await self._view(found, self._clock.now_ms())

    async def delete(self, key: SubscriptionKey, companion: Companion | None = None) -> None:
        """Delete a subscription durably; it is no error if there is none."""

        def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], None]:
            return accompanied(subscribe.remove(state, key), companion, state, now_ms), None

        removed = self._partition.commit(decide)
        self._versions[key.workspace] += 1
        self._wakeups.unsettle()
        self._wakeups.drop(key)
        await removed

    async def link(self, key: SubscriptionKey, paths: Sequence[str]) -> None:
        """Watch streams by name, durably; they need not exist yet."""
        async with self._watching(key.workspace, None, paths):
            await self._link(key, paths)

    async def _link(self, key: SubscriptionKey, paths: Sequence[str]) -> None:
        seen = await self._seen(key.workspace, paths)
        linked = self._change(
            key, lambda state, now_ms: (subscribe.link(state, key, paths, now_ms, self._limits, seen), None)
        )
        self._wakeups.unsettle()
        await linked

    async def unlink(self, key: SubscriptionKey, path: str) -> None:
        """Watch a stream no longer by name, durably; the pattern may still match it."""
        unlinked = self._change(key, lambda state, now_ms: (subscribe.unlink(state, key, path, now_ms), None))
        self._wakeups.unsettle()
        await unlinked

    async def require_kind(self, key: SubscriptionKey, kind: Kind) -> None:
        """Refuse a subscription that does not exist or has another type."""
        await self._partition.commit(
            lambda state, _: ([], wakes.require_kind(subscribe.find(state, key), kind))
        )

    async def callback(
        self, key: SubscriptionKey, hold: Hold, acks: Sequence[tuple[str, str]], *, done: bool
    ) -> bool:
        """Record a webhook receiver's acks durably, all or none; say whether a next wake follows."""
        return await self._acknowledge(key, "webhook", hold, acks, done=done)

    async def ack(
        self, key: SubscriptionKey, hold: Hold, acks: Sequence[tuple[str, str]], *, done: bool
    ) -> bool:
        """Record a worker's acks durably, all or none; say whether a next wake follows."""
        return await self._acknowledge(key, "pull-wake", hold, acks, done=done)

    async def claim(self, key: SubscriptionKey, worker: str) -> Claim:
        """Give pending work to one worker, durably, until its lease ends."""
        await self._refresh(key.workspace)
        return await self._change(
            key, lambda state, now_ms: wakes.claim(state, key, worker, self._wakeups.now(now_ms))
        )

    async def release(self, key: SubscriptionKey, hold: Hold) -> None:
        """Give claimed work back, durably."""
        await self._refresh(key.workspace)
        await self._change(
            key, lambda state, now_ms: (wakes.release(state, key, hold, self._wakeups.now(now_ms)), None)
        )

    async def _acknowledge(
        self,
        key: SubscriptionKey,
        kind: Kind,
        hold: Hold,
        acks: Sequence[tuple[str, str]],
        *,
        done: bool,
    ) -> bool:
        await self._refresh(key.workspace)
        return await self._change(
            key,
            lambda state, now_ms: wakes.acknowledge(
                state, key, kind, hold, acks, self._wakeups.now(now_ms), done=done
            ),
        )

    def _change(self, key: SubscriptionKey, decide: Decide[T]) -> Awaitable[T]:
        """Commit, and process the subscription even if the client disconnects before that is durable."""
        committed = self._partition.commit(decide)
        self._wakeups.poke(key)
        return committed

    async def _view(self, subscription: Subscription, now_ms: int) -> SubscriptionView:
        """Return a subscription as it is now; its links are converted in slices, beside other work."""
        state = self._state
        links, failed = list(subscription.links.items()), subscription.failed
        now_at = pending_tails(state, subscription, now_ms)
        streams: list[StreamInfo] = []
        for start in range(0, len(links), _SHOWN_SLICE):
            if start:
                await asyncio.sleep(0)
            streams += infos_of(state, links[start : start + _SHOWN_SLICE], now_at, now_ms)
        streams.sort(key=lambda one: not one.has_pending)
        key, config, created_at_ms = subscription.key, subscription.config, subscription.created_at_ms
        return SubscriptionView(key, config, created_at_ms, failed, streams)


def _add(key: SubscriptionKey, found: dict[str, Link], state: State, _: int) -> tuple[list[Effect], None]:
    return subscribe.add(state, key, found), None
