"""Background work of subscriptions: appends, expired leases and retries wake them.

Each subscription has at most one task, which ends when there is nothing to do, and at most
one timer. State is changed only by commits, and a webhook is sent only after the commit of
its wake is durable; after a crash it may be sent again.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

import structlog

from durable_sessions.clock import Clock
from durable_sessions.errors import DurableSessionsError
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.storage.subscription_ports import CallLater, Deliver, SubscribedPartition, Timer
from durable_sessions.streams import deliveries, wakes
from durable_sessions.streams.effects import Effect, Unlinked
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.streams.subscribe import is_unsettled
from durable_sessions.streams.subscriptions import Subscription, SubscriptionKey
from durable_sessions.streams.wakes import Now
from durable_sessions.streams.watched import settle
from durable_sessions.tasks import Task, TaskSupervisor

logger = structlog.get_logger(__name__)

_LINK_SLICE = 100
_SETTLED_AT_ONCE = 500


@dataclass(slots=True)
class _Runner:
    """The state of the work on one subscription; ``found`` are paths whose links have to be checked."""

    found: set[str] = field(default_factory=set)
    again: bool = False
    task: Task | None = None
    timer: Timer | None = None


class Wakeups:
    """Wakes subscriptions when their streams grow, a lease ends or a retry is due."""

    def __init__(
        self,
        partition: SubscribedPartition,
        clock: Clock,
        ids: Ids,
        limits: Limits,
        deliver: Deliver,
        call_later: CallLater | None = None,
    ) -> None:
        self._partition = partition
        self._state = partition.tip
        self._clock = clock
        self._ids = ids
        self._limits = limits
        self._deliver = deliver
        self._call_later = call_later or (lambda s, f: asyncio.get_running_loop().call_later(s, f))
        self._runners: dict[SubscriptionKey, _Runner] = {}
        # Streams whose links are known to be complete, so that an append need not match patterns.
        self._settled: set[Key] = set()
        self._supervisor: TaskSupervisor | None = None
        self._reconciler: Task | None = None
        self._closed = False

    def start(self, supervisor: TaskSupervisor) -> None:
        """Resume leases, retries and undelivered wakes where the last process left them."""
        self._supervisor = supervisor
        self._partition.listen(self)
        self._reconciler = supervisor.start("subscriptions", self._reconcile)

    async def close(self) -> None:
        """Stop; webhooks in flight are abandoned and sent again after a restart."""
        self._closed = True
        tasks = [runner.task for runner in self._runners.values()] + [self._reconciler]
        running = [task for task in tasks if task is not None]
        for runner in self._runners.values():
            if runner.timer is not None:
                runner.timer.cancel()
        for task in running:
            task.cancel()
        for task in running:
            await task.stop()
        self._runners.clear()

    def now(self, now_ms: int) -> Now:
        """Return the inputs of a decision that may issue a wake."""
        return Now(now_ms, self._ids.token("w_"), self._limits)

    # Notifications of the partition -----------------------------------------------------

    name = "subscriptions"

    def reconcile(self) -> None:
        """Check every subscription and the streams it may watch: a notification may have been missed."""
        assert self._supervisor is not None, "it was started"
        self.unsettle()
        if self._reconciler is not None:
            self._reconciler.cancel()
        self._reconciler = self._supervisor.start("subscriptions", self._reconcile)

    def stream_created(self, stream: StreamRecord) -> None:
        """Do nothing: there is nothing to read yet."""

    def streams_appended(self, appended: Sequence[tuple[StreamRecord, int]]) -> None:
        """Wake the subscriptions of streams; constant time for a stream without any."""
        if self._state.subscriptions:
            for stream, _ in appended:
                self._appended(stream.key)

    def _appended(self, key: Key) -> None:
        subscriptions = self._state.subscriptions
        if key not in self._settled:
            self._settle(key)
        for subscription in subscriptions.watching(key):
            if subscription.wake is None:  # otherwise it looks for pending records when that wake ends
                self.poke(subscription.key)

    def stream_erased(self, stream: StreamRecord, positions: Sequence[int]) -> None:
        """Do nothing: a subscriber who is told of a record gets what it is when he reads it."""

    def tail_reported(self, key: Key, *, gone: bool) -> None:
        """Wake the subscriptions of a stream of another partition, of which news has come."""
        if gone:
            self._removed(key)
        else:
            self._appended(key)

    def stream_removed(self, stream: StreamRecord) -> None:
        """Remove the links to the stream."""
        self._removed(stream.key)

    def _removed(self, key: Key) -> None:
        self._settled.discard(key)
        for subscription in self._state.subscriptions.watching(key):
            self.poke(subscription.key, key.path)

    def unsettle(self) -> None:
        """Match every stream again at its next append: patterns or links have changed."""
        self._settled.clear()

    def _settle(self, key: Key) -> None:
        if len(self._settled) >= self._limits.matched_streams_max:
            self._settled.clear()
        self._settled.add(key)
        subscriptions = self._state.subscriptions
        for subscription in {one.key: one for one in subscriptions.watching(key)}.values():
            self._poke_if_unsettled(subscription, key.path)
        for subscription in subscriptions.matching(key):
            if key.path not in subscription.links:
                self._poke_if_unsettled(subscription, key.path)

    def _poke_if_unsettled(self, subscription: Subscription, path: str) -> None:
        if is_unsettled(self._state, subscription, path, self._clock.now_ms()):
            self.poke(subscription.key, path)

    async def _reconcile(self) -> None:
        """Find what the last process had not recorded yet, in slices, beside other work.

        A stream that no pattern matches, or whose link is up to date, is not loaded.
        """
        state = self._state
        prefixes: dict[str, str] = {}
        for key in [subscription.key for subscription in state.subscriptions]:
            subscription = state.subscriptions.get(key)
            if subscription is None:
                continue
            await self._check_links(subscription)
            self.poke(key)
            if subscription.glob is not None:
                prefix = subscription.glob.prefix
                known = prefixes.get(key.workspace)
                prefixes[key.workspace] = prefix if known is None else _common(known, prefix)
        for workspace, prefix in prefixes.items():
            for page in self._partition.path_pages(workspace, prefix):
                for number, path in page:
                    self._find_links(Key(workspace, path), number)
                await asyncio.sleep(0)

    async def _check_links(self, subscription: Subscription) -> None:
        """Check the links of a subscription: are their streams gone, or have they grown?"""
        state = self._state
        paths = list(subscription.links)
        for start in range(0, len(paths), _LINK_SLICE):
            if state.subscriptions.get(subscription.key) is not subscription:
                return
            for path in settle(state, subscription, paths[start : start + _LINK_SLICE]):
                self._poke_if_unsettled(subscription, path)
            await asyncio.sleep(0)

    async def settle_links(self, subscription: Subscription) -> None:
        """Find out in slices which of many links are caught up, so that a decision need not."""
        if len(subscription.behind) <= _SETTLED_AT_ONCE:
            return
        paths = list(subscription.behind)
        for start in range(0, len(paths), _LINK_SLICE):
            await asyncio.sleep(0)
            settle(self._state, subscription, paths[start : start + _LINK_SLICE])

    def _find_links(self, stream: Key, number: int) -> None:
        for subscription in self._state.subscriptions.matching(stream):
            link = subscription.links.get(stream.path)
            if link is None or link.stream != number:
                self._poke_if_unsettled(subscription, stream.path)

    # Running ----------------------------------------------------------------------------

    def poke(self, key: SubscriptionKey, path: str | None = None) -> None:
        """Schedule work on a subscription, and a check of its link to ``path``."""
        if self._closed or self._state.subscriptions.get(key) is None:
            return
        runner = self._runners.setdefault(key, _Runner())
        if path is not None:
            runner.found.add(path)
        if runner.task is not None:
            runner.again = True  # it may have looked before this change, so it makes another round
            return
        if runner.timer is not None:
            runner.timer.cancel()
            runner.timer = None
        assert self._supervisor is not None, "it was started"
        runner.task = self._supervisor.start("subscription", partial(self._run, key, runner))

    def drop(self, key: SubscriptionKey) -> None:
        """Stop all work on a subscription that was deleted."""
        runner = self._runners.pop(key, None)
        if runner is not None and runner.timer is not None:
            runner.timer.cancel()
        if runner is not None and runner.task is not None:
            runner.task.cancel()

    async def _run(self, key: SubscriptionKey, runner: _Runner) -> None:
        """Work until there is nothing to do; after an unexpected failure the supervisor restarts it."""
        try:
            while True:
                runner.again = False
                await self._advance(key, runner)
                if not await self._deliver_due(key) and not runner.again:
                    break
        except DurableSessionsError as error:
            # The partition accepts nothing more; the next process continues from what is durable.
            logger.info("subscription_stopped", subscription=key.id, reason=str(error))
            runner.task = None
            return
        runner.task = None
        self._rest(key, runner)

    def _rest(self, key: SubscriptionKey, runner: _Runner) -> None:
        """Set the timer for the next lease end or retry."""
        if self._runners.get(key) is not runner:  # deleted meanwhile, and perhaps created again
            return
        subscription = self._state.subscriptions.get(key)
        due_ms = None if subscription is None else wakes.due_ms(subscription)
        if due_ms is not None:
            delay = max(due_ms - self._clock.now_ms(), 0) / 1000
            runner.timer = self._call_later(delay, lambda: self.poke(key))
        elif subscription is None or not runner.found:
            del self._runners[key]

    async def _advance(self, key: SubscriptionKey, runner: _Runner) -> None:
        subscription = self._state.subscriptions.get(key)
        if subscription is not None:
            await self.settle_links(subscription)
        found, runner.found = runner.found, set()

        def decide(state: State, now_ms: int) -> tuple[list[Effect], list[str]]:
            effects, left = wakes.advance(state, key, found, self.now(now_ms))
            for effect in effects:
                if isinstance(effect, Unlinked):
                    self._settled.difference_update(Key(key.workspace, path) for path in effect.paths)
            return effects, left

        try:
            left = await self._partition.commit(decide)
        except Exception:
            runner.found |= found  # they still have to be checked
            raise
        runner.found.update(left)

    async def _deliver_due(self, key: SubscriptionKey) -> bool:
        """Send the webhook that is due, if any, and record the outcome; say whether one was sent."""
        subscription = self._state.subscriptions.get(key)
        if subscription is None or subscription.config.webhook_url is None:
            return False
        # A commit without effects returns when everything before it is durable, and so the wake is: a webhook
        # must not announce what a crash could undo.
        delivery = await self._partition.commit(
            lambda state, now_ms: ([], deliveries.due(state, key, now_ms, self._limits))
        )
        if delivery is None:
            return False
        result = await self._deliver(delivery)
        if not result.accepted:
            logger.warning(
                "webhook_failed", subscription=key.id, wake=delivery.wake_id, problem=result.problem
            )

        def decide(state: State, now_ms: int) -> tuple[list[Effect], None]:
            wake_id = delivery.wake_id
            if result.accepted:
                return deliveries.accepted(state, key, wake_id, self.now(now_ms), done=result.done), None
            fraction = self._ids.fraction()
            return deliveries.failed(state, key, wake_id, now_ms, fraction, self._limits), None

        await self._partition.commit(decide)
        return True


def _common(one: str, other: str) -> str:
    """Return the common prefix of two texts."""
    length = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        length += 1
    return one[:length]
