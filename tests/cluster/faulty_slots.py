"""Slots of a real server whose requests and answers can be lost, held or hidden on the way."""

import asyncio
from dataclasses import dataclass, field

from durable_sessions.log.slots import Slots


@dataclass
class SlotFaults:
    """What happens to the next requests of all logs of one test."""

    lost_requests: int = 0
    lost_answers: int = 0
    lag: int = 0
    holds_request: bool = False
    holds_answer: bool = False
    held: int = 0
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def hold(self) -> None:
        self.held += 1
        try:
            await self.released.wait()
        finally:
            self.held -= 1


class FaultySlots:
    """The slots ``inner``, reached over a way that fails as ``faults`` says."""

    def __init__(self, inner: Slots, faults: SlotFaults) -> None:
        self._inner = inner
        self._faults = faults

    @property
    def begins_after(self) -> int:
        return self._inner.begins_after

    @begins_after.setter
    def begins_after(self, position: int) -> None:
        self._inner.begins_after = position

    @property
    def last(self) -> int:
        return self._inner.last

    @last.setter
    def last(self, position: int) -> None:
        self._inner.last = position

    @property
    def stored_bytes(self) -> int:
        return self._inner.stored_bytes

    @property
    def location(self) -> str:
        return self._inner.location

    async def require_safe(self) -> None:
        await self._inner.require_safe()

    async def refresh(self) -> None:
        await self._inner.refresh()

    async def begin_at(self, address: int) -> None:
        await self._inner.begin_at(address)

    async def put(self, position: int, frame: bytes) -> None:
        faults = self._faults
        if faults.holds_request:
            faults.holds_request = False
            await faults.hold()
        if faults.lost_requests:
            faults.lost_requests -= 1
            raise TimeoutError("no answer")
        await self._inner.put(position, frame)
        if faults.holds_answer:
            faults.holds_answer = False
            await faults.hold()
        if faults.lost_answers:
            faults.lost_answers -= 1
            raise TimeoutError("no answer")

    async def get(self, position: int) -> bytes | None:
        return await self._inner.get(position)

    async def frames_after(self, position: int) -> list[tuple[int, bytes]]:
        found = await self._inner.frames_after(position)
        if self._faults.lag:
            await self._inner.refresh()
            end = self._inner.last - self._faults.lag
            self._faults.lag -= 1
            found = [(number, frame) for number, frame in found if number <= end]
        return found

    async def trim(self, before: int) -> None:
        await self._inner.trim(before)

    async def close(self) -> None:
        await self._inner.close()
