"""Retention: which policy governs a stream, idle streams go, held ones stay whatever happens."""

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.errors import LegalHoldError, StreamGoneError, StreamNotFoundError
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.retention_policy import RetentionPolicy
from durable_sessions.sessions.change import By
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.partition import Partition
from durable_sessions.storage.retention import DAY_MS, NO_RETENTION, Retention
from durable_sessions.streams import lifetime
from durable_sessions.streams.append import Append
from durable_sessions.streams.effects import Effect, ErasedRecord, RecordsErased, StreamDescribed
from durable_sessions.streams.stream import Stream
from durable_sessions.tier import stream_codec
from tests.unit.storage.world import GONE_SECONDS, LIMITS, World, key

IDLE_SECONDS = 1_000.0
LAG_SECONDS = IDLE_SECONDS / 10
IDLE = RetentionPolicy("idle/", idle_days=IDLE_SECONDS / (24 * 3600))
POLICIES = [IDLE, RetentionPolicy("idle/kept/", keep=True), RetentionPolicy("held/", hold=True)]

# Which policy, and is it due --------------------------------------------------------------------

paths = st.text("ab/", min_size=1, max_size=6)
policies = st.lists(
    st.builds(
        lambda prefix, days: RetentionPolicy(prefix, idle_days=days, hold=days is None),
        st.text("ab/", max_size=4),
        st.none() | st.floats(0.001, 1000),
    ),
    unique_by=lambda policy: policy.prefix,
    max_size=6,
)


def stream(path: str = "idle/s", **fields: object) -> Stream:
    known: dict[str, object] = {"ttl_seconds": None, "expires_at_ms": None, **fields}
    return Stream(
        id=1,
        key=key(path),
        content_type="text/plain",
        tail=0,
        created_at_ms=0,
        accessed_at_ms=0,
        recorded_at_ms=0,
        **known,  # type: ignore[arg-type]
    )


@given(policies, paths)
def test_the_longest_prefix_governs(known: list[RetentionPolicy], path: str) -> None:
    fitting = [policy for policy in known if path.startswith(policy.prefix)]
    expected = max(fitting, key=lambda policy: len(policy.prefix), default=None)
    assert Retention(known).policy(path) == expected
    assert Retention(list(reversed(known))).policy(path) == expected
    assert Retention(known).fingerprint == Retention(list(reversed(known))).fingerprint


