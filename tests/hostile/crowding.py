"""Many connections at once."""

import asyncio
import resource
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from tests.hostile.arena import Arena
from tests.hostile.stranger import Stranger

_OWN_FILES = 300


@asynccontextmanager
async def strangers(
    arena: Arena, count: int, receive_buffer_bytes: int | None = None
) -> AsyncIterator[list[Stranger]]:
    """Connect many at once."""
    async with AsyncExitStack() as stack:
        connected = await asyncio.gather(
            *(Stranger.connect(arena.port, receive_buffer_bytes) for _ in range(count))
        )
        for stranger in connected:
            stack.callback(stranger.close)
        yield connected


def most_connections(wanted: int) -> int:
    """Return how many connections this process can hold, after raising its limit as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY:
        soft = wanted + _OWN_FILES if hard == resource.RLIM_INFINITY else min(wanted + _OWN_FILES, hard)
        resource.setrlimit(
            resource.RLIMIT_NOFILE, (max(soft, resource.getrlimit(resource.RLIMIT_NOFILE)[0]), hard)
        )
    return min(wanted, soft - _OWN_FILES) if soft != resource.RLIM_INFINITY else wanted
