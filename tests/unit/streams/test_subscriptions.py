"""Subscriptions as a pure state machine: effects in, decisions out, time passed in."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from durable_sessions.errors import (
    AlreadyClaimedError,
    DurableSessionsError,
    FencedError,
    InvalidAckError,
    InvalidRequestError,
    NoPendingWorkError,
    SubscriptionExistsError,
    SubscriptionNotFoundError,
    TooManySubscriptionsError,
)
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.streams import append, create, deliveries, effects, lifetime, offsets, subscribe, wakes
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.streams.subscribe import Subscribe
from durable_sessions.streams.subscriptions import Config, Subscription, SubscriptionKey
from durable_sessions.streams.wakes import Hold, Now
from durable_sessions.streams.watched import stream_infos

SUB = SubscriptionKey("w", "sub")
LEASE_MS = 5_000
WEBHOOK = Config("webhook", LEASE_MS, pattern="events/*", webhook_url="https://example.com/hook")
PULL = Config("pull-wake", LEASE_MS, pattern="events/*", wake_stream="wakes")


class World:
    """A state, the effects that made it, and the operations of the other modules."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.state = State()
        self.log: list[Effect] = []
        self.limits = limits or Limits()
        self.now_ms = 1_000_000
        self.wakes = 0

    def apply(self, decided: Sequence[Effect]) -> None:
        for effect in decided:
            self.log.append(effect)
            self.state.apply(effect)

    def decide(self, function: Callable[..., Any], *args: Any, **options: Any) -> Any:
        decided, result = function(self.state, *args, **options)
        self.apply(decided)
        return result

    def now(self) -> Now:
        self.wakes += 1
        return Now(self.now_ms, f"w_{self.wakes}", self.limits)

    def stream(
        self, path: str, content_type: str = "application/json", body: bytes = b"", ttl: int | None = None
    ) -> None:
        request = create.Create(content_type, ttl_seconds=ttl, body=body or b"[]")
        self.decide(create.decide, Key("w", path), request, self.now_ms, self.limits, lambda *_: None)

    def append(self, path: str, count: int = 1, *, close: bool = False) -> None:
        body = msgspec.json.encode(list(range(count)))
        self.decide(
            append.decide,
            Key("w", path),
            append.Append(body, "application/json", close=close),
            self.now_ms,
            self.limits,
        )

    def remove(self, path: str) -> None:
        self.apply(lifetime.remove(self.state, self.state.streams[Key("w", path)]))

    def subscribe(self, config: Config, *streams: str, key: SubscriptionKey = SUB) -> bool:
        paths = [stream.path for stream in self.state.streams]
        request = Subscribe(config, streams, "http://here")
        new: bool = self.decide(subscribe.create, key, request, paths, self.now_ms, self.limits)
        return new

    def advance(self, *paths: str, key: SubscriptionKey = SUB) -> list[str]:
        left: list[str] = self.decide(wakes.advance, key, paths, self.now())
        return left

    def claim(self, worker: str = "one") -> wakes.Claim:
        claim: wakes.Claim = self.decide(wakes.claim, SUB, worker, self.now())
        return claim

    def acknowledge(self, hold: Hold, *acks: tuple[str, int], done: bool = False) -> bool:
        wire = [(path, offsets.encode(position)) for path, position in acks]
        kind = self.sub.config.type
        following: bool = self.decide(wakes.acknowledge, SUB, kind, hold, wire, self.now(), done=done)
        return following

    def accepted(self, *, done: bool, wake_id: str | None = None) -> None:
        wake_id = wake_id or self.wake_id
        self.apply(deliveries.accepted(self.state, SUB, wake_id, self.now(), done=done))

    def failed(self, fraction: float = 0.5) -> None:
        self.apply(deliveries.failed(self.state, SUB, self.wake_id, self.now_ms, fraction, self.limits))

    @property
    def sub(self) -> Subscription:
        return subscribe.find(self.state, SUB)

    @property
    def wake_id(self) -> str:
        assert self.sub.wake is not None
        return self.sub.wake.id

    @property
    def hold(self) -> Hold:
        return Hold(self.wake_id, self.sub.generation, self.sub.generation)

    def acked(self) -> dict[str, tuple[str, int]]:
        return {
            info.path: (
                info.link_type,
                -1 if info.acked_offset == "-1" else offsets.decode(info.acked_offset),
            )
            for info in stream_infos(self.state, self.sub, self.now_ms)
        }

    def replayed(self) -> State:
        state = State()
        for effect in self.log:
            state.apply(effects.decode(effects.encode(effect)))
        return state