@given(
    policy=st.none() | st.floats(0.0001, 1000) | st.just("hold"),
    recorded=st.integers(0, 10**12),
    accessed=st.integers(0, 10**9),
    ttl=st.none() | st.integers(0, 10**6),
    soft=st.booleans(),
    forks=st.integers(0, 2),
    now=st.integers(0, 2 * 10**12),
)
def test_a_stream_is_due_when_its_time_or_its_policy_says_so_and_never_under_a_hold(
    policy: float | str | None,
    recorded: int,
    accessed: int,
    ttl: int | None,
    soft: bool,
    forks: int,
    now: int,
) -> None:
    one = stream(ttl_seconds=ttl)
    one.recorded_at_ms, one.accessed_at_ms = recorded, recorded + accessed
    one.soft_deleted, one.forks = soft, forks
    held, days = policy == "hold", policy if isinstance(policy, float) else None
    if policy is not None:
        Retention([RetentionPolicy("idle/", idle_days=days, hold=held)]).govern(one)
    expired = ttl is not None and now >= one.accessed_at_ms + ttl * 1000
    idle_ms = None if days is None else int(days * DAY_MS)
    idle = idle_ms is not None and now >= recorded + idle_ms + min(idle_ms // 10, 3_600_000)
    end = lifetime.removal_ms(one, DEFAULT_LIMITS)
    due = end is not None and now >= end
    if held:
        assert not due
    elif soft:
        assert due == (forks == 0)
    else:
        assert due == (expired or idle)
    assert one.expired(now) == (expired and not held)


@given(st.lists(st.integers(0, 40_000), min_size=1, max_size=20), st.floats(0.0001, 2))
def test_a_stream_is_never_removed_earlier_than_its_last_access_allows(
    pauses: list[int], days: float
) -> None:
    """Reads are recorded only now and then; however they fall, the removal is not early."""
    one, now = stream(), 0
    Retention([RetentionPolicy("", idle_days=days)]).govern(one)
    for pause in pauses:
        now += pause * 1000
        for effect in lifetime.touch(one, now, DEFAULT_LIMITS):
            one.recorded_at_ms = effect.at_ms
        end = lifetime.removal_ms(one, DEFAULT_LIMITS)
        assert end is not None
        assert now + int(days * DAY_MS) <= end <= now + int(days * DAY_MS * 1.1) + 1


# In a partition ---------------------------------------------------------------------------------


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = await World(tmp_path, replace(LIMITS, active_streams_max=0), retention=Retention(POLICIES)).open()
    yield world
    await world.close()


async def missing(world: World, path: str) -> bool:
    try:
        world.partition.find(key(path))
    except StreamNotFoundError:
        return True
    return False


async def sweep(world: World, seconds: float = 0) -> None:
    world.clock.advance(seconds)
    world.partition.expire()
    await world.partition.settled()


@pytest.mark.anyio
@pytest.mark.parametrize("where", ["in memory", "cold", "after a restart", "without the catalog"])
async def test_a_stream_that_nobody_uses_is_removed(world: World, where: str) -> None:
    for path in ("idle/s", "idle/kept/s", "held/s", "other"):
        await world.create(path, b"[1]")
    await world.flush()
    if where == "cold":
        for _ in range(3):
            await world.partition.evict_idle()
        assert not world.partition._state.by_id
    elif where != "in memory":
        await world.reopen(forget_catalog=where == "without the catalog")
    await sweep(world, IDLE_SECONDS + LAG_SECONDS - 0.001)
    assert not await missing(world, "idle/s")
    await sweep(world, 0.001)
    assert await missing(world, "idle/s")
    assert world.partition.counts().streams_expired == 1
    for path in ("idle/kept/s", "held/s", "other"):
        assert not await missing(world, path)
    await world.flush()
    await world.reopen()
    assert await missing(world, "idle/s")


CLOSED = RetentionPolicy("sessions/ci-", closed_days=IDLE_SECONDS / (24 * 3600))


@pytest.mark.anyio
@pytest.mark.parametrize("where", ["in memory", "cold", "in the log", "restarted", "without the catalog"])
async def test_a_closed_stream_is_removed_so_long_after_its_close(tmp_path: Path, where: str) -> None:
    """What changes after the close, by a name, an archive, an erasure or a repeat puts nothing off."""
    world = await World(tmp_path, replace(LIMITS, active_streams_max=0), retention=Retention([CLOSED])).open()

    async def change(path: str, effect: Callable[[int, int], Effect]) -> None:
        number, now_ms = world.partition.find(key(path)).stream.id, world.clock.now_ms()
        await world.partition.commit(lambda state, at: ([effect(number, now_ms)], None))

    ended = [f"sessions/ci-{how}" for how in ("closed", "archived", "renamed", "erased", "again")]
    for path in (*ended, "sessions/ci-open", "other"):
        await world.create(path, b"[1]")
    await world.flush()
    world.clock.advance(2 * IDLE_SECONDS)
    sessions = Sessions(world.partition, world.clock, RandomIds(), world.limits, ONLY_PARTITION)
    await sessions.archive(key("sessions/ci-archived"), By("me"))
    for path in {*ended, "other"} - {"sessions/ci-archived"}:
        await world.partition.append(key(path), Append(b"", close=True))
    await world.flush()
    world.clock.advance(IDLE_SECONDS / 2)
    await change("sessions/ci-renamed", lambda number, at: StreamDescribed(number, at, {"session": b"{}"}))
    erased = (ErasedRecord(0, b"null,"),)
    await change("sessions/ci-erased", lambda number, at: RecordsErased(number, at, erased))
    await world.partition.append(key("sessions/ci-again"), Append(b"", close=True))
    await sessions.archive(key("sessions/ci-closed"), By("me"))
    if where != "in the log":
        await world.flush()
    if where == "cold":
        for _ in range(3):
            await world.partition.evict_idle()
        assert not world.partition._state.by_id
    elif where != "in memory":
        await world.reopen(forget_catalog=where == "without the catalog")
    await sweep(world, IDLE_SECONDS / 2 - 0.001)
    assert [path for path in ended if await missing(world, path)] == []
    await sweep(world, 0.001)
    if where == "in the log":  # what has changed since the last flush is found by the sweep after the next
        await world.flush()
        await sweep(world)
    assert [path for path in ended if not await missing(world, path)] == []
    for path in ("sessions/ci-open", "other"):
        assert not await missing(world, path)
    await world.close()


@pytest.mark.parametrize("closed_at_ms", [None, 7, 9])
def test_the_time_of_a_close_is_kept_with_the_stream(closed_at_ms: int | None) -> None:
    one = stream(closed=closed_at_ms is not None, closed_at_ms=closed_at_ms, changed_at_ms=9)
    assert stream_codec.decode(stream_codec.encode(one)).closed_at_ms == closed_at_ms
    before = msgspec.msgpack.decode(stream_codec.encode(one))[:23]  # as written before there was this time
    assert stream_codec.decode(msgspec.msgpack.encode(before)).closed_at_ms == (9 if one.closed else None)


@pytest.mark.anyio
async def test_reads_and_writes_put_it_off(world: World) -> None:
    await world.create("idle/read", b"[1]")
    await world.create("idle/written", b"[1]")
    await world.create("idle/s", b"[1]")
    await world.flush()
    for _ in range(4):
        world.clock.advance(IDLE_SECONDS / 2)
        world.partition.touch(world.partition.find(key("idle/read")))
        await world.append("idle/written", b"2")
        await sweep(world)
    assert await missing(world, "idle/s")
    await world.flush()
    await world.reopen(forget_catalog=True)
    await sweep(world, IDLE_SECONDS)
    assert not await missing(world, "idle/read")
    assert not await missing(world, "idle/written")
    await sweep(world, LAG_SECONDS)
    assert await missing(world, "idle/read")
    assert await missing(world, "idle/written")


@pytest.mark.anyio
async def test_a_source_with_forks_goes_softly_and_its_records_stay(world: World) -> None:
    await world.create("idle/s", b"[1,2]")
    await world.fork("fork", "idle/s")
    await world.flush()
    await sweep(world, 2 * IDLE_SECONDS)
    with pytest.raises(StreamGoneError):
        world.partition.find(key("idle/s"))
    await world.flush()
    await world.maintain_for(GONE_SECONDS)
    assert await world.read("fork") == b"1,2,"


@pytest.mark.anyio
async def test_a_sweep_removes_a_bounded_number_and_the_next_goes_on(tmp_path: Path) -> None:
    limits = replace(LIMITS, active_streams_max=0, removals_per_sweep_max=3)
    world = await World(tmp_path, limits, Retention(POLICIES)).open()
    for number in range(7):
        await world.create(f"idle/{number}")
    await world.flush()
    await world.reopen()
    removed = []
    world.clock.advance(2 * IDLE_SECONDS)
    for _ in range(4):
        await sweep(world)
        removed.append(world.partition.counts().streams_expired)
    assert removed == [3, 6, 7, 7]
    await world.close()


@pytest.mark.anyio
async def test_a_hold_outlasts_delete_ttl_and_expiry(world: World) -> None:
    await world.create("held/ttl", b"[1]", ttl_seconds=10)
    await world.create("held/expires", b"[2]", expires_at_ms=world.clock.now_ms() + 10_000)
    await world.flush()
    for restarted in (False, True):
        if restarted:
            await world.reopen(forget_catalog=True)
        for path, expected in (("held/ttl", b"1,"), ("held/expires", b"2,")):
            await sweep(world, 1_000)
            with pytest.raises(LegalHoldError, match=path):
                await world.delete(path)
            await world.flush()
            await world.maintain_for(GONE_SECONDS)
            assert await world.read(path) == expected
    with pytest.raises(StreamNotFoundError):
        await world.delete("held/none")


@pytest.mark.anyio
async def test_a_hold_that_is_lifted_lets_the_overdue_go(world: World) -> None:
    await world.create("held/s", b"[1]", ttl_seconds=10)
    await world.flush()
    await sweep(world, 1_000)
    world.retention = NO_RETENTION
    await world.reopen()
    await sweep(world)
    assert await missing(world, "held/s")
    await world.create("held/s")
    await world.delete("held/s")


@pytest.mark.anyio
@pytest.mark.parametrize("cold", [False, True])
async def test_a_hold_keeps_the_records_of_a_source_that_was_deleted_before(world: World, cold: bool) -> None:
    """A source that is only kept for its forks comes under a hold: it outlasts the last of them."""
    world.retention = NO_RETENTION
    await world.reopen()
    await world.create("held/source", b'["evidence"]')
    await world.fork("fork", "held/source")
    await world.delete("held/source")
    await world.flush()
    world.retention = Retention(POLICIES)
    await world.reopen()
    await world.delete("fork")
    await world.flush()
    await sweep(world, 1_000)
    await world.flush()
    await world.maintain_for(GONE_SECONDS)
    assert list(world.holding(b"evidence"))
    world.retention = NO_RETENTION
    await world.reopen(forget_catalog=cold)
    await sweep(world)
    await world.flush()
    await world.maintain_for(GONE_SECONDS)
    assert list(world.holding(b"evidence")) == []
    assert world.catalog()["streams"] == []


@pytest.mark.anyio
async def test_policies_that_change_hold_from_the_next_start(world: World) -> None:
    await world.create("other", b"[1]")
    await world.create("idle/s", b"[1]")
    await world.flush()
    world.retention = Retention([replace(IDLE, prefix=""), RetentionPolicy("idle/", keep=True)])
    await world.reopen()
    await sweep(world, 2 * IDLE_SECONDS)
    assert await missing(world, "other")
    assert not await missing(world, "idle/s")


@pytest.mark.anyio
async def test_without_policies_nothing_is_recorded_or_removed(tmp_path: Path) -> None:
    world = await World(tmp_path).open()
    await world.create("s")
    await world.flush()
    batches = len(world.log.batches)
    world.clock.advance(10 * 365 * 24 * 3600)
    world.partition.touch(world.partition.find(key("s")))
    await sweep(world)
    assert len(world.log.batches) == batches
    await world.close()


@pytest.mark.anyio
async def test_without_an_archive_holds_are_kept_too(world: World) -> None:
    partition = await Partition.open(world.log, world.clock, world.limits, retention=Retention(POLICIES))
    await world.create("held/s")
    other = await Partition.open(world.log, world.clock, world.limits, retention=Retention(POLICIES))
    with pytest.raises(LegalHoldError):
        await other.delete(key("held/s"))
    await other.close()
    await partition.close()
