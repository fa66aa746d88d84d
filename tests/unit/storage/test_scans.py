"""Scans wait for each other in order, and long work lets go of the event loop."""

import asyncio
from dataclasses import replace

import pytest

from durable_sessions.errors import OverloadedError, TooManyScansError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.storage.scans import Scans
from durable_sessions.storage.turns import Turns

pytestmark = pytest.mark.anyio

LIMITS = replace(
    DEFAULT_LIMITS, scans_max=2, scans_per_key_max=1, scans_waiting_per_key_max=2, scans_waiting_max=3
)


class Crowd:
    """Scans that go on until they are told to end, and the order in which they began."""

    def __init__(self) -> None:
        self.scans = Scans(LIMITS)
        self.begun: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}

    async def scan(self, name: str, key: str) -> None:
        ends = self._ends[name] = asyncio.Event()
        async with self.scans.admitted(key):
            self.begun.append(name)
            await ends.wait()

    async def begin(self, name: str, key: str) -> "asyncio.Task[None]":
        task = asyncio.create_task(self.scan(name, key))
        await asyncio.sleep(0)
        return task

    async def end(self, name: str) -> None:
        self._ends[name].set()
        for _ in range(3):
            await asyncio.sleep(0)


async def test_one_key_cannot_take_all_the_room() -> None:
    crowd = Crowd()
    tasks = [await crowd.begin(name, name[0]) for name in ("a1", "a2", "a3", "b1")]
    assert crowd.begun == ["a1", "b1"]
    await crowd.end("a1")
    assert crowd.begun == ["a1", "b1", "a2"]
    for name in ("a2", "a3", "b1"):
        await crowd.end(name)
    await asyncio.gather(*tasks)
    assert crowd.begun[-1] == "a3"


async def test_keys_that_wait_are_served_in_rotation() -> None:
    crowd = Crowd()
    tasks = [await crowd.begin(name, name[0]) for name in ("a1", "b1", "c1", "c2", "d1")]
    await crowd.end("a1")
    await crowd.end("c1")
    await crowd.end("d1")
    assert crowd.begun == ["a1", "b1", "c1", "d1", "c2"]
    for name in ("b1", "c2"):
        await crowd.end(name)
    await asyncio.gather(*tasks)


async def test_so_many_wait_and_no_more() -> None:
    crowd = Crowd()
    tasks = [await crowd.begin(name, name[0]) for name in ("a1", "a2", "a3", "b1", "c1")]
    assert crowd.scans.waiting == 3
    with pytest.raises(TooManyScansError):
        await crowd.scan("a4", "a")
    with pytest.raises(OverloadedError):
        await crowd.scan("c2", "c")
    for name in ("a1", "a2", "a3", "b1", "c1"):
        await crowd.end(name)
    await asyncio.gather(*tasks)
    assert crowd.scans.waiting == 0


async def test_who_goes_away_makes_room() -> None:
    crowd = Crowd()
    first, second, third = [await crowd.begin(name, "a") for name in ("a1", "a2", "a3")]
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
    await crowd.end("a1")
    assert crowd.begun == ["a1", "a3"]
    third.cancel()
    fourth = await crowd.begin("a4", "a")
    await crowd.end("a4")
    await asyncio.gather(first, third, fourth, return_exceptions=True)
    assert crowd.begun == ["a1", "a3", "a4"]


async def test_who_goes_away_when_it_is_admitted_makes_room() -> None:
    crowd = Crowd()
    first = await crowd.begin("a1", "a")
    second = await crowd.begin("a2", "a")
    first.cancel()
    await asyncio.sleep(0)  # the second is admitted, and does not know it yet
    second.cancel()
    await asyncio.gather(first, second, return_exceptions=True)
    third = await crowd.begin("a3", "a")
    await crowd.end("a3")
    await third
    assert crowd.begun == ["a1", "a3"]


async def test_in_one_round_of_the_loop_one_has_its_turn() -> None:
    turns = Turns(seconds=0.0)
    rounds: list[int] = []
    at = 0

    async def work() -> None:
        turn = turns.begin()
        for _ in range(5):
            assert turn.over
            await turn.rest()
            rounds.append(at)

    workers = [asyncio.create_task(work()) for _ in range(4)]
    while not all(worker.done() for worker in workers):
        at += 1
        await asyncio.sleep(0)
    assert len(rounds) == len(set(rounds)) == 20


async def test_who_is_cancelled_leaves_its_turn_to_others() -> None:
    turns = Turns(seconds=0.0)
    first = asyncio.create_task(turns.next())
    second = asyncio.create_task(turns.next())
    await asyncio.sleep(0)
    first.cancel()
    await second
    assert first.cancelled() or (await asyncio.gather(first, return_exceptions=True)) is not None


async def test_a_turn_is_not_over_at_once() -> None:
    assert not Turns(seconds=60.0).begin().over


async def test_who_has_given_up_takes_no_place_among_those_who_wait() -> None:
    crowd = Crowd()
    tasks = [await crowd.begin(name, name[0]) for name in ("a1", "a2", "a3")]
    for task in tasks[1:]:
        task.cancel()
    await asyncio.gather(*tasks[1:], return_exceptions=True)
    assert crowd.scans.waiting == 0
    again = await crowd.begin("a4", "a")
    for name in ("a1", "a4"):
        await crowd.end(name)
    await asyncio.gather(tasks[0], again)
    assert crowd.begun == ["a1", "a4"]
