"""Processes that are measured: started, paused, watched and ended by pid, whatever happens meanwhile."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

READY_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_LOG_TAIL_BYTES = 2000


def free_port() -> int:
    """Return a loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Process:
    """A command in a session of its own, so that Ctrl-C reaches it only through us.

    The block of the ``with`` statement owns it: whichever way the block ends, the process has ended. Its data
    is thrown away, so that it is killed, unless it leaves something behind that only it can tidy up.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        user: str | None = None,
        stop_signal: signal.Signals | None = None,
    ) -> None:
        self.command = list(command)
        self._log = log
        self._environment = {
            name: value for name, value in os.environ.items() if not name.startswith("DURABLE_SESSIONS_")
        } | dict(environment or {})
        self._user = user
        self._stop_signal = stop_signal
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if self._process is None:
            self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The pid of the process that was started; it may have children."""
        assert self._process is not None, f"{self.command[0]} was not started"
        return self._process.pid

    def start(self) -> None:
        """Start the command; its output goes to the log."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                cwd=None if self._user is None else "/",
                start_new_session=True,
                user=self._user,
                group=self._user,
                extra_groups=None if self._user is None else [],
            )

    def wait_until(self, ready: Callable[[], bool], pause_seconds: float = 0.02) -> None:
        """Wait until the process does its work; say why if it has ended instead."""
        deadline = time.monotonic() + READY_SECONDS_MAX
        while not ready():
            self.require_alive()
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.command[0]} is not ready: {self._last_words()}")
            time.sleep(pause_seconds)

    def require_alive(self) -> None:
        """Raise if the process has ended on its own."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.command} ended with {self._process.returncode}: {self._last_words()}")

    def pause(self) -> None:
        """Freeze the process and its children, so that their background work disturbs nobody else."""
        for pid in self._tree():
            _signal(pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let the process and its children go on."""
        for pid in self._tree():
            _signal(pid, signal.SIGCONT)

    def kill(self) -> None:
        """End the process and its children as a power cut would: no handler runs."""
        if self._process is not None and self._process.poll() is None:
            for pid in reversed(self._tree()):
                _signal(pid, signal.SIGKILL)
            self._process.wait(STOP_SECONDS_MAX)
        self._process = None

    def stop(self) -> None:
        """End the process in its own way if it has one, and in ours if that takes too long."""
        process = self._process
        if process is not None and process.poll() is None and self._stop_signal is not None:
            self.resume()
            process.send_signal(self._stop_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_SECONDS_MAX)
        self.kill()

    def cpu_seconds(self) -> float:
        """Return the processor time that the process and its children, also ended ones, have taken so far."""
        return sum(map(_cpu_seconds, self._tree()))

    def memory_mib(self, field: str) -> float:
        """Return ``VmRSS``, the resident memory now, or ``VmHWM``, the most there was."""
        return memory_mib(self.pid, field)

    def child(self, module: str) -> int:
        """Return the pid of the process below it that runs a module."""
        for pid in self._tree():
            if module.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                return pid
        raise LookupError(f"{self.command} runs no {module}")

    def written_bytes(self) -> int:
        """Return what the process has made the kernel send to block devices: whole pages."""
        for line in Path(f"/proc/{self.pid}/io").read_text().splitlines():
            if line.startswith("write_bytes:"):
                return int(line.split()[1])
        raise KeyError("write_bytes")

    def _tree(self) -> list[int]:
        """Return the pids of the process and of all that descend from it, parents first."""
        pids = [self.pid]
        for pid in pids:
            for children in Path(f"/proc/{pid}/task").glob("*/children"):
                try:
                    pids += map(int, children.read_text().split())
                except OSError:
                    continue  # it has just ended
        return pids

    def _last_words(self) -> str:
        return self._log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace")


def memory_mib(pid: int, field: str) -> float:
    """Return a figure of ``/proc/…/status``, such as ``VmRSS``."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    raise KeyError(field)


def listens(port: int) -> bool:
    """Say whether something accepts connections on a loopback port."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS_PER_SECOND  # user and system, its own and of ended children
