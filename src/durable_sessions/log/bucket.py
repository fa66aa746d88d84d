"""The slots of a log in an object store: an object for each frame, created only if it is absent.

S3 decides who is first at a number. What it cannot say is that a number was used and its object removed
since: a process that slept through the claim of another, and through the trim after it, would find the next
number free again. So an object stays for a while after it was created, and who has not looked at the slots
for half of that time looks again before it creates one.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeVar

from durable_sessions.errors import (
    BucketError,
    BucketRefusedError,
    LogMisconfiguredError,
    ObjectDamagedError,
    ObjectExistsError,
    ObjectNotFoundError,
)
from durable_sessions.log.shared import boottime
from durable_sessions.log.slots import SlotTakenError

KEPT_SECONDS = 120.0
"""How long an object stays at least, whatever is trimmed."""
PUT_SECONDS_MAX = 5.0
"""How long one create may take before the same one is tried again."""
CALL_SECONDS_MAX = 10.0
READS_AT_A_TIME = 32
_DIGITS = 20

T = TypeVar("T")


class Objects(Protocol):
    """The operations of an object store that a log needs; each is tried once, and honours its condition."""

    async def create(self, path: str, data: bytes) -> None:
        """Create an object durably, or raise ObjectExistsError; of concurrent callers exactly one wins."""
        ...

    async def get(self, path: str) -> bytes:
        """Return an object's content, or raise ObjectNotFoundError."""
        ...

    async def delete(self, paths: Sequence[str]) -> None:
        """Remove objects; missing ones are ignored."""
        ...

    async def list(self, prefix: str, *, after: str = "") -> Sequence[tuple[str, int, int]]:
        """Return path, size and time of change of the objects under a prefix behind ``after``, by path."""
        ...


