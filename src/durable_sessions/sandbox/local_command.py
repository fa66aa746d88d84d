"""One command of a local sandbox: its supervisor, its pipes, and how it is killed."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Lock

from durable_sessions.sandbox import supervisor
from durable_sessions.sandbox.errors import SandboxLostError
from durable_sessions.sandbox.exchange import PipeExchange
from durable_sessions.sandbox.sandbox import Stopwatch
from durable_sessions.sandbox.spec import TIMED_OUT_EXIT_CODE, Result

KILL_SECONDS_MAX = 10.0
"""How long to wait until all processes of a command are dead; the kernel may hold some of them longer."""
_ENDED = re.compile(rb"ended (\d+) (alone|busy)\n")
_STARTED = re.compile(rb"started (\d+);")


class LocalCommand:
    """A command that runs below a supervisor, in a session of its own."""

    def __init__(
        self, command: str, folder: Path, env: Mapping[str, str], given: bytes | None, output_bytes: int
    ) -> None:
        self._lock = Lock()
        self._watch = Stopwatch()
        self._reports, report = os.pipe()
        lifeline, self._lifeline = os.pipe()
        try:
            self._process = subprocess.Popen(  # noqa: S603 - running what it is given is its purpose
                [sys.executable, "-I", "-S", supervisor.__file__, str(report), str(lifeline), command],
                cwd=folder,
                env=dict(env),
                stdin=subprocess.DEVNULL if given is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                pass_fds=(report, lifeline),
                start_new_session=True,
            )
        except BaseException:
            os.close(self._reports)
            os.close(self._lifeline)
            raise
        finally:
            os.close(report)
            os.close(lifeline)
        self._exchange = PipeExchange(self._process, given, output_bytes, self._reports)
        self.is_busy = True
        """Whether processes of it may be left."""

    def wait(self, timeout: float) -> Result:
        """Return what the command gave; kill it, and all that it started, if that takes too long."""
        try:
            result = self._wait(timeout)
        except BaseException:
            self.kill()
            self._close_pipes()
            raise
        if self.is_busy:
            self._exchange.drain()
        self._close_pipes()
        return result

    def _wait(self, timeout: float) -> Result:
        in_time = self._exchange.run(time.monotonic() + timeout)
        if not in_time:
            self.kill()
            self._exchange.read_rest()
            return self._result(TIMED_OUT_EXIT_CODE, timed_out=True)
        ended = _ENDED.search(self._exchange.reported)
        if ended is None:
            raise SandboxLostError("The supervisor of the command was killed: nobody knows how it ended.")
        if ended[2] == b"alone":
            self.kill()  # nothing is left to be killed: it waits for the supervisor
        return self._result(int(ended[1]), timed_out=False)

    def kill(self) -> None:
        """Kill every process of the command that is left, and wait until they are dead."""
        with self._lock:
            if not self.is_busy:
                return
            self.is_busy = False
            os.close(self._lifeline)
            try:
                self._process.wait(KILL_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            # A supervisor that was killed itself could not do its work.
            started = _STARTED.search(self._exchange.reported)
            if self._process.returncode != 0 and started is not None:
                with suppress(OSError):
                    os.killpg(int(started[1]), signal.SIGKILL)

    def has_left(self) -> bool:
        """Whether the last process has ended by itself."""
        return self._process.poll() is not None

    def _close_pipes(self) -> None:
        self._exchange.close()
        os.close(self._reports)

    def _result(self, exit_code: int, *, timed_out: bool) -> Result:
        exchange = self._exchange
        out, err = exchange.stdout.text(), exchange.stderr.text()
        return Result(exit_code, out, err, self._watch.seconds, exchange.truncated, timed_out)
