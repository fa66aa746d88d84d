"""Following the keys of another process: equal tables, acknowledged versions, and the limit of trust."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.access.caller import Caller, Role
from durable_sessions.access.key_feed import KeyFeedError, KeysSeen, records, snapshot_lines
from durable_sessions.access.key_follower import KeyFollower
from durable_sessions.access.key_publisher import KeyPublisher
from durable_sessions.access.key_table import KeyTable
from durable_sessions.clock import ManualClock
from durable_sessions.errors import KeysUnprovenError
from durable_sessions.ids import RandomIds
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from tests.support.waiting import PATIENCE_SECONDS, until
from tests.unit.access.documents import document

LOCAL = Caller("default", "local", Role.ADMIN, None)
LIMITS = replace(
    DEFAULT_LIMITS,
    key_confirm_seconds=0.005,
    key_confirm_seconds_max=60.0,
    key_feed_retry_seconds=0.001,
    key_feed_retry_seconds_max=0.002,
    keys_everywhere_seconds_max=120.0,
)


class Pair:
    """A publisher and a follower with a pipe between them that can be cut and stopped."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.limits = limits
        self.seconds = 1_000.0
        self.ids = RandomIds()
        self.source = KeyTable(ManualClock(), "default")
        self.publisher = self.published()
        self.copy = KeyTable(ManualClock(), "default")
        self.follower = KeyFollower("worker-1", self.copy, self.acknowledge, lambda: self.seconds, limits)
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.answering = True
        self.pieces = 7
        self.connections: list[AsyncIterator[bytes]] = []
        self.task: asyncio.Task[None] | None = None

    def published(self) -> KeyPublisher:
        return KeyPublisher(self.source, self.ids, self.limits, lambda: self.seconds)

    async def __aenter__(self) -> "Pair":
        self.task = asyncio.create_task(self.follower.run(self.open))
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self.task is not None
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def acknowledge(self, seen: bytes) -> bytes:
        if not self.answering:
            raise ConnectionError("no answer")
        return self.publisher.acknowledge(seen)

    async def open(self, name: str) -> AsyncIterator[bytes]:
        """Yield what the publisher sends, in pieces that do not end with its lines."""
        publisher, feed = self.publisher, self.publisher.follow(name)
        try:
            async for chunk in feed:
                for at in range(0, len(chunk), 10_000 + self.pieces):
                    await self.flowing.wait()
                    if publisher is not self.publisher:
                        raise ConnectionError("cut")
                    yield chunk[at : at + 10_000 + self.pieces]
        finally:
            await feed.aclose()  # type: ignore[attr-defined]  # a generator

    def restart_owner(self) -> None:
        """Begin a new process with a table of its own, whose versions begin anew."""
        before, known = self.publisher, [key.document for key in self.source.all()]
        self.source = KeyTable(ManualClock(), "default")
        self.source.replace(known)
        self.publisher = self.published()
        before.keys_replaced()  # so that its connection has something to send, and is cut

    def equal(self) -> bool:
        return contents(self.source) == contents(self.copy)

    async def until_equal(self) -> None:
        await until(lambda: self.equal() and self.follower.version == self.source.version)


def contents(table: KeyTable) -> tuple[bool, list[Any]]:
    return table.required, [key.document for key in table.all()]


def run(test: "Callable[[], Coroutine[Any, Any, None]]") -> None:
    asyncio.run(test())


# Equal tables ---------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c", "d"])
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["create", "revoke", "forget"]), names),
        st.tuples(st.sampled_from(["reload", "restart", "read", "read all", "require"]), st.just("")),
    ),
    max_size=25,
)


@given(steps)
def test_a_follower_has_what_the_publisher_has_after_any_sequence(sequence: "list[tuple[str, str]]") -> None:
    async def test() -> None:
        pair = Pair(replace(LIMITS, key_feed_queue_max=3, key_feed_slice_max=2))
        feed = pair.publisher.follow("f")
        read = records(feed, LIMITS.key_feed_line_bytes_max)

        async def catch_up() -> None:
            # A change of version is always the last record of what is to be read.
            while pair.follower.version != pair.source.version or pair.follower.incarnation is None:
                pair.follower.apply(await anext(read))
            assert pair.equal()

        for step, name in sequence:
            if step == "create" and pair.source.get(name) is None:
                pair.source.apply(document(name))
            elif step == "revoke" and pair.source.get(name) is not None:
                pair.source.apply(document(name, revoked_at_ms=5))
            elif step == "forget":
                pair.source.forget(name)
            elif step == "require":
                pair.source.require_keys()
            elif step == "reload":
                pair.source.replace([key.document for key in pair.source.all()][::2])
            elif step == "restart":
                await feed.aclose()  # type: ignore[attr-defined]  # a generator
                pair.restart_owner()
                pair.follower.incarnation = None
                feed = pair.publisher.follow("f")
                read = records(feed, LIMITS.key_feed_line_bytes_max)
            elif step == "read" and pair.follower.version != pair.source.version:
                pair.follower.apply(await anext(read))
            elif step == "read all":
                await catch_up()
        await catch_up()

    run(test)


