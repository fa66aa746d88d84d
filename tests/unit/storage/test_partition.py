import asyncio
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.errors import (
    ColdReadError,
    EmptyBodyError,
    OutcomeUnknownError,
    OverloadedError,
    PartitionStoppedError,
    ShuttingDownError,
    StreamClosedError,
    StreamNotFoundError,
)
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.storage import batch
from durable_sessions.storage.partition import Partition
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create, Fork
from durable_sessions.streams.stream import Key, Producer
from durable_sessions.testing.memory_log import MemoryLog

pytestmark = pytest.mark.anyio

S = Key("default", "s")


class Bench:
    """A partition on a log whose syncs the test controls."""

    def __init__(self, log: MemoryLog, clock: ManualClock, partition: Partition) -> None:
        self.log = log
        self.clock = clock
        self.partition = partition

    @classmethod
    async def open(cls, limits: Limits = DEFAULT_LIMITS, log: MemoryLog | None = None) -> "Bench":
        log, clock = log or MemoryLog(), ManualClock()
        return cls(log, clock, await Partition.open(log, clock, limits))

    async def create(self, path: str = "s", **options: object) -> None:
        key, request = Key("default", path), Create(content_type="text/plain", **options)  # type: ignore[arg-type]
        end = None if request.fork is None else await self.partition.anchor_end(key, request.fork)
        await self.partition.create(key, request, end)

    def append(self, body: bytes, **options: object) -> "asyncio.Future[object]":
        return self.partition.append(S, Append(body, "text/plain", **options))  # type: ignore[arg-type,return-value]

    async def read(self, path: str = "s", start: int = 0) -> bytes:
        durable = self.partition.find(Key("default", path))
        pieces = []
        while start < durable.tail:
            found = await self.partition.read(durable, start, 1 << 20)
            assert found.next > start
            pieces.append(found.data)
            start = found.next
        return b"".join(pieces)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    bench = await Bench.open()
    await bench.create()
    yield bench
    bench.log.release()
    await bench.partition.close()


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_concurrent_appends_share_a_batch_and_the_next_forms_meanwhile(bench: Bench) -> None:
    bench.log.hold()
    first = bench.append(b"1")
    await turns()
    others = [bench.append(b"%d" % number) for number in range(2, 8)]
    await turns()
    assert not first.done()
    bench.log.release()
    await asyncio.gather(first, *others)
    assert len(bench.log.batches) == 3, "the create, the first append, and all the others together"
    assert await bench.read() == b"1234567"


async def test_readers_see_only_what_is_durable(bench: Bench) -> None:
    bench.log.hold()
    pending = bench.append(b"secret")
    await turns()
    durable = bench.partition.find(S)
    assert durable.tail == 0
    waiter = bench.partition.wait(durable)
    await turns()
    assert not waiter.done()
    bench.log.release()
    await pending
    assert durable.tail == 6
    assert waiter.done()


async def test_a_new_stream_is_invisible_until_it_is_durable(bench: Bench) -> None:
    bench.log.hold()
    pending = bench.partition.create(Key("default", "new"), Create())
    await turns()
    with pytest.raises(StreamNotFoundError):
        bench.partition.find(Key("default", "new"))
    bench.log.release()
    await pending
    bench.partition.find(Key("default", "new"))


async def test_a_refusal_waits_for_what_it_rests_on(bench: Bench) -> None:
    bench.log.hold()
    closing = bench.append(b"", close=True)
    refused = bench.append(b"late")
    await turns()
    assert not refused.done()
    bench.log.release()
    await closing
    with pytest.raises(StreamClosedError):
        await refused


async def test_a_duplicate_is_not_acknowledged_before_its_original_is_durable(bench: Bench) -> None:
    bench.log.hold()
    producer = Producer("p", 0, 0)
    original = bench.append(b"x", producer=producer)
    repeat = bench.append(b"x", producer=producer)
    await turns()
    assert not repeat.done()
    bench.log.fail("EIO")
    bench.log.release()
    for outcome in (original, repeat):
        with pytest.raises(OutcomeUnknownError):
            await outcome


async def test_a_client_that_hangs_up_changes_nothing_for_others(bench: Bench) -> None:
    bench.log.hold()
    first, second, third = (bench.append(body) for body in (b"1", b"2", b"3"))
    refused = bench.append(b"")
    await turns()
    second.cancel()
    third.cancel()
    await turns()
    assert not first.done()
    assert not refused.done(), "it waits for durability, not for the client before it"
    bench.log.release()
    await first
    with pytest.raises(EmptyBodyError):
        await refused
    await bench.append(b"4")
    assert await bench.read() == b"1234"


