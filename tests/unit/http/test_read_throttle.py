import asyncio

import pytest

from durable_sessions.http.api.read_throttle import ReadThrottle

pytestmark = pytest.mark.anyio


async def test_what_is_read_in_one_turn_is_bounded() -> None:
    throttle = ReadThrottle(100)
    turns: list[int] = []

    async def read(turn: list[int]) -> None:
        await throttle.room()
        throttle.count(60)
        turns.append(turn[0])

    turn = [0]
    readers = [asyncio.create_task(read(turn)) for _ in range(6)]
    while len(turns) < len(readers):
        await asyncio.sleep(0)
        turn[0] += 1
    assert max(turns.count(number) for number in turns) == 2, "60 and 60; the next has to wait"


async def test_a_turn_ends_by_itself() -> None:
    throttle = ReadThrottle(1)
    seen = [throttle.full]
    throttle.count(0)
    seen.append(throttle.full)
    throttle.count(1)
    seen.append(throttle.full)
    await throttle.room()
    seen.append(throttle.full)
    assert seen == [False, False, True, False]
