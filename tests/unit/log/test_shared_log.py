"""A shared log whose end is asked for while it grows."""

import asyncio

import pytest

from durable_sessions.log import Claimant
from durable_sessions.testing.memory_log import MemoryLog
from durable_sessions.testing.memory_slots import MemorySlots

pytestmark = pytest.mark.anyio


class SlowSlots(MemorySlots):
    """Slots whose answer about their end is on its way for as long as ``is_slow``."""

    is_slow = False

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.arrives = asyncio.Event(), asyncio.Event()

    async def refresh(self) -> None:
        await super().refresh()
        if self.is_slow:
            last = self.last
            self.asked.set()
            await self.arrives.wait()
            self.last = last


async def test_a_frame_that_is_acknowledged_while_the_end_is_asked_for_is_not_missed() -> None:
    slots = SlowSlots()
    log = MemoryLog(slots=slots, payload_bytes_max=1000, now=lambda: 1000.0)
    await log.claim(Claimant("a"))
    await log.append(b"before")
    slots.is_slow = True
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(log.require_safe())
        await slots.asked.wait()
        position = await log.append(b"meanwhile")
        slots.arrives.set()
    assert slots.last < position, "the answer is older than the frame, and that is no loss"
