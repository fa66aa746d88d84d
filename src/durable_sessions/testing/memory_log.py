"""A log in memory, for tests that want to decide when a batch becomes durable, fails, or is fenced."""

import asyncio
import secrets
from collections.abc import Callable, Sequence

from durable_sessions.errors import LogError
from durable_sessions.log.shared import PROOF_SECONDS, RESOLVE_SECONDS_MAX, SharedLog, boottime
from durable_sessions.log.shared_frame import (
    PAYLOAD_BYTES_MAX,
    FrameKind,
    FrameReader,
    SharedFrame,
    split,
)
from durable_sessions.testing.memory_slots import MemorySlots

__all__ = ["PROOF_SECONDS", "MemoryLog"]

_PAUSE_SECONDS = 0.002


class MemoryLog(SharedLog):
    """Keeps frames in slots; ``hold`` stops appends from returning, ``fail`` makes the next one fail.

    Logs with the same ``slots`` are the same log, opened several times. ``heard`` is the highest position
    that is known to have been acknowledged.
    """

    slots: MemorySlots

    def __init__(
        self,
        batches: Sequence[bytes] = (),
        *,
        slots: MemorySlots | None = None,
        heard: int = 0,
        payload_bytes_max: int = PAYLOAD_BYTES_MAX,
        resolve_seconds_max: float = RESOLVE_SECONDS_MAX,
        now: Callable[[], float] = boottime,
    ) -> None:
        super().__init__(
            slots or MemorySlots(),
            f"log_{secrets.token_hex(16)}",
            heard=heard,
            payload_bytes_max=payload_bytes_max,
            resolve_seconds_max=resolve_seconds_max,
            pause_seconds=_PAUSE_SECONDS,
            now=now,
        )
        # Unlike a log that a cluster makes, it is tied to its bucket by the first one who opens it.
        self.lineage, self.intended = None, self.lineage
        self._gate = asyncio.Event()
        self._gate.set()
        self._failure: LogError | None = None
        if self.slots.frames:
            first = SharedFrame.decode(self.slots.frames[min(self.slots.frames)])
            self.lineage, self.intended = first.lineage, None
        for batch in batches:
            self._prefill(batch)

    @property
    def batches(self) -> list[bytes]:
        """The batches in the log."""
        reader = self._reader()
        taken = [reader.take(*item) for item in sorted(self.slots.frames.items())]
        return [batch[1] for batch in taken if batch is not None]

    def begin_at(self, address: int) -> None:
        """Make a log that has never had a batch give out only positions greater than this address."""
        assert not self.slots.frames, "the log has its own positions already"
        self.slots.begins_after = self.slots.floor = self.slots.last = address

    async def intend(self, lineage: str) -> None:
        """Keep that the next manifest may carry this lineage."""
        assert lineage == self._name or not self.slots.frames, "a log never changes its lineage"
        self.intended = lineage

    async def tie(self, lineage: str) -> None:
        """Keep that a manifest carries this lineage."""
        assert lineage == self._name
        self.lineage, self.intended = lineage, None

    # What a test does to it -----------------------------------------------------------------

    def hold(self) -> None:
        """Let no append begin until :meth:`release`."""
        self._gate.clear()

    def release(self) -> None:
        """Let appends begin."""
        self._gate.set()

    def fail(self, reason: str) -> None:
        """Make the next append, and all after it, fail."""
        self.refuse(LogError(reason=reason))

    def refuse(self, error: LogError) -> None:
        """Make the next append, and all after it, fail with this error."""
        self._failure = error

    async def append(self, batch: bytes) -> int:
        """Make a batch durable, when the test allows it."""
        await self._gate.wait()
        if self._failure is not None:
            raise self._failure
        return await super().append(batch)

    def _prefill(self, batch: bytes) -> None:
        kinds = split(batch, self._payload_bytes_max)
        for kind, payload in kinds if self.slots.frames else [(FrameKind.CLAIM, b"before"), *kinds]:
            reader = self._reader()
            for item in sorted(self.slots.frames.items()):
                reader.take(*item)
            self.slots.last += 1
            self.slots.frames[self.slots.last] = self._encoded(kind, payload, reader)

    def _reader(self) -> FrameReader:
        """Return a reader of all frames; that of a trimmed log trusts the first."""
        trimmed = self.slots.begins_after != self.slots.floor
        return FrameReader(self.location, self._name, 0, self.begins_after, trimmed=trimmed)
