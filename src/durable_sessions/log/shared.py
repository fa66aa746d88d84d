"""A log that several processes can reach, on numbered slots in another system.

The other system decides who is first at a slot; everything else is here, and the same for every such system:
one conditional frame in flight, an unknown outcome resolved by sending the same frame to the same slot
again, claims that fence, and a proof that counts from the send.
"""

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

import structlog

from durable_sessions.durations import Durations
from durable_sessions.errors import (
    FrameDamagedError,
    LogError,
    LogFencedError,
    LogFullError,
    LogMisconfiguredError,
    LogRegressedError,
)
from durable_sessions.log import Claimant, Extent
from durable_sessions.log.shared_frame import (
    PAYLOAD_BYTES_MAX,
    BadFrameError,
    FrameKind,
    FrameReader,
    SharedFrame,
    encode,
    split,
)
from durable_sessions.log.slots import Slots, SlotsFullError, SlotTakenError

logger = structlog.get_logger(__name__)

T = TypeVar("T")

PROOF_SECONDS = 3.0
"""How long after the send of an acknowledged frame nobody else acknowledges anything."""
RESOLVE_SECONDS_MAX = 10.0
"""How long the outcome of one frame is looked for."""
PAUSE_SECONDS = 0.02
"""How long to wait before a slot, or a replica that lags, is looked at again."""
CLAIM_PAUSES_SECONDS = (0.02, 0.04, 0.08)
"""How long to wait before each further try of a claim that a frame of the last owner was faster than."""


PUBLISH_SECONDS_BOUNDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)


def always() -> bool:
    """Say yes: nothing but the log itself decides whether a claim is wanted."""
    return True


