"""Background maintenance of the bucket: merges, snapshots, and removal of unused objects."""

import asyncio
import sqlite3

import structlog

from durable_sessions.clock import Clock
from durable_sessions.errors import DurableSessionsError, ManifestLostError
from durable_sessions.limits import Limits
from durable_sessions.storage.allocator import release_memory
from durable_sessions.storage.counts import Failure
from durable_sessions.tasks import Task, TaskSupervisor
from durable_sessions.threads import CPU
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.compaction import Compactor
from durable_sessions.tier.janitor import Janitor
from durable_sessions.tier.snapshot_writer import SnapshotWriter
from durable_sessions.tier.sweeper import Sweeper

logger = structlog.get_logger(__name__)


class Maintenance:
    """Does one small piece of work at a time, so that a flush never waits long for its turn."""

    def __init__(self, archive: BucketArchive, clock: Clock, limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._task: Task | None = None
        self._swept_at_ms: int | None = None
        self.compactor = Compactor(archive, clock, limits)
        self.snapshots = SnapshotWriter(archive, clock, limits)
        self.sweeper = Sweeper(archive, clock, limits)
        # Of all partitions the system partition has it, which there is one of in every bucket.
        is_system = archive.partition.is_system
        self.janitor = Janitor(archive.bucket, archive.partition, clock, limits) if is_system else None
        self.failure: Failure | None = None

    def start(self, supervisor: TaskSupervisor) -> None:
        """Start the background task."""
        self._task = supervisor.start("maintenance", self._run)

    async def close(self) -> None:
        """Stop the task; unfinished work is completed or removed after the next start."""
        if self._task is not None:
            await self._task.stop()

    async def step(self) -> bool:
        """Do the next piece of work and return True; if there is none, sweep if it is time, return False."""
        if await self.sweeper.collect() or await self.compactor.step() or await self.snapshots.step():
            return True
        now_ms = self._clock.now_ms()
        # If the clock was set back, the time since the last sweep is unknown, and a sweep is made.
        if self._swept_at_ms is None or not (
            0 <= now_ms - self._swept_at_ms < self._limits.sweep_seconds * 1000
        ):
            await self.sweeper.sweep()
            if self.janitor is not None:
                await self.janitor.sweep()
            self._swept_at_ms = now_ms
        return False

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._limits.maintenance_seconds)
            try:
                while await self.step():
                    self._recovered()
                    await CPU.run(release_memory)
                self._recovered()
            except ManifestLostError:
                return  # another writer has the bucket, and the partition stops
            except (DurableSessionsError, sqlite3.Error) as error:
                self._failed(error)
            except Exception as error:
                # A bug. It is reported here and raised to the supervisor. Nothing is lost: no manifest refers
                # to the objects of the unfinished work.
                self._failed(error)
                raise

    def _failed(self, error: Exception) -> None:
        if self.failure is None:
            logger.error("maintenance_failed", reason=str(error))
        since_ms = self._clock.now_ms() if self.failure is None else self.failure.since_ms
        self.failure = Failure(str(error) or repr(error), since_ms)

    def _recovered(self) -> None:
        if self.failure is not None:
            logger.info("maintenance_works_again", failed_since_ms=self.failure.since_ms)
            self.failure = None
