"""What followers share: bounded in number for each stream, and in bytes for all of them."""

from typing import Any

import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.http.api.cursor import Cursors
from durable_sessions.http.api.followers import Followers, SharedChunks
from durable_sessions.http.api.frame_budget import FrameBudget
from durable_sessions.http.api.read_throttle import ReadThrottle
from durable_sessions.http.api.sse import StreamFraming
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.storage.door import Slice, StreamView
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create
from durable_sessions.streams.stream import Key
from durable_sessions.testing.memory_log import MemoryLog


def kept(shared: SharedChunks, count: int) -> list[int]:
    return [start for start in range(count) if shared.get(start) is not None]


def test_a_stream_keeps_so_many_chunks_and_the_newest() -> None:
    shared = SharedChunks(FrameBudget(1_000), chunks_max=3)
    for start in range(3):
        shared.put(start, (start + 1, b"x"))
    assert kept(shared, 4) == [0, 1, 2]
    shared.put(3, (4, b"x"))
    assert kept(shared, 4) == [1, 2, 3]


def test_all_streams_together_keep_so_many_bytes() -> None:
    frame_budget = FrameBudget(10)
    one, other = SharedChunks(frame_budget, 100), SharedChunks(frame_budget, 100)
    one.put(0, (1, b"12345"))
    other.keep_whole("key", b"12345")
    assert (one.get(0), other.whole("key")) == ((1, b"12345"), b"12345")
    other.put(0, (1, b"1"))
    assert (one.get(0), other.whole("key"), other.get(0)) == (None, b"12345", (1, b"1"))
    one.put(0, (1, b"12345"))
    assert (one.get(0), other.whole("key"), other.get(0)) == ((1, b"12345"), None, (1, b"1"))


def test_a_whole_piece_is_given_only_to_those_who_are_as_far() -> None:
    shared = SharedChunks(FrameBudget(10), 1)
    assert shared.whole((0, 1)) is None
    shared.keep_whole((0, 1), b"a")
    assert (shared.whole((0, 1)), shared.whole((0, 2))) == (b"a", None)
    shared.keep_whole((0, 2), b"b")
    assert (shared.whole((0, 1)), shared.whole((0, 2))) == (None, b"b")


def test_the_last_subscriber_leaves_nothing_behind() -> None:
    frame_budget = FrameBudget(10)
    shared = SharedChunks(frame_budget, 10)
    shared.put(0, (1, b"12345"))
    shared.keep_whole("key", b"12345")
    shared.close()
    assert (shared.get(0), shared.whole("key")) == (None, None)
    another = SharedChunks(frame_budget, 10)
    another.put(0, (1, b"1234567890"))
    assert another.get(0) is not None


class LateRest:
    """Streams of which one grows while it is read for the first time."""

    def __init__(self, partition: Partition, key: Key, rest: bytes) -> None:
        self._partition = partition
        self._key = key
        self._rest = rest

    def __getattr__(self, name: str) -> Any:
        return getattr(self._partition, name)

    async def read(self, view: StreamView, start: int, bytes_max: int) -> Slice:
        found = await self._partition.read(view, start, bytes_max)
        if self._rest:
            rest, self._rest = self._rest, b""
            await self._partition.append(self._key, Append(rest, "text/plain"))
        return found


@pytest.mark.anyio
async def test_a_character_that_is_completed_while_it_is_read_is_sent_at_once() -> None:
    clock, key = ManualClock(), Key("w", "s")
    partition = await Partition.open(MemoryLog(), clock, DEFAULT_LIMITS)
    first, rest = "é".encode()[:1], "é".encode()[1:]
    await partition.create(key, Create("text/plain"))
    await partition.append(key, Append(first, "text/plain"))
    streams: Any = LateRest(partition, key, rest)
    followers = Followers(streams, DEFAULT_LIMITS, ReadThrottle(1_000_000), FrameBudget(1_000_000))
    framing = StreamFraming(Cursors(clock, RandomIds()), None, DEFAULT_LIMITS)
    frames = followers.follow(partition.find(key), 0, framing)
    assert "é" in (await anext(frames)).decode()
    await frames.aclose()  # type: ignore[attr-defined]
    await partition.close()
