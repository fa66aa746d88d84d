"""Bytes by chance: every answer is well formed, none is a fault of the server, and the rest go on."""

import asyncio
from random import Random

import pytest

from tests.hostile.answers import Received, take_apart
from tests.hostile.arena import Arena
from tests.hostile.mutation import mutated, noise, portions
from tests.hostile.rounds import SEEDS
from tests.hostile.stranger import Stranger, request

pytestmark = pytest.mark.anyio

CONNECTIONS = 600
AT_ONCE = 32
QUIET_SECONDS = 0.05
"""An answer that takes longer is not looked at; nothing is expected to be faster."""


@pytest.fixture(scope="module")
def limits() -> dict[str, float]:
    return {"linger_seconds_max": 0.2, "header_seconds_max": 2.0, "body_seconds_max": 2.0}


async def throw(arena: Arena, data: bytes, chance: Random) -> list[Received]:
    """Send ``data`` in portions, look at what comes back, and leave in one of three ways."""
    async with await Stranger.connect(arena.port) as stranger:
        for portion in portions(data, chance):
            if not await stranger.send(portion):
                break
            await asyncio.sleep(0)
        leaving = chance.randrange(3)
        if leaving == 0:
            stranger.half_close()
        received = await stranger.until_quiet(QUIET_SECONDS)
        if leaving == 1:
            stranger.reset()
    return take_apart(received)


async def throw_many(arena: Arena, inputs: list[tuple[str, bytes]]) -> int:
    """Throw everything, some at a time; return how many were answered."""
    left = iter(inputs)
    answered = 0

    async def one_after_the_other() -> None:
        nonlocal answered
        for name, data in left:
            try:
                answers = await throw(arena, data, Random(name))
            except AssertionError as error:
                raise AssertionError(f"{name}: {data!r}") from error
            answered += bool(answers)

    await asyncio.gather(*(one_after_the_other() for _ in range(AT_ONCE)))
    return answered


@pytest.mark.parametrize("seed", SEEDS)
async def test_requests_made_wrong_by_chance(arena: Arena, seed: int) -> None:
    inputs = [(f"{seed}/{number}", mutated(Random(f"{seed}/{number}"))) for number in range(CONNECTIONS)]
    async with arena.attacked() as others:
        await arena.ask(request(b"PUT", b"/v1/stream/fuzz", b"Content-Type: text/plain", body=b""))
        await arena.ask(request(b"PUT", b"/v1/stream/fuzz-json", b"Content-Type: application/json", body=b""))
        answered = await throw_many(arena, inputs)
        await others.progress()
    assert answered > CONNECTIONS // 4, "the fuzzer has lost its bite"


@pytest.mark.parametrize("seed", SEEDS)
async def test_noise(arena: Arena, seed: int) -> None:
    inputs = [(f"{seed}/{number}", noise(Random(f"{seed}/{number}"))) for number in range(CONNECTIONS // 4)]
    async with arena.attacked() as others:
        await throw_many(arena, inputs)
        await others.progress()
