"""Flushing by size and age, and evicting idle streams."""

import asyncio
import sqlite3

import structlog

from durable_sessions.clock import Clock
from durable_sessions.errors import DurableSessionsError, ManifestLostError
from durable_sessions.limits import Limits
from durable_sessions.storage.allocator import release_memory
from durable_sessions.storage.counts import Failure
from durable_sessions.storage.partition import Partition
from durable_sessions.tasks import Task, TaskSupervisor
from durable_sessions.threads import CPU

logger = structlog.get_logger(__name__)

_POLL_SECONDS = 0.25


class Flusher:
    """Flushes durable batches to the bucket in time; while the bucket fails, it retries with back-off."""

    def __init__(self, partition: Partition, clock: Clock, limits: Limits, flush_seconds: float) -> None:
        self._partition = partition
        self._backlog = partition.backlog
        self._clock = clock
        self._limits = limits
        self._flush_ms = int(flush_seconds * 1000)
        self._era_ms = int(limits.era_seconds * 1000)
        self._turn = asyncio.Lock()
        self._task: Task | None = None
        self._at_once = self._backlog.oldest is not None
        self._confirmed_ms = clock.now_ms()
        self.failure: Failure | None = None
        self.flushes = 0

    def start(self, supervisor: TaskSupervisor) -> None:
        """Start flushing in the background."""
        self._task = supervisor.start("flusher", self._run)

    async def stop(self) -> None:
        """Stop flushing in the background."""
        if self._task is not None:
            await self._task.stop()

    async def close(self) -> None:
        """Flush everything if the bucket is available; otherwise it stays in the log until the next start."""
        await self.stop()
        try:
            async with asyncio.timeout(self._limits.last_flush_seconds_max):
                await self.flush_all()
        except ManifestLostError:
            pass  # reported already
        except (DurableSessionsError, sqlite3.Error, TimeoutError) as error:
            logger.warning("last_flush_failed", reason=str(error) or "it took too long")

    async def flush_all(self) -> None:
        """Flush everything that is durable now; raise if the bucket fails."""
        # Up to what is newest now: under load there is always something newer.
        last = self._backlog.newest
        while (oldest := self._backlog.oldest) and last is not None and oldest.position <= last.position:
            await self._flush()

    async def _flush(self) -> None:
        async with self._turn:
            try:
                self.flushes += await self._partition.flush()
                self._confirmed_ms = self._clock.now_ms()
            except Exception as error:
                since_ms = self._clock.now_ms() if self.failure is None else self.failure.since_ms
                if self.failure is None:
                    logger.error("flush_failed", reason=str(error) or repr(error))
                self.failure = Failure(str(error) or repr(error), since_ms)
                raise
            if self.failure is not None:
                logger.info("flush_works_again", failed_since_ms=self.failure.since_ms)
                self.failure = None

    def _due(self) -> bool:
        oldest = self._backlog.oldest
        if oldest is None:
            self._at_once = False
            return False
        if self._at_once:
            # What replay finds at a start is flushed immediately. If two copies of a data directory are
            # started alternately, one of them soon owns the bucket and the other is refused.
            return True
        waited_ms = self._clock.now_ms() - oldest.at_ms
        # Only flushed streams can be evicted, so too many streams in memory are a reason to flush, too.
        longest_ms = min(self._flush_ms, self._era_ms) if self._partition.crowded(2) else self._flush_ms
        # If the clock was set back, the age is unknown: flush then as well.
        in_time = 0 <= waited_ms < longest_ms
        return not in_time or self._backlog.fills_a_flush(self._limits)

    async def _run(self) -> None:
        pause = _POLL_SECONDS
        evicted_ms = self._clock.now_ms()
        while True:
            await asyncio.sleep(pause)
            pause = _POLL_SECONDS
            try:
                while self._due():
                    await self._flush()
                    await CPU.run(release_memory)
                await self._partition.settle_erasures()
                await self._confirm()
            except ManifestLostError:
                return  # fenced: another writer has the bucket
            except (DurableSessionsError, sqlite3.Error):
                pause = self._limits.flush_retry_seconds
            # Documents can fill memory before the next era begins.
            swamped = self._partition.tip.attribute_bytes > 2 * self._limits.attribute_bytes_max
            if swamped or not 0 <= self._clock.now_ms() - evicted_ms < self._era_ms:
                evicted_ms = self._clock.now_ms()
                await self._evict_idle()

    async def _confirm(self) -> None:
        """Check the fence now and then, also while there is nothing to flush."""
        if not 0 <= self._clock.now_ms() - self._confirmed_ms < self._flush_ms:
            await self._partition.check_fence()
            self._confirmed_ms = self._clock.now_ms()

    async def _evict_idle(self) -> None:
        try:
            if await self._partition.evict_idle():
                await CPU.run(release_memory)
        except DurableSessionsError:
            pass  # the log has failed, which its own waiters are told