def hold_of(claim: wakes.Claim) -> Hold:
    return Hold(claim.wake_id, claim.generation, claim.generation)


# Which subscriptions exist ----------------------------------------------------------------


def test_the_same_configuration_confirms_and_another_is_refused() -> None:
    world = World()
    assert world.subscribe(WEBHOOK)
    assert not world.subscribe(WEBHOOK)
    with pytest.raises(SubscriptionExistsError):
        world.subscribe(msgspec.structs.replace(WEBHOOK, lease_ttl_ms=6_000))


def test_a_removed_subscription_leaves_nothing_behind() -> None:
    world = World()
    world.stream("wakes")
    world.stream("events/a")
    world.subscribe(PULL, "manual")
    world.apply(subscribe.remove(world.state, SUB))
    assert not world.state.subscriptions
    assert not world.state.subscriptions.watching(Key("w", "events/a"))
    assert not world.state.subscriptions.is_wake_stream(Key("w", "wakes"))
    assert subscribe.remove(world.state, SUB) == []
    with pytest.raises(SubscriptionNotFoundError):
        subscribe.find(world.state, SUB)


def test_subscriptions_of_a_workspace_are_limited() -> None:
    world = World(Limits(subscriptions_max=2))
    world.subscribe(WEBHOOK, key=SubscriptionKey("w", "1"))
    world.subscribe(WEBHOOK, key=SubscriptionKey("w", "2"))
    world.subscribe(WEBHOOK, key=SubscriptionKey("other", "3"))
    with pytest.raises(TooManySubscriptionsError, match="2 subscriptions"):
        world.subscribe(WEBHOOK, key=SubscriptionKey("w", "3"))
    assert len(world.state.subscriptions) == 3


# Which streams they watch -----------------------------------------------------------------


def test_existing_streams_are_linked_at_their_tail() -> None:
    world = World()
    world.stream("events/a", body=b"[1,2,3]")
    world.stream("other/a", body=b"[1]")
    world.stream("manual/a", body=b"[1]")
    world.subscribe(WEBHOOK, "manual/a", "manual/missing")
    assert world.acked() == {
        "events/a": ("glob", 3),
        "manual/a": ("explicit", 1),
        "manual/missing": ("explicit", 0),
    }
    world.advance(*world.acked())
    assert world.sub.wake is None


def test_a_stream_found_by_an_append_is_linked_before_it() -> None:
    world = World()
    world.subscribe(WEBHOOK)
    world.stream("events/empty")
    world.stream("events/a", body=b"[1,2]")
    world.advance("events/empty", "events/a")
    assert world.acked() == {"events/a": ("glob", -1)}
    assert world.sub.wake is not None
    assert world.sub.wake.snapshot == {"events/a": 2}


def test_an_explicit_link_waits_for_its_stream() -> None:
    world = World()
    world.subscribe(WEBHOOK, "manual")
    world.stream("manual", body=b"[1]")
    world.advance("manual")
    assert world.acked() == {"manual": ("explicit", 0)}
    assert world.sub.generation == 1


def test_explicit_wins_over_glob_and_its_removal_leaves_the_glob() -> None:
    world = World()
    world.stream("events/a", body=b"[1]")
    world.stream("manual", body=b"[1]")
    world.subscribe(WEBHOOK, "manual")
    world.apply(subscribe.link(world.state, SUB, ["events/a"], world.now_ms, world.limits))
    assert world.acked()["events/a"] == ("explicit", 1)
    world.apply(subscribe.unlink(world.state, SUB, "events/a", world.now_ms))
    world.apply(subscribe.unlink(world.state, SUB, "manual", world.now_ms))
    assert world.acked() == {"events/a": ("glob", 1)}
    assert subscribe.unlink(world.state, SUB, "events/a", world.now_ms) == []
    assert subscribe.unlink(world.state, SUB, "unknown", world.now_ms) == []


