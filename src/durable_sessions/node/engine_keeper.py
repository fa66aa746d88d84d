"""Keeps the engine of one partition open: opens it again whenever its log has failed."""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable

import structlog

from durable_sessions.errors import (
    BucketError,
    DurableSessionsError,
    LogDamagedError,
    LogEffectUnknownError,
    LogError,
    LogFencedError,
    LogLockedError,
    LogMisconfiguredError,
    LogRegressedError,
    LogVersionError,
    PartitionStoppedError,
)
from durable_sessions.http.api.health import EngineHealth
from durable_sessions.limits import Limits
from durable_sessions.node.engine import Engine
from durable_sessions.tasks import TaskSupervisor

logger = structlog.get_logger(__name__)

_HEALING = (LogError, BucketError, OSError, sqlite3.Error)
"""Errors of reopening that may go away, so it is retried."""
_FINAL = (
    LogDamagedError,
    LogEffectUnknownError,
    LogFencedError,
    LogLockedError,
    LogMisconfiguredError,
    LogRegressedError,
    LogVersionError,
)
"""Of these, errors that are permanent."""

Failed = Callable[[Exception], None]


class EngineKeeper:
    """The current engine of one partition, behind the same router for as long as the process runs.

    When the log fails, nothing more is acknowledged until the whole engine has been opened again from what is
    on disk, as after a restart. That happens here as soon as the disk can be written again. ``make`` returns
    an engine that is not open yet. ``settle`` waits for requests that are being answered. ``failed`` is
    called once, with the reason, if the partition can never be opened again by this process. Where other
    machines reach the log, it is never opened again here: one that has claimed it meanwhile comes first.
    """

    engine: Engine

    def __init__(
        self,
        make: Callable[[EngineHealth], Engine],
        limits: Limits,
        settle: Callable[[], Awaitable[None]],
        failed: Failed,
        *,
        reopens: bool = True,
    ) -> None:
        self._make = make
        self._limits = limits
        self._settle = settle
        self._failed = failed
        self._reopens = reopens
        self._pause_seconds = limits.reopen_seconds
        self.health = EngineHealth()

    @property
    def is_open(self) -> bool:
        """Whether the engine was opened for the first time."""
        return hasattr(self, "engine")

    async def open(self) -> None:
        """Open the engine for the first time; raise what keeps it from opening."""
        self.engine = await self._make(self.health).open()

    def start(self, supervisor: TaskSupervisor) -> None:
        """Reopen the engine from now on whenever its log has failed."""
        self._keeping = supervisor.start("engine", self._keep_open)

    def drain(self) -> None:
        """Say in ``/readyz`` that this server is shutting down, and end waiting readers."""
        self.engine.app.operations.draining = True
        self.engine.drain()

    async def close(self) -> None:
        """Leave everything durable and release it."""
        await self._keeping.stop()
        await self.engine.close()

    async def hand_over(self, release: Callable[[], Awaitable[None]]) -> None:
        """Give the log to another process with ``release``, and then release everything else."""
        await self._keeping.stop()
        await self.engine.hand_over(release)

    async def abandon(self) -> None:
        """Release everything after the log has failed, and open nothing again."""
        await self._keeping.stop()
        await self.engine.abandon(self._settle)

    async def _keep_open(self) -> None:
        """Reopen the engine whenever its log has failed; step down if another writer has the bucket."""
        loop = asyncio.get_running_loop()
        while True:
            opened_at = loop.time()
            await self.engine.partition.until_log_failed()
            if not self._reopens:
                reason = self.engine.partition.refusal or "its log failed"
                return self._failed(self.engine.partition.lost or PartitionStoppedError(reason=reason))
            # Only an engine that ran for long resets the back-off. One that fails right after it was opened
            # would otherwise be opened again and again at full speed.
            if loop.time() - opened_at > self._limits.reopen_seconds_max:
                self._pause_seconds = self._limits.reopen_seconds
            lost = await self._until_it_can_work()
            if lost is not None:
                return await self._step_down(lost)
            # The old engine must release the lock of the log before a new one can take it.
            await self.engine.abandon(self._settle)
            if not await self._reopen():
                return None
            self.health.reopenings += 1
            self.health.reopening_failure = None
            logger.info("log_opened_again", reopenings=self.health.reopenings)

    async def _until_it_can_work(self) -> DurableSessionsError | None:
        """Wait until disk and bucket seem to work; durable data stays readable meanwhile.

        Return the error that shows that another process has the log or the bucket: that is permanent.
        """
        while self.engine.partition.lost is None:
            await self._pause()
            try:
                await self.engine.probe()
                break
            except _HEALING as error:
                self._note(error)
        return self.engine.partition.lost

    async def _step_down(self, lost: DurableSessionsError) -> None:
        """Keep refusing requests for a while, so that clients and health checks notice the fence."""
        self.engine.drain()
        await asyncio.sleep(self._limits.step_down_seconds)
        self._failed(lost)

    async def _reopen(self) -> bool:
        """Open a new engine, with retries; return False if it can never be opened."""
        while True:
            try:
                await self.open()
                return True
            except Exception as error:
                # An error that nobody expects is final too: the process ends, and the next one begins from
                # what is on disk, instead of going on in a state that nobody has thought of.
                if isinstance(error, _FINAL) or not isinstance(error, _HEALING):
                    logger.critical("log_cannot_be_opened_again", reason=str(error) or repr(error))
                    self._failed(error)
                    return False
                self._note(error)
            await self._pause()

    async def _pause(self) -> None:
        await asyncio.sleep(self._pause_seconds)
        self._pause_seconds = min(2 * self._pause_seconds, self._limits.reopen_seconds_max)

    def _note(self, error: Exception) -> None:
        if self.health.reopening_failure is None:
            logger.warning("log_not_opened_again_yet", reason=str(error))
        self.health.reopening_failure = str(error)
