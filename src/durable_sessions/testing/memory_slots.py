"""Numbered slots in memory that several logs can share; a test can make them lose, delay and lag."""

import asyncio
from collections.abc import Mapping

from durable_sessions.errors import LogMisconfiguredError
from durable_sessions.log.slots import SlotsFullError, SlotTakenError

SAFE: Mapping[str, object] = {"replicas": 3, "synced": True, "discards": "new"}
"""A configuration that loses nothing."""


class MemorySlots:
    """Frames by number; only the slot after the last one can be filled, and only once.

    ``lag`` is how many of the newest frames the next read does not show; each read lowers it by one.
    ``configuration`` says how the slots are stored. If a put raises anything but SlotTakenError or
    SlotsFullError, its outcome is unknown.
    """

    def __init__(self, begins_after: int = 0) -> None:
        self.frames: dict[int, bytes] = {}
        self.begins_after = self.floor = begins_after
        self.last = begins_after
        self.lag = 0
        self.full = False
        self.configuration: dict[str, object] = dict(SAFE)
        self.held = 0
        self._lost_requests = self._lost_answers = 0
        self._holds_arrival = self._holds_answer = False
        self._released = asyncio.Event()

    # What a test does to them ---------------------------------------------------------------

    def lose_requests(self, count: int) -> None:
        """Let the next puts time out without arriving."""
        self._lost_requests = count

    def lose_answers(self, count: int) -> None:
        """Let the next puts arrive, and then time out without an answer."""
        self._lost_answers = count

    def hold_request(self) -> None:
        """Delay the arrival of the next put until :meth:`release`."""
        self._holds_arrival = True
        self._released.clear()

    def hold_answer(self) -> None:
        """Let the next put arrive, and delay its answer until :meth:`release`."""
        self._holds_answer = True
        self._released.clear()

    def release(self) -> None:
        """Let everything that was held continue."""
        self._released.set()

    def forget(self, count: int) -> None:
        """Lose the newest frames, like a service that has lost its disks."""
        for _ in range(count):
            del self.frames[self.last]
            self.last -= 1

    @property
    def stored_bytes(self) -> int:
        """How many bytes all frames take."""
        return sum(map(len, self.frames.values()))

    # What a log does ------------------------------------------------------------------------

    @property
    def location(self) -> str:
        """Nowhere in particular."""
        return "memory"

    async def require_safe(self) -> None:
        """Refuse any other configuration than the safe one."""
        wrong = {key: value for key, value in self.configuration.items() if SAFE.get(key) != value}
        if wrong:
            raise LogMisconfiguredError(log=self.location, problem=f"{wrong} instead of {dict(SAFE)}")

    async def refresh(self) -> None:
        """Do nothing: what is known is what is there."""

    async def begin_at(self, address: int) -> None:
        """Begin after this address."""
        self.begins_after = self.floor = self.last = address

    async def close(self) -> None:
        """Do nothing: other logs may use these slots."""

    async def put(self, position: int, frame: bytes) -> None:
        """Fill the slot after the last one."""
        if self._holds_arrival:
            self._holds_arrival = False
            await self._hold()
        if self._lost_requests:
            self._lost_requests -= 1
            raise TimeoutError("no answer")
        if position != self.last + 1:
            raise SlotTakenError
        if self.full:
            raise SlotsFullError
        self.frames[position] = frame
        self.last = position
        if self._holds_answer:
            self._holds_answer = False
            await self._hold()
        if self._lost_answers:
            self._lost_answers -= 1
            raise TimeoutError("no answer")

    async def _hold(self) -> None:
        self.held += 1
        try:
            await self._released.wait()
        finally:
            self.held -= 1

    async def get(self, position: int) -> bytes | None:
        """Return the frame in a slot; None if the slot is empty."""
        return self.frames.get(position)

    async def frames_after(self, position: int) -> list[tuple[int, bytes]]:
        """Return the frames after a position in order, as a lagging replica may show them."""
        end = self.last - self.lag
        self.lag = max(0, self.lag - 1)
        return [(number, frame) for number, frame in sorted(self.frames.items()) if position < number <= end]

    async def trim(self, before: int) -> None:
        """Drop the frames before a position."""
        for number in [number for number in self.frames if number < before]:
            del self.frames[number]
        self.begins_after = max(self.begins_after, min(before - 1, self.last))