def test_linking_again_keeps_what_was_acknowledged() -> None:
    world = World()
    world.stream("manual")
    world.subscribe(PULL, "manual")
    world.append("manual", 5)
    world.acknowledge(hold_of(world.claim()), ("manual", 2))
    assert subscribe.link(world.state, SUB, ["manual"], world.now_ms, world.limits) == []
    assert world.acked()["manual"] == ("explicit", 2)


@pytest.mark.parametrize("explicit", [False, True])
def test_a_deleted_stream_loses_its_link_and_its_successor_is_another(explicit: bool) -> None:
    world = World()
    world.stream("events/a", body=b"[1,2,3]")
    world.subscribe(WEBHOOK, *(["events/a"] if explicit else []))
    world.remove("events/a")
    assert world.acked() == {}
    world.stream("events/a", body=b"[1]")
    world.advance("events/a")
    assert world.acked() == {"events/a": ("glob", -1)}


def test_streams_that_are_softly_deleted_or_expired_are_not_watched() -> None:
    world = World()
    world.stream("events/parent", body=b"[1]")
    world.stream("events/brief", ttl=10)
    world.subscribe(WEBHOOK)
    fork = create.Create(fork=create.Fork("events/parent"))
    world.decide(create.decide, Key("w", "fork"), fork, world.now_ms, world.limits, lambda *_: None)
    world.append("events/parent")
    world.append("events/brief")
    world.remove("events/parent")
    world.now_ms += 10_000
    assert world.acked() == {}
    world.advance("events/parent", "events/brief")
    assert world.sub.links == {}
    assert world.sub.wake is None


def test_watched_streams_are_limited_when_asked_for() -> None:
    world = World(Limits(subscription_streams_max=2))
    for path in ("events/a", "events/b", "events/c"):
        world.stream(path)
    with pytest.raises(TooManySubscriptionsError, match="2 streams"):
        world.subscribe(WEBHOOK)
    world.subscribe(msgspec.structs.replace(WEBHOOK, pattern=None), "events/a", "events/b")
    with pytest.raises(TooManySubscriptionsError, match="2 streams"):
        world.apply(subscribe.link(world.state, SUB, ["events/c"], world.now_ms, world.limits))
    assert subscribe.link(world.state, SUB, ["events/b"], world.now_ms, world.limits) == []


def test_at_the_limit_a_found_stream_takes_the_place_of_one_that_is_caught_up() -> None:
    world = World(Limits(subscription_streams_max=2))
    world.stream("events/a", body=b"[1]")
    world.stream("events/b", body=b"[1]")
    world.subscribe(WEBHOOK)
    world.append("events/b")
    world.stream("events/c", body=b"[1]")
    assert world.advance("events/c") == []
    assert world.acked() == {"events/b": ("glob", 1), "events/c": ("glob", -1)}
    world.append("events/a")
    assert world.advance("events/a") == ["events/a"], "nothing is caught up, so it has to wait"
    world.accepted(done=True)
    assert world.advance("events/a") == []
    assert world.acked()["events/a"] == ("glob", -1)
    assert len(world.acked()) == 2


def test_named_streams_never_make_room_for_found_ones() -> None:
    world = World(Limits(subscription_streams_max=2))
    world.stream("events/a", body=b"[1]")
    world.subscribe(WEBHOOK, "events/a", "manual")
    world.stream("events/b", body=b"[1]")
    assert world.advance("events/b") == ["events/b"]
    assert set(world.acked()) == {"events/a", "manual"}


def test_a_link_that_goes_anyhow_makes_room_only_once() -> None:
    world = World(Limits(subscription_streams_max=2))
    world.stream("events/a", body=b"[1]")
    world.stream("events/b", body=b"[1]")
    world.subscribe(WEBHOOK)
    fork = create.Create(fork=create.Fork("events/a"))
    world.decide(create.decide, Key("w", "fork"), fork, world.now_ms, world.limits, lambda *_: None)
    world.remove("events/a")  # softly: it is still there for its fork
    world.append("events/b")
    for path in ("events/c", "events/d"):
        world.stream(path, body=b"[1]")
    assert world.advance("events/a", "events/c", "events/d") == ["events/d"]
    assert set(world.sub.links) == {"events/b", "events/c"}


