"""A log in memory, for tests that want to decide when a batch becomes durable, or fails."""

import asyncio
import math
import zlib
from collections.abc import AsyncIterator, Sequence

from durable_sessions.errors import LogError
from durable_sessions.log import Claimant, Extent


class MemoryLog:
    """Keeps batches in a list; ``hold`` stops syncs from returning, ``fail`` makes the next one fail."""

    def __init__(self, batches: list[bytes] | None = None) -> None:
        self.batches: list[bytes] = list(batches or [])
        self._gate = asyncio.Event()
        self._gate.set()
        self._failure: LogError | None = None
        self.lineage: str | None = None
        self.intended: str | None = None

    @property
    def location(self) -> str:
        """Nowhere in particular."""
        return "memory"

    @property
    def begins_after(self) -> int:
        """Nothing is ever dropped."""
        return 0

    @property
    def ends_at(self) -> int | None:
        """The number of the last batch, None if there is none."""
        return len(self.batches) or None

    def begin_at(self, address: int) -> None:
        """Refuse to begin anywhere else: positions are list indexes."""
        assert address == 0, "a log in memory begins with its bucket"

    async def intend(self, lineage: str) -> None:
        """Keep that the next manifest may carry this lineage."""
        self.intended = lineage

    async def tie(self, lineage: str) -> None:
        """Keep that a manifest carries this lineage."""
        self.lineage, self.intended = lineage, None

    async def checksum(self, position: int) -> int | None:
        """Return a checksum of the batch at a position, None if there is none."""
        return zlib.crc32(self.batches[position - 1]) if 0 < position <= len(self.batches) else None

    def hold(self) -> None:
        """Let no append return until :meth:`release`."""
        self._gate.clear()

    def release(self) -> None:
        """Let appends return."""
        self._gate.set()

    def fail(self, reason: str) -> None:
        """Make the next append, and all after it, fail."""
        self.refuse(LogError(reason=reason))

    def refuse(self, error: LogError) -> None:
        """Make the next append, and all after it, fail with this error."""
        self._failure = error

    @property
    def proven_until(self) -> float:
        """For ever: nobody else has this object."""
        return math.inf

    async def claim(self, by: Claimant) -> int:
        """Return where the log ends."""
        return len(self.batches)

    async def prove(self) -> None:
        """Do nothing."""

    async def append(self, batch: bytes) -> int:
        """Keep a batch; its position is its number, from 1."""
        await self._gate.wait()
        if self._failure is not None:
            raise self._failure
        self.batches.append(batch)
        return len(self.batches)

    async def replay(self, after: int = 0) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the batches after a position."""
        for position, batch in enumerate(self.batches, start=1):
            if position > after:
                yield position, batch

    async def read(self, extents: Sequence[Extent]) -> list[bytes]:
        """Return the bytes of each extent."""
        return [
            self.batches[extent.position - 1][extent.offset : extent.offset + extent.length]
            for extent in extents
        ]

    async def trim(self, through: int) -> None:
        """Keep everything: positions are list indexes."""

    async def close(self) -> None:
        """Do nothing."""
