"""Keys have one rate, whichever workers their requests reach."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from durable_sessions.access.key_table import KeyTable
from durable_sessions.clock import ManualClock
from durable_sessions.errors import LinkDownError
from durable_sessions.http.carrier.message import Answer, Request
from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.node.rate_exchange import RateExchange
from tests.support.waiting import until
from tests.unit.access.documents import document

pytestmark = pytest.mark.anyio

LIMITS = replace(DEFAULT_LIMITS, rate_tell_seconds=0.01, rate_heard_seconds_max=1e9)
DEAF = replace(LIMITS, rate_heard_seconds_max=0.05)


class DirectLink:
    """A link that is one call; ``is_cut`` lets nothing through."""

    def __init__(self, workers: list["Worker"], number: int) -> None:
        self._workers = workers
        self._number = number
        self.is_cut = False

    def ask(self, partition: int, request: Request) -> asyncio.Future[Answer]:
        asked: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if self.is_cut:
            asked.set_exception(LinkDownError(reason="cut"))
        else:
            asked.set_result(self._workers[self._number].exchange.answer(request))
        return asked


class Worker:
    """The table of keys of a process, and its exchange with the others."""

    def __init__(
        self, number: int, workers: list["Worker"], of: int, clock: ManualClock, limits: Limits
    ) -> None:
        self.table = KeyTable(clock, "default")
        self.table.apply(document("fast", rate=10))
        self.table.apply(document("slow", rate=0.01))
        self.clock = clock
        others = [other for other in range(of) if other != number]
        self.links = {other: DirectLink(workers, other) for other in others}
        self.exchange = RateExchange(self.table, cast(Any, self.links.values), f"process {number}", limits)

    def taken(self, secret: bytes = b"fast", most: int = 1_000) -> int:
        """Send requests until one is refused; return how many were admitted."""
        key = self.table.find(secret)
        assert key is not None
        assert key.rate is not None
        count = 0
        while count < most and not key.rate.take(self.clock.now_ms()):
            count += 1
        return count

    def tokens(self, secret: bytes = b"fast") -> float:
        """Return how many requests would be admitted now."""
        key = self.table.find(secret)
        assert key is not None
        assert key.rate is not None
        key.rate.spend(0, 100, self.clock.now_ms())
        return key.rate._tokens

    @property
    def is_divided(self) -> bool:
        return self.table._workers > 1


@asynccontextmanager
async def group(of: int, limits: Limits = LIMITS) -> AsyncIterator[list[Worker]]:
    clock, workers = ManualClock(), list[Worker]()
    workers += [Worker(number, workers, of, clock, limits) for number in range(of)]
    tasks = [asyncio.create_task(worker.exchange.run()) for worker in workers]
    try:
        await until(lambda: not any(worker.is_divided for worker in workers))
        clock.advance(1_000)
        yield workers
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_client_of_one_worker_has_its_whole_rate() -> None:
    async with group(2) as (one, _):
        assert one.taken() == 10
        for _ in range(5):
            one.clock.advance(1)
            assert one.taken() == 10


async def test_what_others_admit_counts_as_soon_as_it_is_heard() -> None:
    async with group(3) as workers:
        assert workers[0].taken(most=4) == 4
        await until(lambda: all(worker.tokens() == 6 for worker in workers))
        assert workers[1].taken(most=5) == 5
        await until(lambda: all(worker.tokens() == 1 for worker in workers))
        assert [worker.taken() for worker in workers] == [1, 1, 1], "a burst between two tellings"
        await until(lambda: all(worker.tokens() == -2 for worker in workers))
        workers[0].clock.advance(0.2)
        assert [worker.taken() for worker in workers] == [0, 0, 0], "which is paid back"


async def test_a_burst_at_every_worker_is_paid_back_in_full() -> None:
    async with group(4) as workers:
        assert [worker.taken() for worker in workers] == [10] * 4
        await until(lambda: all(worker.tokens() == -30 for worker in workers))
        workers[0].clock.advance(3)
        assert [worker.taken() for worker in workers] == [0] * 4
        workers[0].clock.advance(1)
        assert workers[0].taken() == 10


async def test_a_worker_that_does_not_hear_the_others_admits_its_part() -> None:
    async with group(2, DEAF) as (one, two):
        two.links[0].is_cut = True
        await until(lambda: one.is_divided)
        one.clock.advance(10)
        assert one.taken() == 5
        assert not two.is_divided
        two.links[0].is_cut = False
        await until(lambda: not one.is_divided)


async def test_what_was_admitted_before_a_worker_was_started_does_not_count_there() -> None:
    async with group(2) as (one, two):
        for _ in range(20):
            assert one.taken() == 10
            one.clock.advance(1)
        two.exchange = RateExchange(two.table, cast(Any, two.links.values), "process 1 again", LIMITS)
        one.clock.advance(60)
        before = two.exchange
        await until(lambda: bool(before._heard))
        assert two.tokens() >= -20
        two.clock.advance(10)
        assert two.taken() == 10


async def test_a_key_that_was_changed_is_counted_anew() -> None:
    async with group(2) as (one, two):
        assert one.taken(most=8) == 8
        await until(lambda: two.tokens() == 2)
        for worker in (one, two):
            worker.table.replace([document("fast", rate=20)])
        await until(lambda: one.tokens() == 20)
        assert one.taken(most=3) == 3
        await until(lambda: two.tokens() == 17)


async def test_very_many_keys_are_told_in_slices() -> None:
    limits = replace(LIMITS, key_feed_slice_max=2)
    async with group(2, limits) as (one, two):
        for number in range(7):
            for worker in (one, two):
                worker.table.apply(document(f"key {number}", rate=10))
        secrets = [f"key {number}".encode() for number in range(7)]
        for secret in secrets:
            assert one.taken(secret, most=3) == 3
        await until(lambda: all(two.tokens(secret) == 7 for secret in secrets))
