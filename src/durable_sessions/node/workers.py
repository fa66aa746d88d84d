"""The supervisor of workers: processes that serve one data directory together. It sees no data itself."""

import asyncio
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress

import structlog

from durable_sessions.limits import Limits
from durable_sessions.node.worker_channel import DRAINED, FINISH, MESSAGES_BYTES_MAX, READY, framed
from durable_sessions.node.worker_id import WorkerId

logger = structlog.get_logger(__name__)

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_SIGNAL_STATUS = 128  # a process that a signal ended has this much more, as in a shell


class Workers:
    """Starts ``of`` workers, restarts those that die, and ends them all together.

    The first worker is started alone: what keeps it from serving would keep the others too, and is said once.
    A worker that ends by itself before it has ever served ends everything, with its own exit status.
    ``start`` is what a worker is told first. ``serving`` is called once, when all of them serve.
    """

    def __init__(
        self,
        command: Sequence[str],
        start: Callable[[WorkerId], bytes],
        of: int,
        limits: Limits,
        serving: Callable[[], None] = lambda: None,
    ) -> None:
        self._command = command
        self._start = start
        self._serving = serving
        self._ids = [WorkerId(number, of) for number in range(of)]
        self._limits = limits
        self._stopping = asyncio.Event()
        self._status = 0
        self._running: dict[int, asyncio.subprocess.Process] = {}
        self._channels: dict[int, socket.socket] = {}
        self._drained: set[int] = set()
        self._served: set[int] = set()
        self.restarts = 0

    @property
    def has_served(self) -> bool:
        """Whether a worker has ever served, so that something may have been acknowledged."""
        return bool(self._served)

    async def run(self) -> int:
        """Keep the workers running until SIGTERM or SIGINT; return the exit status."""
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self.stop)
        try:
            # The first worker begins alone. It has the system partition, whose keys all others follow; and if
            # the server cannot start at all, that is said once and not by every worker.
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
                said = ours.recv(MESSAGES_BYTES_MAX)
            except BlockingIOError:
                return
            except OSError:
                said = b""
            if READY in said:
                served = True
                serves.set()
                self._note_served(worker)
            if DRAINED in said:
                self._note_drained(worker)
            if not said:
                loop.remove_reader(ours.fileno())

        try:
            # Of a session of its own, so that Ctrl-C reaches it once, through here.
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=theirs.fileno(), start_new_session=True
            )
        except OSError as error:
            logger.error("worker_not_started", worker=worker.number, reason=str(error))
            ours.close()
            return False, 1
        finally:
            theirs.close()
        self._running[worker.number] = process
        self._channels[worker.number] = ours
        loop.add_reader(ours.fileno(), readable)
        try:
            with suppress(OSError):  # it has ended already
                await loop.sock_sendall(ours, framed(self._start(worker)))
            # A stop that came while the process was being started has not reached it.
            if self._stopping.is_set() and process.returncode is None:
                process.terminate()
            status = await self._ended(process)
            return served, status
        finally:
            del self._running[worker.number], self._channels[worker.number]
            self._drained.discard(worker.number)
            self._finish_if_drained()
            loop.remove_reader(ours.fileno())
            ours.close()

    def _note_served(self, worker: WorkerId) -> None:
        if worker.number not in self._served:
            self._served.add(worker.number)
            if len(self._served) == len(self._ids):
                self._serving()

    def _note_drained(self, worker: WorkerId) -> None:
        self._drained.add(worker.number)
        if self._stopping.is_set():
            self._finish_if_drained()
        else:
            self._finish(worker.number)  # it ends for a reason of its own

    def _finish_if_drained(self) -> None:
        """Let the workers end together: until none has clients, each may have to answer for another."""
        if self._stopping.is_set() and self._drained.issuperset(self._running):
            for number in self._running:
                self._finish(number)

    def _finish(self, number: int) -> None:
        with suppress(OSError):  # it has ended already
            self._channels[number].send(FINISH)

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
