"""What was said to have expired stays gone, whatever the clock does afterwards."""

from collections.abc import Awaitable, Callable

import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.errors import DurableSessionsError, StreamNotFoundError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.storage.expiry import ExpiryQueue
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create, Fork
from durable_sessions.streams.effects import StreamCreated
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.testing.memory_log import MemoryLog

pytestmark = pytest.mark.anyio

EXPIRED, OTHER = Key("default", "expired"), Key("default", "other")
REQUESTS: dict[str, Callable[[Partition], Awaitable[object]]] = {
    "append": lambda partition: partition.append(EXPIRED, Append(b"more", "text/plain")),
    "delete": lambda partition: partition.delete(EXPIRED),
    "fork": lambda partition: partition.create(OTHER, Create(fork=Fork("expired"))),
}


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
async def test_a_stream_that_a_refusal_called_missing_does_not_come_back_with_the_clock(
    request_: Callable[[Partition], Awaitable[object]],
) -> None:
    log, clock = MemoryLog(), ManualClock()
    partition = await Partition.open(log, clock, DEFAULT_LIMITS)
    await partition.create(EXPIRED, Create("text/plain", ttl_seconds=2, body=b"text"))
    clock.advance(3)
    with pytest.raises(StreamNotFoundError):
        await request_(partition)
    clock.advance(-60)
    with pytest.raises(StreamNotFoundError):
        partition.find(EXPIRED)
    await partition.close()
    partition = await Partition.open(log, clock, DEFAULT_LIMITS)
    with pytest.raises(StreamNotFoundError):
        partition.find(EXPIRED)
    await partition.close()


async def test_a_create_that_is_refused_because_of_an_expired_stream_leaves_that_gone() -> None:
    log, clock = MemoryLog(), ManualClock()
    partition = await Partition.open(log, clock, DEFAULT_LIMITS)
    await partition.create(EXPIRED, Create("text/plain", ttl_seconds=2, body=b"text"))
    await partition.create(OTHER, Create(ttl_seconds=1_000, fork=Fork("expired")))
    clock.advance(3)
    with pytest.raises(DurableSessionsError) as refused:
        await partition.create(EXPIRED, Create("text/plain"))
    assert refused.value.code == "path_blocked"
    clock.advance(-60)
    with pytest.raises(DurableSessionsError) as missing:
        partition.find(EXPIRED)
    assert missing.value.code == "stream_gone"
    await partition.close()


def stream(number: int, ttl_seconds: int) -> Stream:
    return Stream.of(StreamCreated(number, "w", f"s{number}", "text/plain", 0, ttl_seconds=ttl_seconds))


def test_streams_that_come_and_go_leave_nothing_behind() -> None:
    queue = ExpiryQueue()
    for number in range(10_000):
        queue.add(stream(number, ttl_seconds=10**9))
        queue.discard(number)
    assert len(queue) < 200
    queue.discard(5)  # twice is no harm


def test_a_stream_that_is_used_again_and_again_has_one_entry() -> None:
    queue = ExpiryQueue()
    one = stream(1, ttl_seconds=10)
    queue.add(one)
    for round_ in range(1_000):
        one.accessed_at_ms = round_ * 9_000
        queue.add(one)
        assert not any(queue.due(round_ * 9_000 + 5_000))
    assert len(queue) == 1
    assert list(queue.due(10**9)) == [one]
    assert len(queue) == 0