def test_naming_a_stream_that_was_made_anew_starts_at_its_own_tail() -> None:
    world = World()
    world.stream("manual", body=b"[1,2,3]")
    world.subscribe(WEBHOOK, "manual")
    world.remove("manual")
    world.stream("manual", body=b"[1]")
    world.apply(subscribe.link(world.state, SUB, ["manual"], world.now_ms, world.limits))
    assert world.acked() == {"manual": ("explicit", 1)}


def test_an_effect_stays_as_it_was_written() -> None:
    world = World()
    world.stream("events/a")
    world.subscribe(WEBHOOK)
    world.append("events/a")
    world.advance()
    (woken,) = [effect for effect in world.log if isinstance(effect, effects.Woken)]
    world.remove("events/a")
    world.advance("events/a")
    assert woken.snapshot == {"events/a": 1}


# Wake streams -----------------------------------------------------------------------------


def test_no_pattern_takes_in_a_wake_stream() -> None:
    everything = msgspec.structs.replace(PULL, pattern="**")
    other = SubscriptionKey("w", "other")
    world = World()
    world.stream("wakes")
    world.stream("other-wakes", body=b"[1]")
    world.subscribe(everything)
    assert set(world.acked()) == {"other-wakes"}
    world.subscribe(msgspec.structs.replace(everything, wake_stream="other-wakes"), key=other)
    assert world.acked() == {}
    world.stream("events/a", body=b"[1]")
    for key in (SUB, other):
        world.advance("events/a", key=key)
    for key in (SUB, other):
        world.advance("wakes", "other-wakes", key=key)
    assert set(world.acked()) == {"events/a"}
    assert world.acknowledge(hold_of(world.claim()), ("events/a", 1), done=True) is False
    assert world.sub.wake is None


def test_a_subscription_cannot_watch_its_own_wake_stream_by_name() -> None:
    world = World()
    with pytest.raises(InvalidRequestError, match="wake_stream"):
        world.subscribe(PULL, "wakes")
    world.subscribe(PULL)
    with pytest.raises(InvalidRequestError, match="wake_stream"):
        subscribe.link(world.state, SUB, ["wakes"], world.now_ms, world.limits)


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
def test_a_wake_and_its_event_are_one_decision(content_type: str) -> None:
    world = World()
    world.stream("events/a")
    if content_type == "application/json":
        world.stream("wakes")
    else:
        request = create.Create(content_type)
        world.decide(create.decide, Key("w", "wakes"), request, world.now_ms, world.limits, lambda *_: None)
    world.subscribe(PULL)
    world.append("events/a")
    decided, _ = wakes.advance(world.state, SUB, (), world.now())
    woken, appended = decided
    assert isinstance(woken, effects.Woken)
    assert isinstance(appended, effects.RecordsAppended)
    event = msgspec.json.decode(appended.data.rstrip(b",\n"))
    assert event == {
        "type": "wake",
        "subscription_id": "sub",
        "stream": "events/a",
        "generation": 1,
        "ts": world.now_ms,
    }
    assert appended.data.endswith(b"," if content_type == "application/json" else b"\n")


@pytest.mark.parametrize("wake_stream", ["missing", "closed", "gone"])
def test_a_wake_without_a_wake_stream_can_be_claimed(wake_stream: str) -> None:
    world = World()
    world.stream("events/a")
    world.stream("closed")
    world.append("closed", close=True)
    world.subscribe(msgspec.structs.replace(PULL, wake_stream=wake_stream))
    world.append("events/a")
    world.advance()
    assert world.claim().generation == 1


# Pull-wake --------------------------------------------------------------------------------


@pytest.fixture
def pull() -> World:
    world = World()
    world.stream("wakes")
    world.stream("events/a")
    world.subscribe(PULL)
    return world


def test_claim_ack_and_done(pull: World) -> None:
    pull.append("events/a", 3)
    pull.advance()
    claim = pull.claim()
    assert (claim.generation, claim.lease_ttl_ms) == (1, LEASE_MS)
    assert [(info.path, info.has_pending) for info in claim.streams] == [("events/a", True)]
    hold = hold_of(claim)
    assert pull.acknowledge(hold, ("events/a", 1)) is False
    assert pull.acked() == {"events/a": ("glob", 1)}
    assert pull.acknowledge(hold, ("events/a", 3), done=True) is False
    assert pull.sub.wake is None
    with pytest.raises(FencedError):
        pull.acknowledge(hold, done=True)


