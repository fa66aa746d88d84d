"""The frame of the Hypothesis machines that compare an engine on a faulty disk with a simple model."""

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Collection
from pathlib import Path
from typing import Generic, Protocol, Self, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from durable_sessions.clock import ManualClock
from durable_sessions.errors import BucketError, DurableSessionsError
from durable_sessions.ids import RandomIds
from durable_sessions.limits import Limits
from durable_sessions.log.file import FileLog
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.storage.partition import Partition
from durable_sessions.storage.retention import NO_RETENTION, Retention
from durable_sessions.testing.disk import FaultyDisk
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.catalog_rebuild import NamesOf, no_names
from durable_sessions.tier.maintenance import Maintenance
from tests.unit.storage.store import MemoryStore

DIRECTORY = Path("/log")

Answer = tuple[object, ...]
Operation = Callable[[], Awaitable[Answer]]


class CopyableModel(Protocol):
    """A model of what the engine holds."""

    def copy(self) -> Self:
        """Return a model that changes apart from this one."""
        ...


M = TypeVar("M", bound=CopyableModel)


class EngineBesideModel(RuleBasedStateMachine, Generic[M]):
    """An engine that is opened, flushed, cut off and opened again; subclasses have the operations.

    An operation is a tuple: the name of a method that returns its step, and the method's arguments. A step is
    the call of the engine, and what the model answers to it.
    """

    segment_bytes_max = 400
    names_of: NamesOf = staticmethod(no_names)

    def __init__(self, model: M) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.model = model
        self.clock = ManualClock()
        self.folder = tempfile.TemporaryDirectory()
        self.catalog = Path(self.folder.name) / "catalog.sqlite"
        self.store = MemoryStore(self.clock)
        self.retention: Retention = NO_RETENTION

    def begin_on(self, seed: int, limits: Limits) -> None:
        """Open the engine for the first time."""
        self.disk = FaultyDisk(seed)
        self.limits = limits
        self.loop.run_until_complete(self.open())

    async def open(self) -> None:
        """Open the engine on what is there."""
        self.log = await FileLog.open(DIRECTORY, segment_bytes_max=self.segment_bytes_max, disk=self.disk)
        self.archive = await BucketArchive.open(
            self.store,
            self.catalog,
            self.clock,
            RandomIds(),
            self.limits,
            self.names_of,
            log=self.log,
            partition=ONLY_PARTITION,
        )
        self.partition = await Partition.open(self.log, self.clock, self.limits, self.archive, self.retention)
        self.maintenance = Maintenance(self.archive, self.clock, self.limits)

    async def shut(self) -> None:
        """Close the engine."""
        await self.partition.close()
        await self.archive.close()
        await self.log.close()

    def teardown(self) -> None:
        """End a run."""
        if hasattr(self, "partition"):
            self.loop.run_until_complete(self.shut())
        self.loop.close()
        self.folder.cleanup()

    def step(self, operation: tuple[object, ...]) -> tuple[Operation, Callable[[M], Answer]]:
        """Return the step of an operation."""
        made: tuple[Operation, Callable[[M], Answer]] = getattr(self, str(operation[0]))(*operation[1:])
        return made

    def agrees(self, model: M) -> bool:
        """Say whether all that can be read is what a model says."""
        raise NotImplementedError

    def compare(self, operation: tuple[object, ...]) -> None:
        """Carry out an operation, and compare the answers."""
        call, expect = self.step(operation)
        assert self.loop.run_until_complete(answered(call)) == expect(self.model)

    def lose_power_during(
        self, operations: Collection[tuple[object, ...]], after: int, unread: Answer | None = None
    ) -> None:
        """Power fails somewhere in the middle: the acknowledged stays, the rest is whole or not at all.

        ``unread`` is an answer that an operation may have instead of the model's when it cannot read.
        """
        possible = [self.model.copy()]
        self.disk.cut_power(after)
        for operation in operations:
            call, expect = self.step(operation)
            got = self.loop.run_until_complete(answered(call))
            if got == ("partition_stopped",):
                break
            after_it = self.model.copy()
            expected = expect(after_it)
            if got == ("outcome_unknown",):
                possible.append(after_it)
                break
            if got == unread and got != expected:
                continue  # it could not read what it rests on, and has changed nothing
            assert got == expected
            self.model = after_it
            possible = [after_it]
        self.crash()
        self.model = next((one for one in possible if self.agrees(one)), possible[0])

    def crash(self) -> None:
        """Lose what was not synced, and open what is left."""
        self.disk.crash()
        self.loop.run_until_complete(self.shut())
        self.loop.run_until_complete(self.open())

    def try_in_failing_bucket(self, work: Callable[[], Awaitable[object]], after: int | None) -> None:
        """Do something while the bucket stops answering after some calls, or never if it is None."""
        self.store.fail_after(after)
        try:
            self.loop.run_until_complete(_awaited(work))
        except BucketError:
            pass
        self.store.fail_after(None)

    @rule(forget_derived=st.booleans())
    def restart(self, forget_derived: bool) -> None:
        """Close and open, perhaps without the catalog."""
        self.loop.run_until_complete(self.shut())
        if forget_derived:
            self.catalog.unlink()
        self.loop.run_until_complete(self.open())

    @rule()
    def let_idle_streams_leave_memory(self) -> None:
        """Evict what was not used for a while."""
        for _ in range(3):
            self.loop.run_until_complete(self.partition.evict_idle())


async def answered(call: Operation) -> Answer:
    """Return the answer of a call; that of a refusal is its code."""
    try:
        return await call()
    except DurableSessionsError as error:
        return (error.code,)


async def _awaited(work: Callable[[], Awaitable[object]]) -> None:
    await work()
