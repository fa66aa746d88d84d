"""How a budget is shared: nobody holds more than is left for others."""

import asyncio

import pytest

from durable_sessions.fair_queue import FairQueue
from durable_sessions.shares import Shares

pytestmark = pytest.mark.anyio


def test_one_alone_gets_half_and_not_one_more() -> None:
    shares = Shares(100)
    assert shares.try_take("a", 50)
    assert not shares.try_take("a", 1)
    assert (shares.held, shares.of("a")) == (50, 50), "what was refused is not counted"


def test_two_get_a_third_each() -> None:
    shares = Shares(99)
    assert shares.try_take("a", 33)
    assert shares.try_take("b", 33)
    assert not shares.try_take("a", 1)
    assert not shares.try_take("b", 1)
    assert not shares.full()


def test_a_newcomer_finds_room_however_many_take_all_they_can() -> None:
    shares = Shares(1_000_000)
    for number in range(10):
        while shares.try_take(number, 100):
            pass
        assert shares.of(number) >= 1_000_000 // 2 ** (number + 1) - 100
        assert shares.try_take("newcomer", 100)
        shares.give("newcomer", 100)


def test_what_is_given_back_can_be_taken_again() -> None:
    shares = Shares(10)
    assert shares.try_take("a", 5)
    shares.move("a", "b", 5)
    assert (shares.of("a"), shares.of("b")) == (0, 5)
    assert not shares.try_take("b", 1)
    shares.give("b", 5)
    assert shares.held == 0
    assert shares.try_take("b", 5)


async def test_whoever_waits_gets_in_turn_with_other_holders() -> None:
    queue = FairQueue(4)
    order: list[str] = []
    leave = asyncio.Event()

    async def work(holder: str) -> None:
        async with queue.part(holder):
            order.append(holder)
            if len(order) < 3:
                await leave.wait()

    many = [asyncio.create_task(work("many")) for _ in range(10)]
    await asyncio.sleep(0)
    assert order == ["many", "many"], "half of four"
    await asyncio.create_task(work("few"))
    assert order == ["many", "many", "few"], "the few do not wait behind the many"
    leave.set()
    await asyncio.gather(*many)
    assert (queue.held, queue.waiting) == (0, 0)


async def test_one_part_can_always_be_had() -> None:
    queue = FairQueue(1)
    async with queue.part("a"):
        waiting = asyncio.create_task(enter(queue, "b"))
        await asyncio.sleep(0)
        assert queue.waiting == 1
    await waiting
    async with queue.part("a", 1_000):
        assert queue.held == 1_000, "larger than the budget, but alone"


async def test_who_goes_away_while_waiting_holds_nothing() -> None:
    queue = FairQueue(2)
    async with queue.part("a"):
        waiting = [asyncio.create_task(enter(queue, "a")) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        assert queue.waiting == 2
    waiting[1].cancel()  # in the moment in which it is granted
    await asyncio.gather(*waiting, return_exceptions=True)
    assert (queue.held, queue.waiting) == (0, 0)


async def enter(queue: FairQueue, holder: str) -> None:
    async with queue.part(holder):
        pass


async def test_who_stands_behind_one_that_gives_up_in_the_same_moment_gets_its_turn() -> None:
    queue = FairQueue(1)

    async def hold() -> None:
        async with queue.part("a"):
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(hold()) for _ in range(3)]
    await asyncio.sleep(0)
    assert (queue.held, queue.waiting) == (1, 2)
    for task in tasks[:2]:
        task.cancel()
    await asyncio.gather(*tasks[:2], return_exceptions=True)
    for _ in range(3):
        await asyncio.sleep(0)
    assert (queue.held, queue.waiting) == (1, 0)
    tasks[2].cancel()
    await asyncio.gather(tasks[2], return_exceptions=True)
    assert (queue.held, queue.waiting) == (0, 0)


async def test_a_small_part_does_not_wait_behind_a_large_one_that_was_given_up() -> None:
    queue = FairQueue(10)
    async with queue.part("other", 3):
        large = asyncio.create_task(enter_with(queue, "a", 9))
        await asyncio.sleep(0)
        small = asyncio.create_task(enter_with(queue, "a", 1))
        await asyncio.sleep(0)
        assert queue.waiting == 2
        large.cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        assert small.done()


async def enter_with(queue: FairQueue, holder: str, amount: int) -> None:
    async with queue.part(holder, amount):
        pass
