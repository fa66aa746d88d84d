"""The manager with a clock, timers, a partition and a receiver that the tests move themselves."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

import msgspec
import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.errors import (
    DurableSessionsError,
    FencedError,
    InvalidRequestError,
    NoPendingWorkError,
    PartitionStoppedError,
    SubscriptionExistsError,
    SubscriptionNotFoundError,
)
from durable_sessions.limits import Limits
from durable_sessions.node.supervisor import Supervisor
from durable_sessions.storage import subscriptions
from durable_sessions.storage.door import StreamListener
from durable_sessions.storage.subscriptions import Delivery, DeliveryResult, SubscriptionManager
from durable_sessions.storage.wakeups import Wakeups
from durable_sessions.streams import append, create, effects, lifetime, offsets
from durable_sessions.streams.effects import Effect, RecordsAppended, StreamRemoved
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.subscribe import Subscribe
from durable_sessions.streams.subscriptions import Config, Subscription, SubscriptionKey, Subscriptions
from durable_sessions.streams.wakes import Claim, Hold

pytestmark = pytest.mark.anyio

T = TypeVar("T")
SUB = SubscriptionKey("w", "sub")
WEBHOOK = Config("webhook", 5_000, pattern="events/*", webhook_url="https://example.com/hook")
PULL = Config("pull-wake", 5_000, pattern="events/*", wake_stream="wakes")
DONE = DeliveryResult(accepted=True, done=True)
TAKEN = DeliveryResult(accepted=True)
REFUSED = DeliveryResult(accepted=False, problem="503")


class FakePartition:
    """Decides like the real one; what is decided becomes durable at the next turn, or when let."""

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.tip = State()
        self.log: list[bytes] = []
        self.stalled = False
        self.commits = 0
        self.stopped: DurableSessionsError | None = None
        self.listeners: list[StreamListener] = []
        self._pending: list[Callable[[], None]] = []

    def commit(self, decide: Callable[[State, int], tuple[Sequence[Effect], T]]) -> "asyncio.Future[T]":
        if self.stopped is not None:
            raise self.stopped
        self.commits += 1
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        changed: list[tuple[Effect, Stream | None]] = []
        outcome: Callable[[], None]
        try:
            decided, result = decide(self.tip, self.clock.now_ms())
        except DurableSessionsError as error:
            outcome = partial(future.set_exception, error)
        else:
            outcome = partial(future.set_result, result)
            changed = [(effect, self._apply(effect)) for effect in decided]

        def durable() -> None:
            for effect, stream in changed:
                self.log.append(effects.encode(effect))
                self._tell(effect, stream)
            if not future.done():
                outcome()

        self._pending.append(durable)
        if not self.stalled:
            asyncio.get_running_loop().call_soon(self.flush)
        return future

    def _apply(self, effect: Effect) -> Stream | None:
        if isinstance(effect, StreamRemoved):
            removed = self.tip.by_id[effect.stream]
            self.tip.apply(effect)
            return removed
        self.tip.apply(effect)
        return self.tip.by_id[effect.stream] if isinstance(effect, RecordsAppended) else None

    def _tell(self, effect: Effect, stream: Stream | None) -> None:
        for listener in self.listeners:
            if isinstance(effect, RecordsAppended) and stream is not None:
                listener.streams_appended([(stream, effect.first)])
            elif stream is not None:
                listener.stream_removed(stream)

    def flush(self, count: int | None = None) -> None:
        """Make all pending commits durable, or the first so many."""
        count = len(self._pending) if count is None else count
        pending, self._pending = self._pending[:count], self._pending[count:]
        for durable in pending:
            durable()

    def path_pages(self, workspace: str, prefix: str) -> Iterator[Sequence[tuple[int, str]]]:
        streams = self.tip.streams
        yield [
            (stream.id, key.path)
            for key, stream in streams.items()
            if key.workspace == workspace and key.path.startswith(prefix)
        ]

    def listen(self, listener: StreamListener) -> None:
        self.listeners.append(listener)

    def restarted(self) -> "FakePartition":
        again = FakePartition(self.clock)
        again.log = self.log.copy()
        for effect in self.log:
            again.tip.apply(effects.decode(effect))
        return again


class FakeIds:
    def __init__(self) -> None:
        self.count = 0

    def token(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def fraction(self) -> float:
        return 0.5


class FakeTimer:
    def __init__(self, due_ms: int, callback: Callable[[], None]) -> None:
        self.due_ms = due_ms
        self.callback = callback
        self.over = False

    def cancel(self) -> None:
        self.over = True


class Receiver:
    """Answers deliveries with what the test has put in, or leaves them waiting."""

    def __init__(self) -> None:
        self.got: list[Delivery] = []
        self.answers: list[DeliveryResult] = []
        self.waiting: list[asyncio.Future[DeliveryResult]] = []
        self.most_at_once = 0

    async def deliver(self, delivery: Delivery) -> DeliveryResult:
        self.got.append(delivery)
        if self.answers:
            return self.answers.pop(0)
        waiter: asyncio.Future[DeliveryResult] = asyncio.get_running_loop().create_future()
        self.waiting.append(waiter)
        self.most_at_once = max(self.most_at_once, len(self.waiting))
        try:
            return await waiter
        finally:
            self.waiting.remove(waiter)

    def answer(self, result: DeliveryResult) -> None:
        self.waiting[0].set_result(result)


class World:
    def __init__(self, limits: Limits | None = None) -> None:
        self.clock = ManualClock()
        self.limits = limits or Limits()
        self.partition = FakePartition(self.clock)
        self.receiver = Receiver()
        self.timers: list[FakeTimer] = []
        self.ids = FakeIds()
        self.manager = self._manager()

    def _manager(self) -> SubscriptionManager:
        wakeups = Wakeups(
            self.partition, self.clock, self.ids, self.limits, self.receiver.deliver, self._call_later
        )
        manager = SubscriptionManager(self.partition, self.clock, self.limits, wakeups)
        manager.start(Supervisor(self.clock, self.limits))
        return manager

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> FakeTimer:
        timer = FakeTimer(self.clock.now_ms() + round(seconds * 1000), callback)
        self.timers.append(timer)
        return timer

    async def settle(self) -> None:
        for _ in range(60):
            await asyncio.sleep(0)

    async def wait(self, seconds: float) -> None:
        await self.settle()
        self.clock.advance(seconds)
        for timer in self.timers:
            if not timer.over and timer.due_ms <= self.clock.now_ms():
                timer.over = True
                timer.callback()
        await self.settle()

    async def restart(self) -> None:
        """Go on with what was durable, as after a crash."""
        await self.manager.close()
        self.partition = self.partition.restarted()
        self.timers.clear()
        self.manager = self._manager()
        await self.settle()

    async def stream(self, path: str, body: bytes = b"[]") -> None:
        request = create.Create("application/json", body=body)
        key = Key("w", path)
        await self.partition.commit(
            lambda state, now: create.decide(state, key, request, now, self.limits, None)
        )
        await self.settle()

    async def append(self, path: str, count: int = 1) -> None:
        request = append.Append(msgspec.json.encode([0] * count), "application/json")
        key = Key("w", path)
        await self.partition.commit(lambda state, now: append.decide(state, key, request, now, self.limits))
        await self.settle()

    async def remove(self, path: str) -> None:
        await self.partition.commit(
            lambda state, _: (lifetime.remove(state, state.streams[Key("w", path)]), None)
        )
        await self.settle()

    async def subscribe(self, config: Config, *streams: str) -> None:
        await self.manager.create(SUB, Subscribe(config, streams, "http://here"))
        await self.settle()

    async def acked(self) -> dict[str, str]:
        return {info.path: info.acked_offset for info in (await self.manager.get(SUB)).streams}

    def generation(self) -> int:
        found = self.partition.tip.subscriptions.get(SUB)
        assert found is not None
        return found.generation


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    yield world
    await world.manager.close()


def hold_of(given: Delivery | Claim) -> Hold:
    return Hold(given.wake_id, given.generation, given.generation)


# Requests ---------------------------------------------------------------------------------


async def test_a_created_subscription_is_shown_as_it_is(world: World) -> None:
    await world.stream("events/a", b"[1,2]")
    new, view = await world.manager.create(SUB, Subscribe(WEBHOOK, ("manual",), "http://here"))
    assert new
    assert view == await world.manager.get(SUB)
    assert {info.path: info.acked_offset for info in view.streams} == {
        "events/a": offsets.encode(2),
        "manual": offsets.encode(0),
    }
    assert (await world.manager.create(SUB, Subscribe(WEBHOOK, ("manual",), "http://here")))[0] is False
    with pytest.raises(SubscriptionExistsError):
        await world.manager.create(SUB, Subscribe(PULL, (), "http://here"))
    await world.manager.delete(SUB)
    await world.manager.delete(SUB)
    with pytest.raises(SubscriptionNotFoundError):
        await world.manager.get(SUB)


async def test_answers_wait_for_durability(world: World) -> None:
    world.partition.stalled = True
    created = asyncio.create_task(world.manager.create(SUB, Subscribe(WEBHOOK, (), "http://here")))
    await world.settle()  # it looks for streams first
    read = asyncio.create_task(world.manager.get(SUB))
    await world.settle()
    assert not created.done()
    assert not read.done()
    world.partition.stalled = False
    world.partition.flush()
    await created
    await read


@pytest.mark.parametrize("slices", [0, 1])
async def test_what_a_pattern_found_is_linked_even_if_the_client_goes_away(
    world: World, monkeypatch: pytest.MonkeyPatch, slices: int
) -> None:
    monkeypatch.setattr(subscriptions, "_LINKED_SLICE", 2)
    expected = {f"events/{number}": offsets.encode(3) for number in range(7)}
    for path in expected:
        await world.stream(path, b"[1,2,3]")
    world.partition.stalled = True
    created = asyncio.create_task(world.manager.create(SUB, Subscribe(WEBHOOK, (), "http://here")))
    await world.settle()
    for _ in range(slices):
        world.partition.flush()
        await world.settle()
    assert created.cancel()
    await asyncio.gather(created, return_exceptions=True)
    world.partition.stalled = False
    world.partition.flush()
    await world.settle()
    assert await world.acked() == expected


async def test_streams_are_linked_and_unlinked_by_name(world: World) -> None:
    await world.subscribe(WEBHOOK)
    await world.manager.link(SUB, ["manual/a", "manual/b"])
    await world.manager.unlink(SUB, "manual/a")
    assert await world.acked() == {"manual/b": offsets.encode(0)}
    world.receiver.answers = [DONE]
    await world.stream("manual/b", b"[1]")
    assert await world.acked() == {"manual/b": offsets.encode(1)}


async def test_each_type_has_its_own_requests(world: World) -> None:
    await world.subscribe(WEBHOOK)
    await world.manager.require_kind(SUB, "webhook")
    with pytest.raises(InvalidRequestError):
        await world.manager.require_kind(SUB, "pull-wake")
    with pytest.raises(InvalidRequestError):
        await world.manager.claim(SUB, "one")
    with pytest.raises(InvalidRequestError):
        await world.manager.ack(SUB, Hold("w_1", 1, 1), [], done=True)
    with pytest.raises(SubscriptionNotFoundError):
        await world.manager.require_kind(SubscriptionKey("w", "other"), "webhook")


# Webhooks ---------------------------------------------------------------------------------


async def test_done_acknowledges_and_ends_the_wake(world: World) -> None:
    await world.subscribe(WEBHOOK)
    world.receiver.answers = [DONE]
    await world.stream("events/a", b"[1,2]")
    (delivery,) = world.receiver.got
    (info,) = delivery.streams
    assert (info.path, info.acked_offset, info.has_pending) == ("events/a", "-1", True)
    assert await world.acked() == {"events/a": info.tail_offset}
    await world.wait(100)
    assert len(world.receiver.got) == 1


async def test_nothing_is_sent_before_the_wake_is_durable(world: World) -> None:
    await world.stream("events/a")
    await world.subscribe(WEBHOOK)
    await world.append("events/a")
    await world.settle()
    world.receiver.answer(TAKEN)
    world.partition.stalled = True
    await world.settle()
    assert len(world.receiver.got) == 1
    called = asyncio.create_task(world.manager.callback(SUB, hold_of(world.receiver.got[0]), [], done=True))
    await world.settle()
    assert world.generation() == 2, "the next wake is decided"
    assert len(world.receiver.got) == 1
    world.partition.stalled = False
    world.partition.flush()
    await world.settle()
    assert await called is True
    assert [delivery.generation for delivery in world.receiver.got] == [1, 2]


async def test_a_wake_that_another_request_issued_is_not_sent_early(world: World) -> None:
    await world.subscribe(WEBHOOK)
    world.receiver.answers = [TAKEN]
    await world.stream("events/a", b"[1]")
    world.partition.stalled = True
    linking = asyncio.create_task(world.manager.link(SUB, ["manual"]))
    await world.settle()  # the link and the look at the subscription that follows it are pending
    calling = asyncio.create_task(world.manager.callback(SUB, hold_of(world.receiver.got[0]), [], done=True))
    await world.settle()
    assert world.generation() == 2
    world.partition.flush(2)
    await world.settle()
    assert linking.done()
    assert not calling.done()
    assert len(world.receiver.got) == 1
    world.partition.stalled = False
    world.partition.flush()
    await world.settle()
    assert calling.done()
    assert len(world.receiver.got) == 2


async def test_an_append_while_the_subscription_is_looked_at_is_not_missed(world: World) -> None:
    await world.stream("wakes")
    await world.stream("events/a")
    await world.subscribe(PULL)
    world.partition.stalled = True
    linking = asyncio.create_task(world.manager.link(SUB, ["manual"]))
    await world.settle()
    appending = asyncio.create_task(world.append("events/a"))
    await world.settle()
    world.partition.stalled = False
    world.partition.flush()
    await linking
    await appending
    assert world.generation() == 1


async def test_an_append_while_a_wake_is_in_flight_costs_nothing(world: World) -> None:
    await world.stream("events/a")
    await world.subscribe(WEBHOOK)
    world.receiver.answers = [TAKEN]
    await world.append("events/a")
    before = world.partition.commits
    for _ in range(10):
        await world.append("events/a")
    assert world.partition.commits == before + 10


async def test_an_accepted_wake_has_a_lease(world: World) -> None:
    await world.subscribe(WEBHOOK)
    world.receiver.answers = [TAKEN, DONE]
    await world.stream("events/a", b"[1]")
    first = world.receiver.got[0]
    await world.wait(4)
    assert await world.manager.callback(SUB, hold_of(first), [], done=False) is False
    await world.wait(4.9)
    assert len(world.receiver.got) == 1
    await world.wait(0.1)
    assert [delivery.generation for delivery in world.receiver.got] == [1, 2]
    with pytest.raises(FencedError):
        await world.manager.callback(SUB, hold_of(first), [], done=True)


async def test_a_failed_delivery_is_retried_on_schedule_across_a_restart(world: World) -> None:
    await world.subscribe(WEBHOOK)
    world.receiver.answers = [REFUSED, REFUSED, REFUSED, DONE]
    await world.stream("events/a", b"[1]")
    assert (await world.manager.get(SUB)).failed
    await world.wait(0.999)
    assert len(world.receiver.got) == 1
    await world.wait(0.001)
    assert len(world.receiver.got) == 2
    await world.wait(1)
    await world.restart()
    assert len(world.receiver.got) == 2, "the restart does not bring the retry forward"
    await world.wait(1)
    assert len(world.receiver.got) == 3
    await world.wait(4)
    assert len({delivery.wake_id for delivery in world.receiver.got}) == 1
    assert not (await world.manager.get(SUB)).failed
    assert await world.acked() == {"events/a": offsets.encode(1)}


async def test_a_wake_whose_delivery_is_not_recorded_is_sent_again_after_a_restart(world: World) -> None:
    await world.subscribe(WEBHOOK)
    await world.stream("events/a", b"[1]")
    assert len(world.receiver.waiting) == 1
    await world.restart()
    first, again = world.receiver.got
    assert first == again
    world.receiver.answer(TAKEN)
    await world.settle()
    await world.restart()
    assert len(world.receiver.got) == 2, "what was accepted waits for its lease"
    await world.wait(5)
    assert world.receiver.got[2].generation == 2


async def test_one_request_at_a_time_and_one_wake_for_all_that_came_meanwhile(world: World) -> None:
    await world.stream("events/a")
    await world.stream("events/b")
    await world.subscribe(WEBHOOK)
    for _ in range(5):
        await world.append("events/a")
        await world.append("events/b")
    world.receiver.answer(DONE)
    await world.settle()
    world.receiver.answer(DONE)
    await world.settle()
    assert len(world.receiver.got) == 2
    assert world.receiver.most_at_once == 1
    assert await world.acked() == {"events/a": offsets.encode(5), "events/b": offsets.encode(5)}


async def test_a_callback_before_the_answer_leads_to_the_next_wake_after_it(world: World) -> None:
    await world.subscribe(WEBHOOK)
    await world.stream("events/a", b"[1]")
    hold = hold_of(world.receiver.got[0])
    await world.append("events/a")
    ack = [("events/a", offsets.encode(1))]
    assert await world.manager.callback(SUB, hold, ack, done=True) is True
    await world.settle()
    assert len(world.receiver.got) == 1
    world.receiver.answer(DONE)
    await world.settle()
    assert await world.acked() == {"events/a": offsets.encode(1)}, "the late answer was for the first wake"
    assert world.receiver.got[1].generation == 2


async def test_a_deleted_subscription_stops_at_once(world: World) -> None:
    await world.subscribe(WEBHOOK)
    await world.stream("events/a", b"[1]")
    assert len(world.receiver.waiting) == 1
    await world.manager.delete(SUB)
    await world.settle()
    assert not world.receiver.waiting
    await world.subscribe(WEBHOOK)
    await world.append("events/a")
    assert [delivery.generation for delivery in world.receiver.got] == [1, 1]
    assert world.receiver.got[1].streams[0].acked_offset == offsets.encode(1)


# Pull-wake --------------------------------------------------------------------------------


async def test_a_lease_that_runs_out_frees_the_work_and_tells_the_wake_stream(world: World) -> None:
    await world.stream("wakes")
    await world.stream("events/a")
    await world.subscribe(PULL)
    await world.append("events/a")
    wakes = world.partition.tip.streams[Key("w", "wakes")]
    assert wakes.tail == 1
    hold = hold_of(await world.manager.claim(SUB, "one"))
    await world.wait(4)
    await world.manager.ack(SUB, hold, [], done=False)
    await world.wait(4)
    assert wakes.tail == 1
    await world.wait(1)
    assert wakes.tail == 2
    with pytest.raises(FencedError):
        await world.manager.ack(SUB, hold, [], done=False)
    hold = hold_of(await world.manager.claim(SUB, "two"))
    await world.manager.release(SUB, hold)
    await world.settle()
    assert wakes.tail == 3
    hold = hold_of(await world.manager.claim(SUB, "two"))
    ack = [("events/a", offsets.encode(1))]
    assert await world.manager.ack(SUB, hold, ack, done=True) is False
    with pytest.raises(NoPendingWorkError):
        await world.manager.claim(SUB, "two")
    await world.wait(100)
    assert wakes.tail == 3


async def test_a_lease_runs_on_across_a_restart(world: World) -> None:
    await world.stream("wakes")
    await world.stream("events/a")
    await world.subscribe(PULL)
    await world.append("events/a")
    hold = hold_of(await world.manager.claim(SUB, "one"))
    await world.restart()
    await world.manager.ack(SUB, hold, [], done=False)
    await world.restart()
    await world.wait(4.9)
    assert world.generation() == 1
    await world.wait(0.1)
    assert world.generation() == 2


async def test_a_client_that_goes_away_leaves_no_claim_without_a_lease(world: World) -> None:
    await world.stream("events/a")
    await world.subscribe(PULL)
    await world.append("events/a")
    world.partition.stalled = True
    claim = asyncio.create_task(world.manager.claim(SUB, "one"))
    await world.settle()
    claim.cancel()
    with suppress(asyncio.CancelledError):
        await claim
    world.partition.stalled = False
    world.partition.flush()
    await world.wait(5)
    assert world.generation() == 2


async def test_a_wide_pattern_does_not_wake_itself(world: World) -> None:
    await world.stream("wakes")
    await world.subscribe(msgspec.structs.replace(PULL, pattern="**"))
    await world.stream("a", b"[1]")
    hold = hold_of(await world.manager.claim(SUB, "one"))
    assert await world.manager.ack(SUB, hold, [("a", offsets.encode(1))], done=True) is False
    await world.wait(10)
    assert world.partition.tip.streams[Key("w", "wakes")].tail == 1
    assert set(await world.acked()) == {"a"}


# Finding streams ----------------------------------------------------------------------------


async def test_an_append_to_an_unwatched_stream_is_matched_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    matching = Subscriptions.matching

    def counting(self: Subscriptions, stream: Key) -> list[Subscription]:
        asked.append(stream.path)
        return matching(self, stream)

    monkeypatch.setattr(Subscriptions, "matching", counting)
    await world.stream("other/a", b"[1]")
    assert asked == [], "nobody subscribes to anything"
    await world.subscribe(WEBHOOK)
    for _ in range(10):
        await world.append("other/a")
    assert asked == ["other/a"]
    await world.manager.link(SUB, ["manual"])
    for _ in range(10):
        await world.append("other/a")
    assert asked == ["other/a"] * 2


async def test_a_stream_that_was_seen_before_is_found_by_a_later_subscription(world: World) -> None:
    await world.manager.create(SubscriptionKey("w", "first"), Subscribe(WEBHOOK, (), "http://here"))
    await world.stream("manual", b"[1]")
    await world.remove("manual")
    await world.subscribe(PULL, "manual")
    await world.stream("manual", b"[1]")
    assert (await world.manager.claim(SUB, "one")).streams[0].acked_offset == offsets.encode(0)


async def test_a_stream_that_is_no_wake_stream_any_more_is_found(world: World) -> None:
    other = SubscriptionKey("w", "other")
    await world.stream("wakes")
    await world.manager.create(other, Subscribe(PULL, (), "http://here"))
    everything = Config("webhook", 5_000, pattern="**", webhook_url="https://example.com/hook")
    await world.subscribe(everything)
    await world.append("wakes")
    assert await world.acked() == {}
    await world.manager.delete(other)
    await world.append("wakes")
    assert await world.acked() == {"wakes": "-1"}


async def test_what_a_crash_left_unrecorded_is_found_at_the_start(world: World) -> None:
    await world.stream("events/gone")
    await world.subscribe(WEBHOOK)
    await world.manager.close()
    await world.stream("events/found", b"[1]")
    await world.stream("events/empty")
    await world.remove("events/gone")
    await world.restart()
    assert await world.acked() == {"events/found": "-1"}
    found = world.partition.tip.subscriptions.get(SUB)
    assert found is not None
    assert set(found.links) == {"events/found"}
    assert len(world.receiver.got) == 1


async def test_a_deleted_stream_is_unlinked_and_its_successor_found(world: World) -> None:
    await world.stream("events/a", b"[1,2,3]")
    await world.subscribe(WEBHOOK)
    await world.remove("events/a")
    assert await world.acked() == {}
    await world.stream("events/a", b"[1]")
    assert await world.acked() == {"events/a": "-1"}


async def test_beyond_the_limit_of_links_no_stream_is_missed() -> None:
    world = World(Limits(subscription_streams_max=2))
    await world.subscribe(WEBHOOK)
    for name in "abcd":
        await world.stream(f"events/{name}", b"[1]")
    seen: set[str] = set()
    for _ in range(10):
        if not world.receiver.waiting:
            break
        seen |= {info.path for info in world.receiver.got[-1].streams if info.has_pending}
        world.receiver.answer(DONE)
        await world.settle()
    assert seen == {f"events/{name}" for name in "abcd"}
    await world.append("events/a")
    assert "events/a" in {info.path for info in world.receiver.got[-1].streams if info.has_pending}
    await world.manager.close()


# Ends ---------------------------------------------------------------------------------------


async def test_a_stopped_partition_ends_the_work_quietly(world: World) -> None:
    await world.subscribe(WEBHOOK)
    await world.stream("events/a", b"[1]")
    world.partition.stopped = PartitionStoppedError(reason="disk")
    world.receiver.answer(DONE)
    await world.wait(100)
    assert len(world.receiver.got) == 1
    with pytest.raises(PartitionStoppedError):
        await world.manager.get(SUB)


async def test_after_close_nothing_happens(world: World) -> None:
    await world.subscribe(WEBHOOK)
    await world.stream("events/a", b"[1]")
    await world.manager.close()
    assert not world.receiver.waiting
    await world.append("events/a")
    await world.wait(100)
    assert len(world.receiver.got) == 1