def test_done_with_work_left_wakes_again_in_the_same_decision(pull: World) -> None:
    pull.append("events/a", 3)
    hold = hold_of(pull.claim())
    assert pull.acknowledge(hold, ("events/a", 2), done=True) is True
    assert pull.sub.generation == 2
    assert pull.state.streams[Key("w", "wakes")].tail == 2


def test_a_claim_needs_work_and_excludes_others(pull: World) -> None:
    with pytest.raises(NoPendingWorkError):
        pull.claim()
    pull.append("events/a")
    pull.claim("one")
    with pytest.raises(AlreadyClaimedError) as refused:
        pull.claim("two")
    assert refused.value.fields == {"current_holder": "one", "generation": 1}


def test_an_expired_lease_fences_its_holder_and_wakes_again(pull: World) -> None:
    pull.append("events/a")
    hold = hold_of(pull.claim())
    pull.now_ms += LEASE_MS - 1
    pull.acknowledge(hold)
    pull.now_ms += LEASE_MS - 1
    pull.advance()
    assert pull.sub.generation == 1, "a heartbeat has moved the lease"
    pull.now_ms += 1
    with pytest.raises(FencedError):
        pull.acknowledge(hold)
    pull.advance()
    assert pull.sub.generation == 2
    assert pull.claim("two").generation == 2
    with pytest.raises(FencedError):
        pull.acknowledge(hold)


def test_an_expired_lease_can_be_claimed_before_its_timer_runs(pull: World) -> None:
    pull.append("events/a")
    pull.claim()
    pull.now_ms += LEASE_MS
    assert pull.claim("two").generation == 2


def test_a_release_wakes_again_if_work_is_left(pull: World) -> None:
    pull.append("events/a")
    hold = hold_of(pull.claim())
    pull.apply(wakes.release(pull.state, SUB, hold, pull.now()))
    assert pull.sub.generation == 2
    hold = hold_of(pull.claim())
    pull.acknowledge(hold, ("events/a", 1))
    pull.apply(wakes.release(pull.state, SUB, hold, pull.now()))
    assert pull.sub.wake is None


def test_only_the_holder_of_the_current_wake_may_work_on_it(pull: World) -> None:
    pull.append("events/a")
    pull.advance()
    with pytest.raises(FencedError):  # woken but not claimed
        pull.acknowledge(pull.hold)
    hold = hold_of(pull.claim())
    for wrong in (
        Hold("w_other", hold.generation, hold.generation),
        Hold(hold.wake_id, hold.generation + 1, hold.generation),
        Hold(hold.wake_id, hold.generation, hold.generation - 1),
    ):
        with pytest.raises(FencedError):
            pull.acknowledge(wrong)
        with pytest.raises(FencedError):
            wakes.release(pull.state, SUB, wrong, pull.now())


def test_a_wake_that_has_lost_its_streams_ends_so_that_the_next_one_is_told(pull: World) -> None:
    pull.append("events/a")
    pull.advance()
    pull.remove("events/a")
    pull.advance("events/a")
    assert pull.sub.wake is None
    pull.stream("events/b", body=b"[1]")
    pull.advance("events/b")
    assert pull.state.streams[Key("w", "wakes")].tail == 2


@pytest.mark.parametrize(
    ("ack", "problem"),
    [
        (("events/a", "-1"), "not an offset"),
        (("events/a", "now"), "not an offset"),
        (("events/a", "3"), "not an offset"),
        (("events/a", offsets.encode(0)), "acknowledged already"),
        (("events/a", offsets.encode(4)), "beyond"),
        (("events/a", "0000000000000001_0000000000000002"), "beyond"),
        (("events/b", offsets.encode(0)), "no such stream"),
        (("", offsets.encode(0)), "no such stream"),
    ],
)
def test_acks_are_taken_all_or_none(pull: World, ack: tuple[str, str], problem: str) -> None:
    pull.append("events/a", 3)
    hold = hold_of(pull.claim())
    pull.acknowledge(hold, ("events/a", 1))
    good = ("events/a", offsets.encode(2))
    with pytest.raises(InvalidAckError, match=problem):
        wakes.acknowledge(pull.state, SUB, "pull-wake", hold, [good, ack], pull.now(), done=True)
    assert pull.acked() == {"events/a": ("glob", 1)}
    assert pull.acknowledge(hold, ("events/a", 1), ("events/a", 3), done=True) is False


