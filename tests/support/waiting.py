"""Waiting for something to become true: as long as it takes on a busy machine, and no longer."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

PATIENCE_SECONDS = 120.0
"""How long to wait for what must happen. It is only ever used up by a fault, so it may be long."""
_PAUSE_SECONDS = 0.01


@overload
async def until(condition: Callable[[], Awaitable[T]], seconds: float = ...) -> T: ...


@overload
async def until(condition: Callable[[], T], seconds: float = ...) -> T: ...


async def until(condition: Callable[[], T | Awaitable[T]], seconds: float = PATIENCE_SECONDS) -> T:
    """Return what a condition, which may be awaited, says once that is true."""
    async with asyncio.timeout(seconds):
        while True:
            found = condition()
            said = await found if isinstance(found, Awaitable) else found
            if said:
                return said
            await asyncio.sleep(_PAUSE_SECONDS)


def wait_until(condition: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
    """Return what a condition says once that is true."""
    deadline = time.monotonic() + seconds
    while not (said := condition()):
        assert time.monotonic() < deadline, f"not so after {seconds} seconds"
        time.sleep(_PAUSE_SECONDS)
    return said
