"""How large subscriptions may become, and how much a decision about a large one looks at."""

from dataclasses import replace

import pytest

from durable_sessions.errors import TooManySubscriptionsError
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.streams.effects import Name
from durable_sessions.streams.slots import NothingFlushed
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.subscriptions import LINK_BYTES, Config, SubscriptionKey
from durable_sessions.streams.watched import stream_infos

from .test_subscriptions import LEASE_MS, PULL, SUB, World

OTHER = SubscriptionKey("w", "other")
FOREIGN = SubscriptionKey("another", "sub")
BY_NAME = Config("pull-wake", LEASE_MS, wake_stream="wakes")
FOUR = (4 + LINK_BYTES) * 3


class CountingCold(NothingFlushed):
    """Holds streams that were evicted, and counts how often one is loaded."""

    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}
        self.loads = 0

    def load(self, key: Key) -> Stream | None:
        self.loads += 1
        return next((one for one in self.streams.values() if one.key == key), None)

    def load_id(self, stream: int) -> Stream | None:
        self.loads += 1
        return self.streams.get(stream)

    def load_name(self, stream: int, name: str) -> Name | None:
        return None

    def load_forks(self, stream: int) -> list[int]:
        return []


def world_of(count: int) -> tuple[World, CountingCold]:
    """Return a world with a pattern that has found so many streams, all caught up and out of memory."""
    cold = CountingCold()
    world = World()
    world.state = State(cold)
    world.stream("wakes")
    for number in range(count):
        world.stream(f"events/{number}", body=b"[1]")
    world.subscribe(PULL)
    assert world.advance() == []
    for stream in list(world.state.by_id.values()):
        cold.streams[stream.id] = stream
        world.state.evict(stream)
    cold.loads = 0
    return world, cold


def test_a_wake_looks_at_what_has_grown_and_at_nothing_else() -> None:
    world, cold = world_of(500)
    world.append("events/7")
    world.advance()
    world.stream("events/new", body=b"[1]")
    assert world.advance("events/new") == []
    assert cold.loads < 10
    infos = stream_infos(world.state, world.state.subscriptions.get(SUB), world.now_ms)  # type: ignore[arg-type]
    assert [info.path for info in infos if info.has_pending] == ["events/7", "events/new"]
    assert len(infos) == 501
    assert cold.loads < 20


@pytest.mark.parametrize(
    ("limits", "things"),
    [
        (replace(DEFAULT_LIMITS, subscription_bytes_max=FOUR), "bytes for the streams of a subscription"),
        (replace(DEFAULT_LIMITS, subscription_streams_max=3), "streams in a subscription"),
        (replace(DEFAULT_LIMITS, all_subscription_bytes_max=2 * FOUR), "bytes for all subscriptions"),
    ],
)
def test_links_at_the_bound_and_beyond_it(limits: Limits, things: str) -> None:
    world = World(limits)
    with pytest.raises(TooManySubscriptionsError, match=things):
        world.subscribe(BY_NAME, "aaaa", "bbbb", "cccc", "d")
    assert world.subscribe(BY_NAME, "aaaa", "bbbb", "cccc")


def test_what_was_unlinked_makes_room_again() -> None:
    from durable_sessions.streams import subscribe

    world = World(replace(DEFAULT_LIMITS, subscription_bytes_max=FOUR))
    world.subscribe(BY_NAME, "aaaa", "bbbb", "cccc")
    with pytest.raises(TooManySubscriptionsError):
        subscribe.link(world.state, SUB, ["d"], world.now_ms, world.limits)
    world.apply(subscribe.unlink(world.state, SUB, "aaaa", world.now_ms))
    world.apply(subscribe.link(world.state, SUB, ["dddd"], world.now_ms, world.limits))
    world.apply(subscribe.remove(world.state, SUB))
    assert world.state.subscriptions.bytes_held == 0


def test_a_pattern_that_finds_more_than_fits_waits_for_room() -> None:
    world = World(replace(DEFAULT_LIMITS, subscription_bytes_max=2 * (LINK_BYTES + len("events/a"))))
    world.stream("wakes")
    world.subscribe(PULL)
    for name in "abc":
        world.stream(f"events/{name}", body=b"[1]")
    assert world.advance("events/a", "events/b", "events/c") == ["events/c"]


def test_subscriptions_of_all_workspaces() -> None:
    world = World(replace(DEFAULT_LIMITS, all_subscriptions_max=2))
    world.subscribe(BY_NAME)
    world.subscribe(BY_NAME, key=FOREIGN)
    with pytest.raises(TooManySubscriptionsError, match="on this server"):
        world.subscribe(BY_NAME, key=OTHER)
