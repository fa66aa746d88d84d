"""The file log and the memory log pass the suite for logs, and the suite finds what is wrong with others."""

import asyncio
from collections.abc import AsyncIterator
from typing import ClassVar

import pytest

from durable_sessions.errors import LogError, LogFencedError
from durable_sessions.log.shared_frame import BadFrameError, FrameKind, FrameReader, SharedFrame
from durable_sessions.log.slots import SlotTakenError
from durable_sessions.testing.log_suite import CASES, LogCase, LogHarness, LogSuiteError
from durable_sessions.testing.memory_log import PROOF_SECONDS, MemoryLog
from durable_sessions.testing.memory_slots import MemorySlots
from tests.unit.log.harnesses import FileHarness, MemoryHarness

pytestmark = pytest.mark.anyio

BY_NAME = {case.name: case for case in CASES}


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_the_memory_log_passes_every_case(case: LogCase) -> None:
    assert await case.check(MemoryHarness()) is None


@pytest.mark.parametrize("case", CASES, ids=str)
async def test_the_file_log_passes_every_case_that_can_apply(case: LogCase) -> None:
    assert await case.check(FileHarness()) == FileHarness.inapplicable.get(case.name)


@pytest.mark.parametrize("harness", [FileHarness, MemoryHarness])
def test_what_is_declared_not_to_apply_is_a_case(harness: type[LogHarness]) -> None:
    assert harness.inapplicable.keys() <= BY_NAME.keys()


# Planted ------------------------------------------------------------------------------------


class BackwardReplay(MemoryLog):
    async def replay(self, after: int = 0) -> AsyncIterator[tuple[int, bytes]]:
        for batch in reversed([batch async for batch in super().replay(after)]):
            yield batch


class PartsAsBatches(MemoryLog):
    async def replay(self, after: int = 0) -> AsyncIterator[tuple[int, bytes]]:
        kinds = (FrameKind.BATCH, FrameKind.PART, FrameKind.LAST_PART)
        for position, frame in sorted(self.slots.frames.items()):
            decoded = SharedFrame.decode(frame)
            if position > after and decoded.kind in kinds:
                yield position, decoded.payload


class TrimsTheBatchToo(MemoryLog):
    async def trim(self, through: int) -> None:
        await super().trim(through + 1)


class PutsAnywhere(MemorySlots):
    """Slots without a condition: whatever comes goes behind the last."""

    async def put(self, position: int, frame: bytes) -> None:
        try:
            await super().put(position, frame)
        except SlotTakenError:
            await super().put(self.last + 1, frame)


class Unconditional(MemoryLog):
    async def _settle(self, position: int, frame: bytes) -> None:
        self.slots.__class__ = PutsAnywhere
        await super()._settle(position, frame)


class CallsUnknownFenced(MemoryLog):
    async def _settle(self, position: int, frame: bytes) -> None:
        try:
            await self.slots.put(position, frame)
        except (TimeoutError, SlotTakenError):
            raise LogFencedError(log="memory", problem="no answer") from None


class TakesSilenceForConsent(MemoryLog):
    async def _settle(self, position: int, frame: bytes) -> None:
        try:
            await self.slots.put(position, frame)
        except TimeoutError:
            return


class RetriesInTheNextSlot(MemoryLog):
    async def append(self, batch: bytes) -> int:
        try:
            self._resolve_seconds_max = -1.0
            return await super().append(batch)
        except LogError as error:
            if isinstance(error, LogFencedError):
                raise
            self._tail, self._stopped = await self._caught_up(), None
            return await super().append(batch)


class ProvesFromTheAnswer(MemoryLog):
    async def append(self, batch: bytes) -> int:
        position = await super().append(batch)
        self.proven_until = self._now() + PROOF_SECONDS
        return position


class ProvesForEachCaller(MemoryLog):
    async def prove(self) -> None:
        async with self._one:
            await self._write(FrameKind.PROOF, b"")


class EndsWhereAReplicaEnds(MemoryLog):
    async def replay(self, after: int = 0) -> AsyncIterator[tuple[int, bytes]]:
        reader = self._reader()
        for position, frame in await self.slots.frames_after(self.begins_after):
            batch = reader.take(position, frame)
            if batch is not None and position > after:
                yield batch