def test_ten_thousand_keys_are_sent_in_slices() -> None:
    async def test() -> None:
        limits = replace(LIMITS, key_feed_slice_bytes_max=20_000)
        pair = Pair(limits)
        pair.source.replace([document(f"key_{number}") for number in range(10_000)])
        feed = pair.publisher.follow("another")
        for _ in range(20):
            assert (
                len(await anext(feed)) <= limits.key_feed_slice_bytes_max + 1_000
            )  # with what is around keys
        await feed.aclose()  # type: ignore[attr-defined]  # a generator
        async with pair:
            await pair.until_equal()
            pair.source.apply(document("one more"))
            await pair.until_equal()

    run(test)


def test_slices_are_limited_in_count_and_bytes() -> None:
    keys = [document(f"key_{number}") for number in range(10)]
    size = len(msgspec.json.encode(keys[0]))
    assert len(list(snapshot_lines(keys, keys_max=5, bytes_max=10**6))) == 2
    assert len(list(snapshot_lines(keys, keys_max=4, bytes_max=10**6))) == 3
    assert len(list(snapshot_lines(keys, keys_max=100, bytes_max=2 * size))) == 5
    assert len(list(snapshot_lines(keys, keys_max=100, bytes_max=2 * size - 1))) == 10
    assert len(list(snapshot_lines(keys, keys_max=100, bytes_max=1))) == 10


def test_a_publisher_that_has_handed_the_keys_over_is_left_though_its_connection_stays_open() -> None:
    async def test() -> None:
        async with Pair() as pair:
            pair.source.apply(document("key_0"))
            await pair.until_equal()
            before, known = pair.publisher, [key.document for key in pair.source.all()]
            pair.source = KeyTable(ManualClock(), "default")
            pair.source.replace(known)
            pair.publisher = pair.published()
            await until(lambda: pair.follower.incarnation == pair.publisher.incarnation)
            pair.source.apply(document("key_1"))
            await pair.until_equal()
            assert before.incarnation != pair.follower.incarnation

    run(test)


def test_a_lost_connection_and_a_new_owner_lead_to_the_same_table() -> None:
    async def test() -> None:
        async with Pair() as pair:
            for number in range(5):
                pair.source.apply(document(f"key_{number}"))
                await pair.until_equal()
                incarnation = pair.publisher.incarnation
                pair.restart_owner()
                pair.source.apply(document("key_0", revoked_at_ms=5))
                await until(lambda: pair.follower.incarnation not in (None, incarnation))  # noqa: B023
                await pair.until_equal()

    run(test)


@pytest.mark.parametrize("most", [{"key_feed_queue_max": 5}, {"key_feed_queue_bytes_max": 1_000}])
def test_a_slow_follower_gets_everything_anew(most: dict[str, int]) -> None:
    async def test() -> None:
        limits = replace(LIMITS, **most)
        async with Pair(limits) as pair:
            await pair.until_equal()
            pair.flowing.clear()
            for number in range(50):
                pair.source.apply(document(f"key_{number}"))
                await asyncio.sleep(0)
            assert not pair.equal()
            (queue,) = pair.publisher._followers.values()
            assert len(queue.take()) <= 2_000, "what waits is bounded"
            queue.renew()
            pair.flowing.set()
            await pair.until_equal()

    run(test)


