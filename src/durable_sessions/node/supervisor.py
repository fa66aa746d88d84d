"""The supervisor: background tasks have names, are restarted when they fail, and failures are reported."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Mapping

import structlog

from durable_sessions.clock import Clock
from durable_sessions.errors import DurableSessionsError
from durable_sessions.limits import Limits
from durable_sessions.tasks import Run, TaskFailure

EXPECTED = (DurableSessionsError, OSError, sqlite3.Error)
"""Expected failures of disks and networks; anything else is a bug and logged with its traceback."""

logger = structlog.get_logger(__name__)


class SupervisedTask:
    """One task; it is restarted after failures until it returns or is stopped."""

    def __init__(self, name: str, run: Run, supervisor: "Supervisor") -> None:
        self._run = run
        self._supervisor = supervisor
        self._loop = asyncio.get_running_loop()
        self._pause_seconds = 0.0
        self._started_at = 0.0
        self._waiting = False
        self._failure: TaskFailure | None = None
        self.name = name
        self._task = self._loop.create_task(self._keep_running(), name=name)
        self._task.add_done_callback(lambda _: supervisor.ended(self))

    def cancel(self) -> None:
        """Cancel it; it is not restarted."""
        self._task.cancel()

    async def stop(self) -> None:
        """Cancel it and wait until it has ended."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    @property
    def failure(self) -> TaskFailure | None:
        """Its last failure, until it has run again for as long as its back-off."""
        if self._failure is not None and self._is_steady():
            self._failure = None
        return self._failure

    def _is_steady(self) -> bool:
        return not self._waiting and self._loop.time() - self._started_at >= self._pause_seconds

    async def _keep_running(self) -> None:
        while True:
            self._started_at = self._loop.time()
            try:
                return await self._run()
            except Exception as error:
                self._note(error)
            self._waiting = True
            await asyncio.sleep(self._pause_seconds)
            self._waiting = False
            self._supervisor.restarted(self)

    def _note(self, error: Exception) -> None:
        """Log a failure and set the back-off: it doubles until the task runs for longer than it paused."""
        before, limits = self.failure, self._supervisor.limits
        self._pause_seconds = (
            limits.task_restart_seconds
            if before is None
            else min(2 * self._pause_seconds, limits.task_restart_seconds_max)
        )
        now_ms = self._supervisor.clock.now_ms()
        since_ms, failures = (now_ms, 1) if before is None else (before.since_ms, before.failures + 1)
        self._failure = TaskFailure(self.name, str(error) or repr(error), since_ms, failures)
        logger.error(
            "task_failed",
            task=self.name,
            failures=failures,
            restart_in_seconds=self._pause_seconds,
            reason=self._failure.error,
            exc_info=None if isinstance(error, EXPECTED) else error,
        )


class Supervisor:
    """Keeps background tasks running; ``restarts`` counts restarts by name."""

    def __init__(self, clock: Clock, limits: Limits) -> None:
        self.clock = clock
        self.limits = limits
        self._counts: Counter[str] = Counter()
        self.restarts: Mapping[str, int] = self._counts
        self._tasks: dict[SupervisedTask, None] = {}

    def start(self, name: str, run: Run) -> SupervisedTask:
        """Run a task until it returns or is stopped; if it raises, restart it after a back-off.

        Tasks of one kind share a name, which is a label in metrics.
        """
        self._counts[name] += 0  # present from the start, so that Prometheus can compute a rate
        task = SupervisedTask(name, run, self)
        self._tasks[task] = None
        return task

    def restarted(self, task: SupervisedTask) -> None:
        """Count a restart."""
        self._counts[task.name] += 1

    def ended(self, task: SupervisedTask) -> None:
        """Remove a task that has ended."""
        self._tasks.pop(task, None)

    def failures(self) -> list[TaskFailure]:
        """Return the tasks that do not work now, one of each name."""
        found = {failure.task: failure for task in self._tasks if (failure := task.failure) is not None}
        return list(found.values())

    async def close(self) -> None:
        """Stop every task that still runs."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        for task in tasks:
            await task.stop()
