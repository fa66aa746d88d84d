"""A log in memory, for tests that want to decide when a batch becomes durable, fails, or is fenced.

It is what a log does that several processes can reach: one conditional frame in flight, an unknown outcome
resolved by sending the same frame to the same slot again, and a proof that counts from the send.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence

from durable_sessions.errors import (
    LogError,
    LogFencedError,
    LogFullError,
    LogMisconfiguredError,
    LogRegressedError,
)
from durable_sessions.log import Claimant, Extent
from durable_sessions.log.shared_frame import (
    PAYLOAD_BYTES_MAX,
    FrameKind,
    FrameReader,
    SharedFrame,
    encode,
    split,
)
from durable_sessions.testing.memory_slots import SAFE, MemorySlots, SlotsFullError, SlotTakenError

PROOF_SECONDS = 3.0
"""How long after the send of an acknowledged frame nobody else acknowledges anything."""
RESOLVE_SECONDS_MAX = 10.0
"""How long the outcome of one frame is looked for."""
_PAUSE_SECONDS = 0.002


def boottime() -> float:
    """Return the seconds since the machine was started, those asleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class MemoryLog:
    """Keeps frames in slots; ``hold`` stops appends from returning, ``fail`` makes the next one fail.

    Logs with the same ``slots`` are the same log, opened several times. ``heard`` is the highest position
    that is known to have been acknowledged.
    """

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
        self.slots = slots or MemorySlots()
        self.lineage: str | None = None
        self.intended: str | None = f"log_{secrets.token_hex(16)}"
        self.proven_until = 0.0
        self._heard = heard
        self._payload_bytes_max = payload_bytes_max
        self._resolve_seconds_max = resolve_seconds_max
        self._now = now
        self._gate = asyncio.Event()
        self._gate.set()
        self._one = asyncio.Lock()
        self._tail: FrameReader | None = None
        self._stopped: LogError | None = LogFencedError(log="memory", problem="it was never claimed")
        self._failure: LogError | None = None
        if self.slots.frames:
            first = SharedFrame.decode(self.slots.frames[min(self.slots.frames)])
            self.lineage, self.intended = first.lineage, None
        for batch in batches:
            self._prefill(batch)

    @property
    def _name(self) -> str:
        name = self.lineage or self.intended
        assert name is not None, "a log has a lineage, or is to have one"
        return name

    @property
    def location(self) -> str:
        """Nowhere in particular."""
        return "memory"

    @property
    def begins_after(self) -> int:
        """The position before the oldest frame."""
        return self.slots.begins_after

    @property
    def ends_at(self) -> int | None:
        """The position of the last frame, None if there is none."""
        return self.slots.last if self.slots.frames else None

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

    async def checksum(self, position: int) -> int | None:
        """Return the checksum over all frames up to a position, None if there is no frame."""
        frame = self.slots.frames.get(position)
        return None if frame is None else SharedFrame.decode(frame).chain

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

    def _prefill(self, batch: bytes) -> None:
        kinds = split(batch, self._payload_bytes_max)
        for kind, payload in kinds if self.slots.frames else [(FrameKind.CLAIM, b"before"), *kinds]:
            reader = self._reader()
            for item in sorted(self.slots.frames.items()):
                reader.take(*item)
            self.slots.last += 1
            self.slots.frames[self.slots.last] = self._encoded(kind, payload, reader)

    # Owning ---------------------------------------------------------------------------------

    async def claim(self, by: Claimant) -> int:
        """Append a claim behind all frames that can be seen; its position is the partition epoch."""
        async with self._one:
            self._require_safe()
            self._tail, self._stopped = await self._caught_up(), None
            # The random bytes make each claim another frame, so that nobody takes a rival's for his own.
            payload = f"{secrets.token_hex(8)} {by.node} {by.name}".encode()
            return await self._write(FrameKind.CLAIM, payload)

    async def prove(self) -> None:
        """Append an empty frame, unless one was acknowledged while this call waited for its turn."""
        asked = self._now()
        async with self._one:
            if self._stopped is not None:
                raise self._stopped
            if self.proven_until <= asked + PROOF_SECONDS / 2:
                await self._write(FrameKind.PROOF, b"")

    def _require_safe(self) -> None:
        wrong = {key: value for key, value in self.slots.configuration.items() if SAFE.get(key) != value}
        if wrong:
            raise LogMisconfiguredError(log=self.location, problem=f"{wrong} instead of {dict(SAFE)}")
        if self.slots.last < self._heard:
            raise LogRegressedError(log=self.location, ends=self.slots.last, heard=self._heard)

    async def _caught_up(self) -> FrameReader:
        reader = self._reader()
        while found := await self.slots.frames_after(reader.position):
            for position, frame in found:
                reader.take(position, frame)
        return reader

    def _reader(self) -> FrameReader:
        """Return a reader of all frames; that of a trimmed log believes the first."""
        trimmed = self.slots.begins_after != self.slots.floor
        return FrameReader(self.location, self._name, 0, self.begins_after, trimmed=trimmed)

    # Appending ------------------------------------------------------------------------------

    async def append(self, batch: bytes) -> int:
        """Make a batch durable and return its position: that of its last part."""
        await self._gate.wait()
        if self._failure is not None:
            raise self._failure
        position = 0
        async with self._one:
            for kind, payload in split(batch, self._payload_bytes_max):
                position = await self._write(kind, payload)
        return position

    def _encoded(self, kind: FrameKind, payload: bytes, tail: FrameReader) -> bytes:
        epoch = tail.position + 1 if kind is FrameKind.CLAIM else tail.epoch
        return encode(kind, self._name, 0, epoch, tail.position, payload, tail.chain)

    async def _write(self, kind: FrameKind, payload: bytes) -> int:
        if self._stopped is not None:
            raise self._stopped
        assert self._tail is not None
        position, frame = self._tail.position + 1, self._encoded(kind, payload, self._tail)
        sent = self._now()
        try:
            await self._settle(position, frame)
        except LogError as error:
            self._stopped = error
            raise
        except BaseException:
            self._stopped = LogError(reason="an append was cancelled, and its outcome is unknown")
            raise
        self._tail.take(position, frame)
        self.proven_until = sent + PROOF_SECONDS
        return position

    async def _settle(self, position: int, frame: bytes) -> None:
        """Send a frame for its slot until it is known whether it is there."""
        loop = asyncio.get_running_loop()
        deadline, unanswered = loop.time() + self._resolve_seconds_max, False
        while True:
            try:
                return await self.slots.put(position, frame)
            except SlotTakenError:
                found = await self.slots.get(position)
                if found == frame:
                    return None
                if found is not None:
                    problem = f"position {position} is another's"
                    raise LogFencedError(log=self.location, problem=problem) from None
            except SlotsFullError:
                if not unanswered:  # else an earlier try may be there all the same
                    raise LogFullError(log=self.location, problem="no frame is taken") from None
            except TimeoutError:
                unanswered = True
            if loop.time() > deadline:
                raise LogError(reason=f"whether position {position} was taken is unknown")
            await asyncio.sleep(_PAUSE_SECONDS)

    # Reading --------------------------------------------------------------------------------

    async def replay(self, after: int = 0) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the batches after a position, up to the last frame of ours, or raise LogError."""
        end = self.slots.last if self._tail is None else self._tail.position
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._resolve_seconds_max
        reader, position = self._reader(), self.begins_after
        while position < end:
            for number, frame in await self.slots.frames_after(position):
                batch = reader.take(number, frame)
                position = number
                if batch is not None and after < position <= end:
                    yield batch
            if position < end:  # a replica that lags, never the end
                if loop.time() > deadline:
                    raise LogError(reason=f"frames after position {position} are missing up to {end}")
                await asyncio.sleep(_PAUSE_SECONDS)

    async def read(self, extents: Sequence[Extent]) -> list[bytes]:
        """Return the bytes of each extent, as they are in their frames."""
        return [self._extent(extent) for extent in extents]

    def _extent(self, extent: Extent) -> bytes:
        start = self._first_part(extent.position)
        frames = [self.slots.frames.get(number) for number in range(start, extent.position + 1)]
        payloads = [SharedFrame.decode(frame, verify=False).payload for frame in frames if frame is not None]
        data = b"".join(payloads)[extent.offset : extent.offset + extent.length]
        if len(payloads) != len(frames) or len(data) != extent.length:
            raise LogError(reason=f"it does not hold {extent.length} bytes at {extent.position}")
        return data

    def _first_part(self, position: int) -> int:
        """Return where the batch at a position begins."""
        if self._kind(position) is FrameKind.LAST_PART:
            while self._kind(position - 1) is FrameKind.PART:
                position -= 1
        return position

    def _kind(self, position: int) -> FrameKind | None:
        frame = self.slots.frames.get(position)
        return None if frame is None else SharedFrame.decode(frame, verify=False).kind

    async def trim(self, through: int) -> None:
        """Drop the batches before ``through``."""
        if self._stopped is not None:
            raise self._stopped
        await self.slots.trim(self._first_part(min(through, self.slots.last)))

    async def close(self) -> None:
        """Take nothing more until it is claimed again."""
        self._stopped = self._stopped or LogError(reason="it is closed")
