"""The server as its users run it: a process of its own, started and stopped by pid."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from tests.support.skips import disabled


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


READY_SECONDS_MAX = 120.0
WORKERS = int(os.environ.get("TEST_WORKERS", "1"))
"""How many workers the servers of the tests have, unless a test says so itself."""
_WORKERS_OPTION = "--workers"
counts_in_one_process = pytest.mark.skipif(
    WORKERS > 1,
    reason=disabled("limits of one process; connections reach several at random", "TEST_WORKERS=1"),
)
"""For tests of what one process admits, where nobody can tell which of several is reached."""


class ServerProcess:
    """``durable-sessions serve`` on a data directory and a fixed port.

    ``limits`` changes limits that are no settings.
    """

    def __init__(
        self,
        data: Path,
        *options: str,
        environment: dict[str, str] | None = None,
        limits: dict[str, float] | None = None,
    ) -> None:
        self.data = data
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._options = options if _WORKERS_OPTION in options else (*options, _WORKERS_OPTION, str(WORKERS))
        self._program = ["tests.support.limited", json.dumps(limits)] if limits else ["durable_sessions"]
        self._environment = environment or {}
        self.process: subprocess.Popen[bytes] | None = None
        self.log = data.with_name(data.name + ".stderr")

    def start(self) -> None:
        """Start the process and wait until it answers."""
        self.spawn()
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            if self.answers_ready():
                return
            time.sleep(0.02)
        raise TimeoutError(self.log.read_text())

    def answers_ready(self) -> bool:
        """Say whether all of the server takes work."""
        try:
            return httpx2.get(self.url + "/readyz", verify=False).status_code == 200
        except httpx2.TransportError:
            return False

    def spawn(self) -> None:
        """Start the process and do not wait."""
        command = self._command("serve", "--port", str(self.port), *self._options)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stderr=log, env=self._variables)

    def run(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run a command of the program on the same data, in the same environment, and wait for its end."""
        return subprocess.run(
            self._command(*arguments),
            env=self._variables,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def _command(self, name: str, *arguments: str) -> list[str]:
        return [sys.executable, "-m", *self._program, name, "--data", str(self.data), *arguments]

    @property
    def _variables(self) -> dict[str, str]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("DURABLE_SESSIONS_")}
        return {**inherited, **self._environment}

    def metric(self, name: str) -> float:
        """Return the value of a metric without labels."""
        text = httpx2.get(f"{self.url}/metrics", verify=False).text
        return float(re.findall(rf"^durable_sessions_{name} (\S+)$", text, re.MULTILINE)[0])

    def kill(self) -> None:
        """End the process as a power cut would: no handler runs."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(60)

    def pause(self) -> None:
        """Stop the process where it stands, until :meth:`resume`."""
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def terminate(self) -> int:
        """Ask the process to stop and return its exit status."""
        self.ask_to_stop()
        assert self.process is not None
        return self.process.wait(60)

    def ask_to_stop(self) -> None:
        """Ask the process to stop and do not wait."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    def __enter__(self) -> "ServerProcess":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
