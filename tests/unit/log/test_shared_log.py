"""A shared log whose end is asked for, or which is claimed, while it grows."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from durable_sessions.errors import LogFencedError
from durable_sessions.log import Claimant
from durable_sessions.log.shared import SharedLog, always
from durable_sessions.log.shared_frame import FrameKind, SharedFrame
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


class BusySlots(MemorySlots):
    """Slots on which something happens whenever all frames were read, and before the next one is put."""

    def __init__(self) -> None:
        super().__init__()
        self.turns: list[Callable[[], Awaitable[object]]] = []

    async def put(self, position: int, frame: bytes) -> None:
        if self.turns and SharedFrame.decode(frame).kind is FrameKind.CLAIM:
            await self.turns.pop(0)()
        await super().put(position, frame)

    @property
    def kinds(self) -> list[FrameKind]:
        return [SharedFrame.decode(frame).kind for frame in self.frames.values()]


def shared(slots: MemorySlots, wanted: Callable[[], bool] = always) -> SharedLog:
    """Return the log of these slots as one more process has it."""
    return SharedLog(slots, "log_" + "5" * 32, wanted=wanted, pause_seconds=0.002)


async def test_a_claim_that_was_not_fast_enough_is_tried_again() -> None:
    slots = BusySlots()
    owner, rival = shared(slots), shared(slots)
    await owner.claim(Claimant("owner"))
    slots.turns = [lambda: owner.append(b"still"), lambda: owner.append(b"alive"), owner.prove]
    assert await rival.claim(Claimant("rival")) == slots.last
    assert not slots.turns, "it was tried four times"
    assert slots.kinds[-1] is FrameKind.CLAIM
    with pytest.raises(LogFencedError):
        await owner.append(b"too late")
    assert [batch async for _, batch in rival.replay()] == [b"still", b"alive"]


async def test_a_claim_is_not_tried_for_ever() -> None:
    slots = BusySlots()
    owner, rival = shared(slots), shared(slots)
    await owner.claim(Claimant("owner"))
    slots.turns = [lambda: owner.append(b"alive")] * 4
    with pytest.raises(LogFencedError):
        await rival.claim(Claimant("rival"))
    assert slots.kinds == [FrameKind.CLAIM, *[FrameKind.BATCH] * 4]
    await owner.append(b"and goes on")


async def test_a_claim_does_not_follow_one_that_was_faster() -> None:
    slots = BusySlots()
    first, second = shared(slots), shared(slots)
    slots.turns = [lambda: first.claim(Claimant("first"))]
    with pytest.raises(LogFencedError, match="another has just claimed it"):
        await second.claim(Claimant("second"))
    assert slots.kinds == [FrameKind.CLAIM]
    with pytest.raises(LogFencedError):
        await second.append(b"refused")
    await first.append(b"taken")


async def test_a_claim_that_is_not_wanted_any_more_is_not_made() -> None:
    slots = BusySlots()
    owner = shared(slots)
    await owner.claim(Claimant("owner"))
    answers = [False]
    late = shared(slots, lambda: answers.pop(0))
    with pytest.raises(LogFencedError, match="not to be claimed any more"):
        await late.claim(Claimant("late"))
    answers = [True, False]
    slots.turns = [lambda: owner.append(b"alive")]
    with pytest.raises(LogFencedError, match="not to be claimed any more"):
        await late.claim(Claimant("late"))
    assert not answers, "it was asked before each try"
    assert slots.kinds == [FrameKind.CLAIM, FrameKind.BATCH]
    with pytest.raises(LogFencedError):
        await late.append(b"refused")