@pytest.mark.parametrize(
    "lines",
    [
        b'{"type":"key","version":1}\n',
        b'{"type":"keys","keys":[]}\n',
        b'{"type":"begin","incarnation":"i"}\n{"type":"end","version":3,"count":1,"required":false}\n',
        b'{"type":"begin","incarnation":"i"}\n{"type":"end","version":3,"count":0,"required":false}\n'
        b'{"type":"required","version":5}\n',
        b'{"type":"begin","incarnation":"i"}\n{"type":"end","version":3,"count":0,"required":false}\n'
        b'{"type":"required","version":3}\n',
        b"x" * (LIMITS.key_feed_line_bytes_max + 1),
    ],
)
def test_what_does_not_follow_is_refused(lines: bytes) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield lines

    async def test() -> None:
        pair = Pair()
        with pytest.raises(KeyFeedError):
            await pair.follower.follow(chunks())

    run(test)


def test_a_line_of_the_greatest_length_is_read() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        begin = b'{"type":"begin","incarnation":"i"}'
        yield begin + b" " * (LIMITS.key_feed_line_bytes_max - len(begin))
        yield b"\n"

    async def test() -> None:
        await Pair().follower.follow(chunks())

    run(test)


# Trust ----------------------------------------------------------------------------------


def test_a_follower_trusts_its_table_for_fifteen_seconds_from_when_it_asked() -> None:
    async def test() -> None:
        async with Pair() as pair:
            assert pair.copy.is_unproven, "before the first confirmation nobody is admitted"
            await until(pair.follower.is_fresh)
            pair.answering = False
            asked = pair.seconds
            pair.seconds = asked + DEFAULT_LIMITS.key_proof_seconds - 0.001
            pair.copy.require_proven()
            pair.seconds = asked + DEFAULT_LIMITS.key_proof_seconds
            with pytest.raises(KeysUnprovenError):
                pair.copy.require_proven()
            pair.answering = True
            await until(pair.follower.is_fresh)

    run(test)


def test_an_answer_counts_from_when_it_was_asked_for_and_only_if_nothing_is_newer() -> None:
    async def test() -> None:
        pair = Pair()
        read = records(pair.publisher.follow("worker-1"), LIMITS.key_feed_line_bytes_max)
        for _ in range(2):
            pair.follower.apply(await anext(read))

        async def slow(seen: bytes) -> bytes:
            pair.seconds += 10
            return pair.publisher.acknowledge(seen)

        pair.follower._acknowledge = slow
        await pair.follower.confirm()
        assert pair.follower.confirmed_seconds_ago == 10
        pair.source.apply(document("one"))
        await pair.follower.confirm()
        assert pair.follower.confirmed_seconds_ago == 20, "there was something newer"
        for _ in range(2):
            pair.follower.apply(await anext(read))
        assert pair.follower.confirmed_seconds_ago == 10, "now that it has come, the answer counts"

    run(test)


def test_who_wakes_with_a_proof_that_has_ended_is_confirmed_before_anyone_is_refused() -> None:
    async def test() -> None:
        async with Pair(replace(LIMITS, key_confirm_seconds=PATIENCE_SECONDS)) as pair:
            await until(pair.follower.is_fresh)
            ended: list[str] = []
            pair.copy.watch(LOCAL, lambda: ended.append("local"))
            for _ in range(3):
                pair.seconds += 1_000  # the process was stopped, or the machine slept
                assert pair.copy.is_unproven
                await asyncio.gather(*(pair.copy.renew_proof() for _ in range(5)))
                pair.copy.require_proven()
            assert not ended
            assert pair.copy.valid(LOCAL)

    run(test)


def test_whoever_waits_for_a_proof_waits_for_one_try_and_nobody_after_it() -> None:
    async def test() -> None:
        async with Pair() as pair:
            await until(pair.follower.is_fresh)
            pair.answering = False
            pair.seconds += 15
            async with asyncio.timeout(PATIENCE_SECONDS):
                await pair.copy.renew_proof()
            assert pair.follower._is_lost
            with pytest.raises(KeysUnprovenError):
                pair.copy.require_proven()
            waiting = pair.copy.renew_proof()
            with pytest.raises(StopIteration):
                waiting.send(None)  # it does not wait at all
            pair.answering = True
            await until(pair.follower.is_fresh)

    run(test)


def test_a_wait_for_a_proof_ends_when_no_answer_comes() -> None:
    async def never(seen: bytes) -> bytes:
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def test() -> None:
        async with Pair(replace(LIMITS, key_confirm_seconds_max=0.02)) as pair:
            await until(pair.follower.is_fresh)
            pair.follower._acknowledge = never
            pair.seconds += 15
            await pair.copy.renew_proof()
            assert pair.copy.is_unproven
            await until(lambda: "did not answer in time" in (pair.follower.failure or ""))

    run(test)