async def test_a_failed_sync_stops_the_partition_and_acknowledges_nothing(bench: Bench) -> None:
    await bench.append(b"kept")
    bench.log.hold()
    flying = bench.append(b"flying")
    await turns()
    queued = bench.append(b"queued")
    bench.log.fail("EIO")
    bench.log.release()
    with pytest.raises(OutcomeUnknownError, match="EIO"):
        await flying
    with pytest.raises(PartitionStoppedError, match="EIO"):
        await queued
    with pytest.raises(PartitionStoppedError):
        bench.append(b"later")
    with pytest.raises(PartitionStoppedError):
        bench.partition.delete(S)
    assert bench.partition._committer.failure is not None
    assert await bench.read() == b"kept", "what was durable can still be read"


async def test_back_pressure_at_the_limit_and_one_past_it() -> None:
    bench = await Bench.open(replace(DEFAULT_LIMITS, pending_bytes_max=1000))
    await bench.create()
    bench.log.hold()
    first = bench.append(b"x" * 500)
    await turns()
    room = 1000 - bench.partition._committer.pending_bytes
    with pytest.raises(OverloadedError):
        bench.append(b"x" * (room + 1))
    second = bench.append(b"x" * room)
    bench.log.release()
    await asyncio.gather(first, second)
    assert bench.partition._committer.pending_bytes == 0
    await bench.append(b"again")


async def test_a_large_queue_becomes_several_frames() -> None:
    bench = await Bench.open(replace(DEFAULT_LIMITS, batch_bytes_max=1000))
    await bench.create()
    await asyncio.gather(*[bench.append(b"x" * 400) for _ in range(10)])
    assert all(len(batch) <= 1000 for batch in bench.log.batches)
    assert len(await bench.read()) == 4000


async def test_waiters_at_the_limit_and_one_past_it() -> None:
    bench = await Bench.open(replace(DEFAULT_LIMITS, waiters_max=2))
    await bench.create()
    published, durable = bench.partition._published, bench.partition.find(S)
    first, _ = published.wait(durable), published.wait(durable)
    with pytest.raises(OverloadedError):
        published.wait(durable)
    first.cancel()
    await turns()
    published.wait(durable)


async def test_an_append_wakes_the_readers_of_its_stream_and_no_others(bench: Bench) -> None:
    await bench.create("other")
    await bench.create("fork", fork=Fork("s"))
    published, find = bench.partition._published, bench.partition.find
    mine = published.wait(find(S))
    others = [published.wait(find(Key("default", path))) for path in ("other", "fork")]
    await bench.append(b"x")
    assert mine.done()
    assert not any(waiter.done() for waiter in others)


async def test_cold_records_are_read_back_from_the_log() -> None:
    bench = await Bench.open(replace(DEFAULT_LIMITS, memory_bytes_max=0))
    await bench.partition.create(S, Create(content_type="application/json"))
    for number in range(20):
        body = b'[{"n":%d},{"m":%d}]' % (number, number)
        await bench.partition.append(S, Append(body, "application/json"))
    durable = bench.partition.find(S)
    assert bench.partition._published.memory_bytes == 0
    assert bench.partition.read_hot(durable, 3, 100) is None
    found = await bench.partition.read(durable, 3, 1 << 20)
    assert found.data.startswith(b'{"m":1},{"n":2},')
    assert found.next == 40
    short = await bench.partition.read(durable, 3, 10)
    assert 3 < short.next < 40


async def test_a_changed_byte_in_the_log_is_never_served() -> None:
    bench = await Bench.open(replace(DEFAULT_LIMITS, memory_bytes_max=0))
    await bench.create()
    await bench.append(b"truth")
    frames = bench.log.slots.frames
    frames[max(frames)] = frames[max(frames)].replace(b"truth", b"fraud")
    with pytest.raises(ColdReadError):
        await bench.read()


@pytest.mark.parametrize("memory_bytes", [0, 1 << 20])
async def test_forks_are_stitched_through_any_depth(memory_bytes: int) -> None:
    bench = await Bench.open(replace(DEFAULT_LIMITS, memory_bytes_max=memory_bytes))
    await bench.create(body=b"0123456789")
    expected = "0123456789"
    for depth in range(1, 8):
        source = "s" if depth == 1 else f"f{depth - 1}"
        cut = len(expected) - 2
        await bench.create(f"f{depth}", fork=Fork(source, 0 if cut == 8 else cut, 8 if cut == 8 else 0))
        await bench.partition.append(Key("default", f"f{depth}"), Append(b"abc", "text/plain"))
        expected = expected[:cut] + "abc"
        await bench.append(b"never seen by forks")
    assert await bench.read("f7") == expected.encode()
    for path in ["s", *[f"f{depth}" for depth in range(1, 7)]]:
        await bench.partition.delete(Key("default", path))
    assert await bench.read("f7") == expected.encode()
    await bench.partition.delete(Key("default", "f7"))
    assert not bench.partition._published.by_id
    assert bench.partition._published.memory_bytes == 0