def test_a_later_ack_of_one_request_does_not_take_back_an_earlier_one(pull: World) -> None:
    pull.append("events/a", 3)
    with pytest.raises(InvalidAckError, match="acknowledged already"):
        pull.acknowledge(hold_of(pull.claim()), ("events/a", 2), ("events/a", 1))


def test_a_holder_keeps_its_wake_while_nothing_is_pending(pull: World) -> None:
    pull.append("events/a")
    hold = hold_of(pull.claim())
    pull.acknowledge(hold, ("events/a", 1))
    pull.advance()
    assert pull.hold == hold
    pull.append("events/a")
    assert pull.acknowledge(hold, ("events/a", 2), done=True) is False


def test_each_type_has_its_own_requests(pull: World) -> None:
    pull.append("events/a")
    hold = hold_of(pull.claim())
    with pytest.raises(InvalidRequestError, match="claim, ack and release"):
        wakes.acknowledge(pull.state, SUB, "webhook", hold, [], pull.now(), done=True)
    world = World()
    world.subscribe(WEBHOOK)
    for request in (
        lambda: wakes.claim(world.state, SUB, "one", world.now()),
        lambda: wakes.acknowledge(world.state, SUB, "pull-wake", hold, [], world.now(), done=True),
        lambda: wakes.release(world.state, SUB, hold, world.now()),
    ):
        with pytest.raises(InvalidRequestError, match="callback"):
            request()


# Webhooks ---------------------------------------------------------------------------------


@pytest.fixture
def hook() -> World:
    world = World()
    world.stream("events/a")
    world.stream("events/idle", body=b"[1]")
    world.subscribe(WEBHOOK)
    world.append("events/a", 2)
    world.advance()
    return world


def due(world: World) -> deliveries.Delivery:
    found = deliveries.due(world.state, SUB, world.now_ms, DEFAULT_LIMITS)
    assert found is not None
    return found


def test_a_delivery_tells_the_snapshot_and_done_acknowledges_it(hook: World) -> None:
    hook.append("events/a", 3)
    hook.append("events/idle")
    delivery = due(hook)
    assert (delivery.url, delivery.base_url, delivery.generation) == (WEBHOOK.webhook_url, "http://here", 1)
    told = {info.path: (info.acked_offset, info.tail_offset, info.has_pending) for info in delivery.streams}
    assert told == {
        "events/a": (offsets.encode(0), offsets.encode(2), True),
        "events/idle": (offsets.encode(1), offsets.encode(1), False),
    }
    hook.accepted(done=True)
    assert hook.acked() == {"events/a": ("glob", 2), "events/idle": ("glob", 1)}
    assert hook.sub.generation == 2, "what came after the snapshot is in the next wake"
    hook.accepted(done=True)
    assert hook.sub.wake is None
    assert hook.acked() == {"events/a": ("glob", 5), "events/idle": ("glob", 2)}


def test_a_wake_lists_all_that_is_pending_and_not_much_else() -> None:
    world = World()
    for number in range(1_500):
        world.stream(f"events/{number}")
    world.subscribe(WEBHOOK)
    world.append("events/1400")
    world.advance()
    listed = due(world).streams
    assert len(listed) == 1_000
    assert [info.path for info in listed if info.has_pending] == ["events/1400"]
    assert len(stream_infos(world.state, world.sub, world.now_ms)) == 1_500
    for number in range(1_200):
        world.append(f"events/{number}")
    world.accepted(done=True)
    listed = due(world).streams
    assert len(listed) == 1_200
    assert all(info.has_pending for info in listed)


def test_done_for_a_deleted_stream_says_nothing_about_its_successor(hook: World) -> None:
    hook.remove("events/a")
    hook.stream("events/a", body=b"[1,2,3]")
    hook.accepted(done=True)
    hook.advance("events/a")
    assert hook.acked()["events/a"] == ("glob", -1)

    hook.remove("events/a")
    hook.stream("events/a", body=b"[1,2,3]")
    hook.advance("events/a")
    hook.accepted(done=True)
    assert hook.acked()["events/a"] == ("glob", -1)