def boottime() -> float:
    """Return the seconds since the machine was started, those asleep included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class SharedLog:
    """A log of one partition on slots; ``lineage`` was given to it when its slots were made.

    ``heard`` is the highest position that anybody is known to have acknowledged: a log that ends before it
    has lost something, and is refused. ``wanted`` says whether a claim is still wanted; it is asked right
    before each try.
    """

    def __init__(
        self,
        slots: Slots,
        lineage: str,
        partition: int = 0,
        *,
        heard: int = 0,
        wanted: Callable[[], bool] = always,
        payload_bytes_max: int = PAYLOAD_BYTES_MAX,
        resolve_seconds_max: float = RESOLVE_SECONDS_MAX,
        proof_seconds: float = PROOF_SECONDS,
        pause_seconds: float = PAUSE_SECONDS,
        now: Callable[[], float] = boottime,
    ) -> None:
        self.slots: Slots = slots
        self.lineage: str | None = lineage
        self.intended: str | None = None
        self.partition = partition
        self.proven_until = 0.0
        self.bytes_written = self.syncs = self.resolved = 0
        self.publish_seconds = Durations(PUBLISH_SECONDS_BOUNDS)
        """How long frames took from their first send until they were acknowledged."""
        self.trim_failure: str | None = None
        self.trim_failures = 0
        self._heard = heard
        self._wanted = wanted
        self._payload_bytes_max = payload_bytes_max
        self._resolve_seconds_max = resolve_seconds_max
        self.proof_seconds = proof_seconds
        self._pause_seconds = pause_seconds
        self._now = now
        self._one = asyncio.Lock()
        self._begin: int | None = None
        self._tail: FrameReader | None = None
        self._stopped: LogError | None = LogFencedError(log=slots.location, problem="it was never claimed")

    @property
    def _name(self) -> str:
        name = self.lineage or self.intended
        assert name is not None, "a log has a lineage, or is to have one"
        return name

    @property
    def location(self) -> str:
        """Where the slots are."""
        return self.slots.location

    @property
    def begins_after(self) -> int:
        """The position before the oldest frame."""
        return self.slots.begins_after if self._begin is None else self._begin

    @property
    def ends_at(self) -> int | None:
        """The position of the last frame, None if there is none."""
        own = 0 if self._tail is None else self._tail.position
        last = max(self.slots.last, own)
        return None if last == self.begins_after else last

    @property
    def segment_bytes(self) -> int:
        """How many bytes the slots had when they were last looked at."""
        return self.slots.stored_bytes

    @property
    def segment_count(self) -> int:
        """No file: the frames are in slots."""
        return 0

    def begin_at(self, address: int) -> None:
        """Make a log that has never had a batch give out only positions greater than this address."""
        assert self.ends_at is None, "the log has its own positions already"
        self._begin = address

    async def intend(self, lineage: str) -> None:
        """Do nothing: the log has had its lineage from the beginning."""
        assert lineage == self._name, "a log never changes its lineage"

    async def tie(self, lineage: str) -> None:
        """Do nothing, as for :meth:`intend`."""
        assert lineage == self._name, "a log never changes its lineage"

    async def checksum(self, position: int) -> int | None:
        """Return the checksum over all frames up to a position, None if there is no frame."""
        frame = await self._frame(position)
        return None if frame is None else self._decoded(position, frame).chain

    # Owning ---------------------------------------------------------------------------------

    async def claim(self, by: Claimant) -> int:
        """Append a claim behind all frames that can be seen; its position is the partition epoch."""
        async with self._one:
            await self._require_safe()
            if self._begin is not None:
                await self._answered(self.slots.begin_at(self._begin))
                self._begin = None
            # The random bytes make each claim another frame, so that nobody takes a rival's for his own.
            payload = f"{secrets.token_hex(8)} {by.node} {by.name}".encode()
            tail, pauses = await self._caught_up(), iter(CLAIM_PAUSES_SECONDS)
            while True:
                self._require_wanted()  # each time: what came before may have taken long
                self._tail, self._stopped = tail, None
                try:
                    return await self._write(FrameKind.CLAIM, payload)
                except LogFencedError:
                    if (pause := next(pauses, None)) is None:
                        raise
                await asyncio.sleep(pause)
                tail = await self._caught_up()
                if tail.epoch != self._tail.epoch:
                    raise LogFencedError(log=self.location, problem="another has just claimed it")

    def _require_wanted(self) -> None:
        if not self._wanted():
            self._stopped = LogFencedError(log=self.location, problem="it is not to be claimed any more")
            raise self._stopped

    async def prove(self) -> None:
        """Append an empty frame, unless one was acknowledged while this call waited for its turn."""
        asked = self._now()
        async with self._one:
            if self._stopped is not None:
                raise self._stopped
            if self.proven_until <= asked + self.proof_seconds / 2:
                await self._write(FrameKind.PROOF, b"")

    async def give_up(self, to: str) -> None:
        """Give the log up: nothing of ours follows, so a successor need not wait for our proof to end."""
        async with self._one:
            await self._write(FrameKind.RELEASE, to.encode())
            self.proven_until = 0.0
            self._stopped = LogFencedError(log=self.location, problem=f"it was released to {to}")

    async def require_safe(self) -> None:
        """Check how the slots are kept; if that can lose data, nothing more is taken."""
        try:
            await self._require_safe()
        except (LogMisconfiguredError, LogRegressedError) as error:
            self._stopped = error
            raise

    async def _require_safe(self) -> None:
        await self._answered(self.slots.require_safe())
        # Before the end is asked for: a frame that is acknowledged meanwhile need not be in the answer.
        known = self._heard if self._tail is None else max(self._heard, self._tail.position)
        await self._answered(self.slots.refresh())
        if self.slots.last < known:
            raise LogRegressedError(log=self.location, ends=self.slots.last, heard=known)

    async def _caught_up(self) -> FrameReader:
        """Read all frames that can be seen, and check them."""
        while True:
            reader = self._reader()
            try:
                while found := await self._answered(self.slots.frames_after(reader.position)):
                    for position, frame in found:
                        reader.take(position, frame)
                return reader
            except FrameDamagedError:
                # Its owner may have trimmed the log meanwhile: then the frames are not damaged, but gone.
                begins_after = self.begins_after
                await self._answered(self.slots.refresh())
                if self.begins_after <= begins_after:
                    raise

    def _reader(self) -> FrameReader:
        """Return a reader of all frames; it trusts the first, which the manifest can prove."""
        return FrameReader(self.location, self._name, self.partition, self.begins_after, trimmed=True)

    # Appending ------------------------------------------------------------------------------

    async def append(self, batch: bytes) -> int:
        """Make a batch durable and return its position: that of its last part."""
        position = 0
        async with self._one:
            for kind, payload in split(batch, self._payload_bytes_max):
                position = await self._write(kind, payload)
        return position

    def _encoded(self, kind: FrameKind, payload: bytes, tail: FrameReader) -> bytes:
        epoch = tail.position + 1 if kind is FrameKind.CLAIM else tail.epoch
        return encode(kind, self._name, self.partition, epoch, tail.position, payload, tail.chain)

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
        # From the first send, not from the answer: a successor waits from when it saw the frame, and the
        # frame may have been there long before its answer came.
        self.proven_until = sent + self.proof_seconds
        self.publish_seconds.add(self._now() - sent)
        self.syncs += 1
        self.bytes_written += len(frame)
        return position

    async def _settle(self, position: int, frame: bytes) -> None:
        """Send a frame for its slot until it is known whether it is there.

        All tries are equal and at most one frame can take a slot, so it does not matter which try arrives.
        """
        loop = asyncio.get_running_loop()
        deadline, unanswered = loop.time() + self._resolve_seconds_max, False
        while True:
            try:
                return await self.slots.put(position, frame)
            except SlotTakenError:
                if await self._is_ours(position, frame, sent_before=unanswered):
                    self.resolved += 1
                    return None
            except SlotsFullError:
                if not unanswered:  # else an earlier try may be there all the same
                    raise LogFullError(log=self.location, problem="no frame is taken") from None
            except TimeoutError:
                unanswered = True
            if loop.time() > deadline:
                raise LogError(reason=f"whether position {position} was taken is unknown")
            await asyncio.sleep(self._pause_seconds)

    async def _is_ours(self, position: int, frame: bytes, *, sent_before: bool) -> bool:
        """Say whether our frame has its slot; False if that cannot be seen yet, fenced if another has it."""
        try:
            found = await self.slots.get(position)
            if found is None:
                await self.slots.refresh()
        except TimeoutError:
            return False
        if found == frame:
            return True
        if found is not None:
            raise LogFencedError(log=self.location, problem=f"position {position} is another's") from None
        if position <= self.slots.begins_after:
            # Another has claimed the log, flushed and trimmed. If an earlier try of ours had no answer, it
            # may have been there before that claim.
            problem = f"position {position} is trimmed, and the log begins after {self.slots.begins_after}"
            if sent_before:
                raise LogError(reason=problem) from None
            raise LogFencedError(log=self.location, problem=problem) from None
        return False

    # Reading --------------------------------------------------------------------------------

    async def replay(self, after: int = 0) -> AsyncIterator[tuple[int, bytes]]:
        """Yield the batches after a position, up to the last frame of ours, or raise LogError."""
        end = self.slots.last if self._tail is None else self._tail.position
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._resolve_seconds_max
        reader = self._reader()
        while reader.position < end:
            found = await self._answered(self.slots.frames_after(reader.position))
            for position, frame in found:
                batch = reader.take(position, frame)
                if batch is not None and after < position <= end:
                    yield batch
            if found:
                deadline = loop.time() + self._resolve_seconds_max
            elif loop.time() > deadline:
                missing = f"frames after position {reader.position} are missing up to {end}"
                raise LogError(reason=missing)
            else:  # a replica that lags, never the end
                await asyncio.sleep(self._pause_seconds)

    async def read(self, extents: Sequence[Extent]) -> list[bytes]:
        """Return the bytes of each extent, as they are in their frames."""
        return [await self._extent(extent) for extent in extents]

    async def _extent(self, extent: Extent) -> bytes:
        data = b"".join([part async for part in self._parts(extent.position)][::-1])
        found = data[extent.offset : extent.offset + extent.length]
        if len(found) != extent.length:
            raise LogError(reason=f"it does not hold {extent.length} bytes at {extent.position}")
        return found

    async def _parts(self, position: int) -> AsyncIterator[bytes]:
        """Yield the payloads of the batch at a position, the last part first."""
        frame = await self._kept(position)
        if frame is None:
            return
        yield frame.payload
        if frame.kind is FrameKind.LAST_PART:
            part = await self._kept(frame.before)
            while part is not None and part.kind is FrameKind.PART:
                yield part.payload
                part = await self._kept(part.before)

    async def _first_part(self, position: int) -> int:
        """Return where the batch at a position begins."""
        return position - len([part async for part in self._parts(position)]) + 1

    async def _kept(self, position: int) -> SharedFrame | None:
        frame = await self._frame(position)
        return None if frame is None else self._decoded(position, frame)

    def _decoded(self, position: int, frame: bytes) -> SharedFrame:
        try:
            return SharedFrame.decode(frame)
        except BadFrameError as error:
            raise FrameDamagedError(log=self.location, position=position, problem=str(error)) from None

    async def _frame(self, position: int) -> bytes | None:
        return await self._answered(self.slots.get(position))

    async def _answered(self, call: Awaitable[T]) -> T:
        try:
            return await call
        except TimeoutError as error:
            raise LogError(reason=f"{self.location} does not answer: {error}") from error

    def begin_file(self) -> None:
        """Do nothing: batches are not in files."""

    async def trim(self, through: int) -> None:
        """Drop the batches before ``through``; if that fails it is tried again with the next flush."""
        if self._stopped is not None:
            raise self._stopped
        try:
            await self.slots.trim(await self._first_part(min(through, self.ends_at or 0)))
        except (TimeoutError, LogError) as error:
            self.trim_failures += 1
            self.trim_failure = str(error)
            logger.warning("log_not_trimmed", log=self.location, reason=str(error))
        else:
            self.trim_failure = None

    async def close(self) -> None:
        """Take nothing more until it is claimed again."""
        self._stopped = self._stopped or LogError(reason="it is closed")
        await self.slots.close()