async def test_a_replay_gives_the_same_answers(bench: Bench) -> None:
    await bench.append(b"hello ", producer=Producer("p", 0, 0))
    await bench.create("f", fork=Fork("s", 2))
    await bench.append(b"world", producer=Producer("p", 0, 1), close=True)
    await bench.create("gone")
    await bench.partition.delete(Key("default", "gone"))
    again = await Bench.open(log=MemoryLog(bench.log.batches))
    assert await again.read() == b"hello world"
    assert await again.read("f") == b"he"
    assert again.partition.find(S).closed
    with pytest.raises(StreamNotFoundError):
        again.partition.find(Key("default", "gone"))
    repeat = await again.partition.append(S, Append(b"world", "text/plain", Producer("p", 0, 1)))
    assert repeat.duplicate
    await again.partition.close()


async def test_an_expiry_that_was_seen_stays_after_a_crash(bench: Bench) -> None:
    await bench.create("brief", ttl_seconds=5)
    brief = Key("default", "brief")
    bench.clock.advance(5)
    with pytest.raises(StreamNotFoundError):
        bench.partition.find(brief)
    await bench.partition.settled()
    again = await Bench.open(log=MemoryLog(bench.log.batches))
    with pytest.raises(StreamNotFoundError):
        again.partition.find(brief)
    assert brief not in again.partition._state.streams


async def test_an_expiry_that_cannot_be_made_durable_is_not_told(bench: Bench) -> None:
    await bench.create("brief", ttl_seconds=5)
    brief = Key("default", "brief")
    bench.log.fail("EIO")
    with pytest.raises(OutcomeUnknownError):
        await bench.append(b"x")
    bench.clock.advance(5)
    with pytest.raises(PartitionStoppedError):
        bench.partition.find(brief)
    again = await Bench.open(log=MemoryLog(bench.log.batches))
    again.clock.advance(5)
    again.partition.find(brief)  # the lag of the recorded access is granted after a crash


def paths(bench: Bench) -> list[str]:
    return [path for page in bench.partition.path_pages("default") for _, path in page]


async def test_the_sweep_removes_what_nobody_asks_for(bench: Bench) -> None:
    await bench.create("brief", ttl_seconds=5)
    await bench.create("used", ttl_seconds=5)
    bench.clock.advance(4)
    bench.partition.touch(bench.partition.find(Key("default", "used")))
    bench.clock.advance(2)
    bench.partition.expire()
    await bench.partition.settled()
    assert set(paths(bench)) == {"s", "used"}
    bench.clock.advance(5)
    bench.partition.expire()
    await bench.partition.settled()
    assert paths(bench) == ["s"]


async def test_create_and_delete_before_either_is_durable(bench: Bench) -> None:
    bench.log.hold()
    new = Key("default", "new")
    steps = [
        bench.partition.create(new, Create()),
        bench.partition.create(Key("default", "f"), Create(fork=Fork("new"))),
    ]
    steps += [bench.partition.delete(Key("default", "f")), bench.partition.delete(new)]  # type: ignore[list-item]
    bench.log.release()
    await asyncio.gather(*steps)
    assert paths(bench) == ["s"]


async def test_after_close_writes_are_refused_and_what_was_accepted_is_durable(bench: Bench) -> None:
    bench.log.hold()
    pending = bench.append(b"x")
    closing = asyncio.ensure_future(bench.partition.close())
    await turns()
    bench.log.release()
    await closing
    assert pending.done()
    with pytest.raises(ShuttingDownError):
        bench.append(b"y")


async def test_an_effect_that_cannot_be_encoded_changes_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(effect: object) -> bytes:
        raise OverflowError("too large")

    await bench.append(b"one")
    encode = batch.encode
    monkeypatch.setattr(batch, "encode", fail)
    with pytest.raises(OverflowError):
        bench.append(b"lost", producer=Producer("p", 0, 0))
    assert bench.partition.refusal is None
    monkeypatch.setattr(batch, "encode", encode)
    await bench.append(b"two", producer=Producer("p", 0, 0))
    assert await bench.read() == b"onetwo"
    tip = bench.partition._state.get(S)
    assert tip is not None
    assert tip.tail == bench.partition.find(S).tail == 6
    again = await Bench.open(log=MemoryLog(bench.log.batches))
    assert await again.read() == b"onetwo"
    await again.partition.close()


async def test_an_effect_that_cannot_be_applied_stops_the_partition(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(effect: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    bench.log.hold()
    flying = bench.append(b"one")
    await turns()
    monkeypatch.setattr(bench.partition._state, "apply", fail)
    with pytest.raises(sqlite3.OperationalError):
        bench.append(b"two")
    monkeypatch.undo()
    with pytest.raises(PartitionStoppedError, match="could not be applied"):
        bench.append(b"three")
    bench.log.release()
    with pytest.raises(OutcomeUnknownError):
        await flying