class AsksNothingOfItsSlots(MemoryLog):
    async def _require_safe(self) -> None:
        pass


class CarelessReader(FrameReader):
    def take(self, position: int, data: bytes) -> tuple[int, bytes] | None:
        try:
            frame = SharedFrame.decode(data, verify=False)
        except BadFrameError:
            self.position = position
            return None
        self.position, self.chain, self.epoch = position, frame.chain, frame.epoch
        return (position, frame.payload) if frame.kind is FrameKind.BATCH else None


class ChecksNothing(MemoryLog):
    def _reader(self) -> FrameReader:
        return CarelessReader("memory", self._name, 0, self.begins_after)


class GoesOnAfterAFailure(MemoryLog):
    async def append(self, batch: bytes) -> int:
        self._resolve_seconds_max, self._stopped = -1.0, None
        return await super().append(batch)


class AppendsUnclaimed(MemoryLog):
    async def append(self, batch: bytes) -> int:
        if self._tail is None:
            self._tail, self._stopped = await self._caught_up(), None
            await self._write(FrameKind.CLAIM, b"quietly")
        return await super().append(batch)


PLANTED: list[tuple[type[MemoryLog], str, str]] = [
    (BackwardReplay, "order", "a replay does not give the batches in their order"),
    (PartsAsBatches, "parts", "batches have other lengths"),
    (TrimsTheBatchToo, "trim", "the log begins after"),
    (Unconditional, "fence", "an append was acknowledged"),
    (Unconditional, "fence_in_flight", "a batch behind another's claim was acknowledged"),
    (AppendsUnclaimed, "unclaimed", "an append was acknowledged"),
    (CallsUnknownFenced, "unknown_answer_lost", "LogFencedError means certainly not there, but it is"),
    (TakesSilenceForConsent, "unknown_request_lost", "an acknowledged batch is there 0 times"),
    (RetriesInTheNextSlot, "unknown_answer_lost", "an acknowledged batch is there 2 times"),
    (
        GoesOnAfterAFailure,
        "unknown_request_lost",
        "the log took an append after one whose outcome it did not know",
    ),
    (ProvesFromTheAnswer, "proof_from_send", "but it was sent before"),
    (ProvesForEachCaller, "proof_shared", "5 who asked at a time took 5 frames"),
    (EndsWhereAReplicaEnds, "lagging_replica", "4 of 5 batches"),
    (AsksNothingOfItsSlots, "wrong_configuration", "wrong configuration went unnoticed"),
    (AsksNothingOfItsSlots, "regressed_tail", "newest frames went unnoticed"),
    (ChecksNothing, "rot", "byte 0 of a frame went unnoticed"),
    (ChecksNothing, "misplaced_frame", "another's place went unnoticed"),
    (ChecksNothing, "missing_frame", "missing frame went unnoticed"),
]


@pytest.mark.parametrize(
    ("planted", "name", "problem"),
    PLANTED,
    ids=[f"{planted.__name__}-{name}" for planted, name, _ in PLANTED],
)
async def test_a_planted_fault_is_found_by_the_case_for_it(
    planted: type[MemoryLog], name: str, problem: str
) -> None:
    with pytest.raises(LogSuiteError, match=problem):
        await asyncio.wait_for(BY_NAME[name].check(MemoryHarness(planted)), 60)


# The harness --------------------------------------------------------------------------------


class SaysNothing(MemoryHarness):
    lag = LogHarness.lag


class ExcusesItself(MemoryHarness):
    inapplicable: ClassVar[dict[str, str]] = {"order": "it is hard", "rot": " "}


@pytest.mark.parametrize(
    ("harness", "name", "problem"),
    [
        (SaysNothing, "lagging_replica", "needs lag, which the harness does not offer"),
        (ExcusesItself, "order", "applies to every log"),
        (ExcusesItself, "rot", "without a reason"),
    ],
)
async def test_no_case_is_left_out_silently(harness: type[LogHarness], name: str, problem: str) -> None:
    with pytest.raises(LogSuiteError, match=problem):
        await BY_NAME[name].check(harness())