class BucketSlots:
    """Objects ``<prefix>/<20 digits>``; ``probe`` raises if the store does not honour conditions.

    ``floor`` is a position that is known to be flushed: what lies before it is of no interest any more, and
    may be what a create left that arrived much too late.
    """

    def __init__(
        self,
        objects: Objects,
        prefix: str,
        *,
        floor: int = 0,
        probe: Callable[[], Awaitable[None]] | None = None,
        kept_seconds: float = KEPT_SECONDS,
        now: Callable[[], float] = boottime,
    ) -> None:
        self.begins_after = self.last = self.stored_bytes = 0
        self._objects = objects
        self._prefix = prefix
        self._floor = floor
        self._probe = probe
        self._kept_seconds = kept_seconds
        self._now = now
        self._looked_at = -kept_seconds
        self._name = re.compile(rf"{re.escape(prefix)}/(\d{{{_DIGITS}}})", re.ASCII)

    @property
    def location(self) -> str:
        """The folder of the objects, for messages to people."""
        return f"{self._prefix}/ of the bucket"

    def path(self, position: int) -> str:
        """Return the path of the frame at a position."""
        return f"{self._prefix}/{position:0{_DIGITS}d}"

    async def require_safe(self) -> None:
        """Refuse a store that does not honour conditions."""
        if self._probe is not None:
            try:
                await _answered(self._probe(), CALL_SECONDS_MAX)
            except BucketRefusedError as error:
                raise LogMisconfiguredError(log=self.location, problem=str(error)) from error

    async def refresh(self) -> None:
        """List the objects, to know where they begin and end."""
        self._note([position for position, _ in await self._listed()])

    async def begin_at(self, address: int) -> None:
        """Begin after this address; the first frame, which is the next to be created, keeps it for all."""
        await self.refresh()
        if self.last == self.begins_after:
            self.begins_after = self.last = address

    async def put(self, position: int, frame: bytes) -> None:
        """Create the object of a position, and make sure that it was not created and removed before."""
        if self._now() - self._looked_at > self._kept_seconds / 2:
            await self._require_next(position, frame)
        asked = self._now()
        try:
            await _answered(self._objects.create(self.path(position), frame), PUT_SECONDS_MAX)
        except ObjectExistsError:
            raise SlotTakenError from None
        # Whoever had been first at this number would have left its object there for at least that long.
        if self._now() - self._looked_at >= self._kept_seconds:
            await self._require_last(position)
        self._looked_at = asked
        self.last = max(self.last, position)

    async def get(self, position: int) -> bytes | None:
        """Return the frame at a position."""
        try:
            return await _answered(self._objects.get(self.path(position)), CALL_SECONDS_MAX)
        except ObjectNotFoundError:
            return None

    async def frames_after(self, position: int) -> list[tuple[int, bytes]]:
        """Return the next frames, a number of them at a time."""
        # Only what is new is listed: the objects before it stay for a while after they were trimmed.
        found = await self._objects_after(max(position, self._floor - 1))
        later = [number for number, _, _ in found[:READS_AT_A_TIME]]
        frames = await asyncio.gather(*(self.get(number) for number in later))
        return [(number, frame) for number, frame in zip(later, frames, strict=True) if frame is not None]

    async def trim(self, before: int) -> None:
        """Forget the frames before a position, and remove those that are old enough, oldest first."""
        listed = await self._objects_listed()
        newest_ms = max((modified for _, modified in listed), default=0)
        old_ms = newest_ms - self._kept_seconds * 1000  # by the clock of the store alone
        old = [number for number, modified in listed if number < before and modified <= old_ms]
        if old:
            await _answered(self._objects.delete([self.path(number) for number in old]), CALL_SECONDS_MAX)
        if before <= self.last:
            self._floor = max(self._floor, before)
            self.begins_after = max(self.begins_after, before - 1)

    async def close(self) -> None:
        """Do nothing: the bucket belongs to the process."""

    async def _require_next(self, position: int, frame: bytes) -> None:
        """Make sure that a slot is the next one, or that what is there can be compared with our frame."""
        asked = self._now()
        numbers = [number for number, _ in await self._listed()]
        if not numbers or numbers[-1] < position:
            self._looked_at = asked
            return
        is_joined = (
            position in numbers and numbers[-1] - position == len(numbers) - numbers.index(position) - 1
        )
        if not is_joined and await self.get(position) == frame:
            # An earlier try of ours came after another had used this number and trimmed it.
            await _answered(self._objects.delete([self.path(position)]), CALL_SECONDS_MAX)
        raise SlotTakenError

    async def _require_last(self, position: int) -> None:
        """After a create that took too long: the number may have been used and removed meanwhile."""
        numbers = [number for number, _ in await self._listed()]
        if numbers[-1] > position:
            await _answered(self._objects.delete([self.path(position)]), CALL_SECONDS_MAX)
            raise SlotTakenError

    def _note(self, numbers: list[int]) -> None:
        if numbers:
            self.begins_after, self.last = numbers[0] - 1, numbers[-1]

    async def _listed(self) -> list[tuple[int, int]]:
        """Return the numbers of the frames that count, with the time at which each was created, in order."""
        return [found for found in await self._objects_listed() if found[0] >= self._floor]

    async def _objects_listed(self) -> list[tuple[int, int]]:
        found = await self._objects_after(-1)
        self.stored_bytes = sum(size for _, size, _ in found)
        return [(number, modified) for number, _, modified in found]

    async def _objects_after(self, position: int) -> list[tuple[int, int, int]]:
        """Return number, size and time of change of the objects after a position, in order."""
        after = "" if position < 0 else self.path(position)
        listed = await _answered(self._objects.list(self._prefix, after=after), CALL_SECONDS_MAX)
        found = [(self._name.fullmatch(path), size, modified) for path, size, modified in listed]
        return [(int(match[1]), size, modified) for match, size, modified in found if match]


async def _answered(call: Awaitable[T], seconds: float) -> T:
    """Return what a call returns; TimeoutError if the store failed, after which its outcome is unknown."""
    try:
        async with asyncio.timeout(seconds):
            return await call
    except (BucketError, ObjectDamagedError) as error:
        raise TimeoutError(str(error)) from error
