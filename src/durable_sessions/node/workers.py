"""The supervisor of workers: processes that serve one data directory together. It sees no data itself."""

import asyncio
import signal
import socket
from collections.abc import Callable, Sequence

import structlog

from durable_sessions.limits import Limits
from durable_sessions.node.worker_channel import READY
from durable_sessions.node.worker_id import WorkerId

logger = structlog.get_logger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SIGNAL_STATUS = 128  # a process that a signal ended has this much more, as in a shell


class Workers:
    """Starts ``of`` workers, restarts those that die, and ends them all together.

    The first worker is started alone: what keeps it from serving would keep the others too, and is said once.
    A worker that ends by itself before it has ever served ends everything, with its own exit status.
    """

    def __init__(self, command: Callable[[WorkerId], Sequence[str]], of: int, limits: Limits) -> None:
        self._command = command
        self._ids = [WorkerId(number, of) for number in range(of)]
        self._limits = limits
        self._stopping = asyncio.Event()
        self._status = 0
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self.restarts = 0

    async def run(self) -> int:
        """Keep the workers running until SIGTERM or SIGINT; return the exit status."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.stop)
        try:
            first_serves = asyncio.Event()
            keepers = [asyncio.create_task(self._keep(self._ids[0], first_serves))]
            await self._stopped_or(first_serves)
            if not self._stopping.is_set():
                keepers += [asyncio.create_task(self._keep(one, asyncio.Event())) for one in self._ids[1:]]
            await asyncio.gather(*keepers)
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)
        return self._status

    def stop(self) -> None:
        """End all workers; they finish what is under way."""
        self._stopping.set()
        for process in self._running.values():
            if process.returncode is None:
                process.terminate()

    async def _stopped_or(self, event: asyncio.Event, seconds: float | None = None) -> None:
        """Wait for an event, for a stop, or for some time."""
        waiting = [asyncio.create_task(one.wait()) for one in (self._stopping, event)]
        await asyncio.wait(waiting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        for one in waiting:
            one.cancel()

    async def _keep(self, worker: WorkerId, serves: asyncio.Event) -> None:
        """Run one worker, again and again."""
        limits = self._limits
        pause_seconds = limits.worker_restart_seconds
        failures = 0
        while not self._stopping.is_set():
            served, status = await self._run_once(worker, serves)
            if self._stopping.is_set():
                self._note(status)
                return
            failures = 0 if served else failures + 1
            if self._is_final(status, serves, failures):
                logger.error("worker_cannot_start", worker=worker.number, status=status)
                self._note(status)
                self.stop()
                return
            if served:
                pause_seconds = limits.worker_restart_seconds
            logger.error(
                "worker_ended", worker=worker.number, status=status, restart_in_seconds=pause_seconds
            )
            await self._stopped_or(asyncio.Event(), pause_seconds)
            pause_seconds = min(2 * pause_seconds, limits.worker_restart_seconds_max)
            self.restarts += 1

    def _is_final(self, status: int, serves: asyncio.Event, failures: int) -> bool:
        if not serves.is_set() and 0 <= status < _SIGNAL_STATUS:
            return True  # it has said why, and would say it again
        return failures >= self._limits.worker_start_failures_max

    def _note(self, status: int) -> None:
        self._status = self._status or status

    async def _run_once(self, worker: WorkerId, serves: asyncio.Event) -> tuple[bool, int]:
        """Run a worker until it ends; return whether it served, and its exit status."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        served = False

        def readable() -> None:
            nonlocal served
            try:
                said = ours.recv(64)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            if said.startswith(READY):
                served = True
                serves.set()
            elif not said:
                loop.remove_reader(ours.fileno())

        try:
            # Of a session of its own, so that Ctrl-C reaches it once, through here.
            process = await asyncio.create_subprocess_exec(
                *self._command(worker), stdin=theirs.fileno(), start_new_session=True
            )
        except OSError as error:
            logger.error("worker_not_started", worker=worker.number, reason=str(error))
            ours.close()
            return False, 1
        finally:
            theirs.close()
        self._running[worker.number] = process
        loop.add_reader(ours.fileno(), readable)
        try:
            if self._stopping.is_set() and process.returncode is None:
                process.terminate()
            status = await self._ended(process)
            return served, status
        finally:
            del self._running[worker.number]
            loop.remove_reader(ours.fileno())
            ours.close()

    async def _ended(self, process: asyncio.subprocess.Process) -> int:
        """Wait for the end of a process; kill it if it takes too long after a stop."""
        end = asyncio.ensure_future(process.wait())
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait((end, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not end.done():
            await asyncio.wait((end,), timeout=self._limits.worker_stop_seconds_max)
            if not end.done():
                logger.error("worker_killed", pid=process.pid)
                process.kill()
        status = await end
        return status if status >= 0 else _SIGNAL_STATUS - status