def test_the_lease_counts_from_acceptance_and_retries_are_the_same_wake(hook: World) -> None:
    first = due(hook).wake_id
    for retry in range(1, 12):
        hook.failed()
        assert hook.sub.failed
        assert deliveries.due(hook.state, SUB, hook.now_ms, DEFAULT_LIMITS) is None
        pause_ms = min(1000 * 2 ** (retry - 1), 60_000)
        assert wakes.due_ms(hook.sub) == hook.now_ms + pause_ms
        hook.now_ms += pause_ms
        hook.advance()
        assert due(hook).wake_id == first
    hook.accepted(done=False)
    assert not hook.sub.failed
    assert wakes.due_ms(hook.sub) == hook.now_ms + LEASE_MS
    hook.now_ms += LEASE_MS
    hook.advance()
    assert hook.sub.generation == 2


def test_jitter_is_a_fifth_either_way_and_never_passes_the_longest_pause(hook: World) -> None:
    for fraction, pause_ms in ((0.0, 800), (0.9999, 2399), (0.5, 4000)):
        hook.failed(fraction)
        assert wakes.due_ms(hook.sub) == hook.now_ms + pause_ms
    for _ in range(100):
        hook.failed(0.9999)
    assert wakes.due_ms(hook.sub) == hook.now_ms + 60_000


def test_a_callback_extends_the_lease_and_may_come_before_the_answer(hook: World) -> None:
    hold = hook.hold
    hook.acknowledge(hold, ("events/a", 1))
    hook.now_ms += LEASE_MS + 1
    hook.advance()
    assert hook.hold == hold, "the request is still under way, so the lease does not count yet"
    hook.accepted(done=False)
    hook.now_ms += LEASE_MS - 1
    hook.acknowledge(hold, ("events/a", 2))
    hook.now_ms += LEASE_MS - 1
    assert hook.acknowledge(hold, done=True) is False
    with pytest.raises(FencedError):
        hook.acknowledge(hold, done=True)


def test_done_takes_back_no_ack_that_went_beyond_the_snapshot(hook: World) -> None:
    hook.append("events/a", 3)
    hook.acknowledge(hook.hold, ("events/a", 4))
    hook.accepted(done=True)
    assert hook.acked()["events/a"] == ("glob", 4)
    assert hook.sub.generation == 2


def test_an_answer_to_an_ended_wake_changes_nothing(hook: World) -> None:
    ended = hook.wake_id
    hook.append("events/a")
    assert hook.acknowledge(hook.hold, ("events/a", 2), done=True) is True
    assert deliveries.accepted(hook.state, SUB, ended, hook.now(), done=True) == []
    assert deliveries.failed(hook.state, SUB, ended, hook.now_ms, 0.5, hook.limits) == []
    assert hook.sub.generation == 2


def test_a_wake_that_has_lost_its_streams_is_not_retried(hook: World) -> None:
    hook.failed()
    hook.remove("events/a")
    hook.advance("events/a")
    assert hook.sub.wake is None
    assert deliveries.due(hook.state, SUB, hook.now_ms, DEFAULT_LIMITS) is None
    assert wakes.due_ms(hook.sub) is None


def test_an_accepted_wake_is_not_sent_again(hook: World) -> None:
    hook.accepted(done=False)
    assert deliveries.due(hook.state, SUB, hook.now_ms, DEFAULT_LIMITS) is None


def test_decisions_about_a_deleted_subscription_change_nothing(hook: World) -> None:
    hook.apply(subscribe.remove(hook.state, SUB))
    assert wakes.advance(hook.state, SUB, ["events/a"], hook.now()) == ([], [])
    assert deliveries.due(hook.state, SUB, hook.now_ms, DEFAULT_LIMITS) is None
    assert deliveries.accepted(hook.state, SUB, "w_1", hook.now(), done=True) == []


# Everything together ------------------------------------------------------------------------

PATHS = st.sampled_from(["events/a", "events/b", "events/c", "manual", "wakes"])