def test_a_try_that_fails_in_any_way_is_followed_by_another() -> None:
    async def test() -> None:
        async with Pair() as pair:
            await until(pair.follower.is_fresh)
            asked = []

            async def broken(seen: bytes) -> bytes:
                asked.append(seen)
                if len(asked) < 3:
                    raise RuntimeError("nobody has foreseen this")
                return pair.publisher.acknowledge(seen)

            pair.follower._acknowledge = broken
            pair.seconds += 15
            await until(pair.follower.is_fresh)

    run(test)


def test_live_readers_end_with_the_trust() -> None:
    async def test() -> None:
        async with Pair() as pair:
            await until(pair.follower.is_fresh)
            ended: list[str] = []
            pair.copy.watch(LOCAL, lambda: ended.append("local"))
            pair.answering = False
            pair.seconds += 15
            await until(lambda: bool(ended))
            assert not pair.copy.valid(LOCAL)

    run(test)


def test_a_revocation_ends_live_readers_of_a_follower_and_the_first_key_those_without_one() -> None:
    async def test() -> None:
        async with Pair() as pair:
            await until(pair.follower.is_fresh)
            ended: list[str] = []
            pair.copy.watch(LOCAL, lambda: ended.append("local"))
            pair.source.apply(document("one"))
            await until(lambda: ended == ["local"])
            key = pair.copy.find(b"one")
            assert key is not None
            pair.copy.watch(key.caller, lambda: ended.append("one"))
            pair.source.apply(document("one", revoked_at_ms=5))
            await until(lambda: ended == ["local", "one"])

    run(test)


def test_a_publisher_that_is_not_proven_confirms_nobody() -> None:
    async def test() -> None:
        publisher = KeyPublisher(
            KeyTable(ManualClock(), "default"), RandomIds(), LIMITS, lambda: 0.0, lambda: False
        )
        with pytest.raises(KeysUnprovenError):
            publisher.acknowledge(msgspec.json.encode(KeysSeen("f", publisher.incarnation, 0)))

    run(test)


# Everywhere -----------------------------------------------------------------------------


def test_a_change_is_everywhere_when_all_have_acknowledged_it() -> None:
    async def test() -> None:
        async with Pair() as pair:
            assert await pair.publisher.everywhere(), "nobody follows who could be behind"
            await until(pair.follower.is_fresh)
            pair.source.apply(document("one"))
            assert await pair.publisher.everywhere()
            assert pair.copy.find(b"one") is not None

    run(test)


@asynccontextmanager
async def a_follower_that_is_behind() -> AsyncIterator[Pair]:
    """Give a pair whose follower was confirmed, and then got nothing more: it lacks a change."""
    async with Pair(replace(LIMITS, keys_everywhere_seconds_max=0.01)) as pair:
        await until(pair.follower.is_fresh)
        pair.flowing.clear()
        pair.source.apply(document("one"))
        assert not await pair.publisher.everywhere()
        yield pair


def test_a_worker_that_does_not_acknowledge_is_waited_for_only_so_long() -> None:
    async def test() -> None:
        async with a_follower_that_is_behind() as pair:
            assert pair.task is not None
            pair.task.cancel()  # the connection ends; nobody knows whether its process does
            await asyncio.gather(pair.task, return_exceptions=True)
            assert not await pair.publisher.everywhere(), "it may still admit by what it has"
            pair.seconds += 1.1 * DEFAULT_LIMITS.key_proof_seconds
            assert await pair.publisher.everywhere(), "by now it refuses everybody"

    run(test)


def test_a_worker_that_has_ended_is_not_waited_for() -> None:
    async def test() -> None:
        async with a_follower_that_is_behind() as pair:
            pair.publisher.gone("worker-1")
            assert await pair.publisher.everywhere()

    run(test)


def test_last_uses_are_told() -> None:
    async def test() -> None:
        async with Pair() as pair:
            pair.source.apply(document("one"))
            await pair.until_equal()
            used = pair.copy.find(b"one")
            kept = pair.source.find(b"one")
            assert used is not None
            assert kept is not None
            used.last_used_ms = 1_000
            await until(lambda: kept.last_used_ms == 1_000)
            kept.last_used_ms = 5_000
            used.last_used_ms = 2_000
            await until(lambda: pair.follower._told_used_ms == 2_000)
            assert kept.last_used_ms == 5_000, "the later one counts"

    run(test)