class Replay(RuleBasedStateMachine):
    """Whatever happens, the effects alone give the same state, and no wake is missed."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World(Limits(subscription_streams_max=3))
        self.acked: dict[int, int] = {}
        self.generation = 0

    def attempt(self, action: Callable[[], object]) -> None:
        try:
            action()
        except DurableSessionsError:
            return
        if self.world.state.subscriptions:
            self.world.advance(*[key.path for key in self.world.state.streams])

    @rule(path=PATHS, body=st.sampled_from([b"", b"[1]", b"[1,2]"]))
    def create_stream(self, path: str, body: bytes) -> None:
        self.attempt(lambda: self.world.stream(path, body=body))

    @rule(path=PATHS, count=st.integers(1, 3))
    def append(self, path: str, count: int) -> None:
        self.attempt(lambda: self.world.append(path, count))

    @rule(path=PATHS)
    def remove_stream(self, path: str) -> None:
        if Key("w", path) in self.world.state.streams:
            self.attempt(lambda: self.world.remove(path))
            if self.world.state.subscriptions:
                self.world.advance(path)

    @rule(config=st.sampled_from([WEBHOOK, PULL]), named=st.lists(PATHS, max_size=2))
    def subscribe(self, config: Config, named: list[str]) -> None:
        def fresh() -> None:
            if self.world.subscribe(config, *named):
                self.acked, self.generation = {}, 0

        self.attempt(fresh)

    @rule()
    def unsubscribe(self) -> None:
        self.world.apply(subscribe.remove(self.world.state, SUB))

    @rule(paths=st.lists(PATHS, max_size=2))
    def link(self, paths: list[str]) -> None:
        world = self.world
        self.attempt(lambda: world.apply(subscribe.link(world.state, SUB, paths, world.now_ms, world.limits)))

    @rule(path=PATHS)
    def unlink(self, path: str) -> None:
        world = self.world
        self.attempt(lambda: world.apply(subscribe.unlink(world.state, SUB, path, world.now_ms)))

    @rule()
    def claim(self) -> None:
        self.attempt(self.world.claim)

    @rule(path=PATHS, position=st.integers(0, 5), done=st.booleans())
    def acknowledge(self, path: str, position: int, done: bool) -> None:
        if self.woken():
            self.attempt(lambda: self.world.acknowledge(self.world.hold, (path, position), done=done))

    @rule(outcome=st.sampled_from(["failed", "accepted", "done"]))
    def deliver(self, outcome: str) -> None:
        if (
            not self.woken()
            or deliveries.due(self.world.state, SUB, self.world.now_ms, DEFAULT_LIMITS) is None
        ):
            return
        if outcome == "failed":
            self.attempt(self.world.failed)
        else:
            self.attempt(lambda: self.world.accepted(done=outcome == "done"))

    @rule(seconds=st.integers(1, 8))
    def wait(self, seconds: int) -> None:
        self.world.now_ms += seconds * 1000
        self.attempt(lambda: None)

    def woken(self) -> bool:
        found = self.world.state.subscriptions.get(SUB)
        return found is not None and found.wake is not None

    @invariant()
    def replay_gives_the_same(self) -> None:
        again = self.world.replayed().subscriptions
        assert list(again) == list(self.world.state.subscriptions)
        assert again.__dict__ == self.world.state.subscriptions.__dict__

    @invariant()
    def a_snapshot_gives_the_same(self) -> None:
        again = State()
        for effect in self.world.state.subscriptions.snapshot():
            again.apply(effects.decode(effects.encode(effect)))
        assert list(again.subscriptions) == list(self.world.state.subscriptions)
        assert again.subscriptions.__dict__ == self.world.state.subscriptions.__dict__

    @invariant()
    def work_is_never_left_lying(self) -> None:
        found = self.world.state.subscriptions.get(SUB)
        if found is not None and found.wake is None:
            infos = stream_infos(self.world.state, found, self.world.now_ms)
            assert not [info for info in infos if info.has_pending]

    @invariant()
    def nothing_goes_back(self) -> None:
        found = self.world.state.subscriptions.get(SUB)
        if found is None:
            return
        assert found.generation >= self.generation
        self.generation = found.generation
        for link in found.links.values():
            stream = None if link.stream is None else self.world.state.by_id.get(link.stream)
            if stream is None or link.acked < 0:
                continue
            assert self.acked.get(stream.id, 0) <= link.acked <= stream.tail
            self.acked[stream.id] = link.acked
        assert len(found.links) <= 3


Replay.TestCase.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
TestReplay = Replay.TestCase
