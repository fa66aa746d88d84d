"""The server as its users run it: a process of its own, started and stopped by pid."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx2


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class ServerProcess:
    """``durable-sessions serve`` on a data directory and a fixed port."""

    def __init__(self, data: Path, *options: str, environment: dict[str, str] | None = None) -> None:
        self.data = data
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._options = options
        self._environment = environment or {}
        self.process: subprocess.Popen[bytes] | None = None
        self.log = data.with_name(data.name + ".stderr")

    def start(self) -> None:
        """Start the process and wait until it answers."""
        self.spawn()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            assert self.process is not None
            assert self.process.poll() is None, self.log.read_text()
            try:
                if httpx2.get(self.url + "/readyz").status_code == 200:
                    return
            except httpx2.TransportError:
                time.sleep(0.02)
        raise TimeoutError(self.log.read_text())

    def spawn(self) -> None:
        """Start the process and do not wait."""
        command = [
            sys.executable,
            "-m",
            "durable_sessions",
            "serve",
            "--port",
            str(self.port),
            "--data",
            str(self.data),
        ]
        environment = {k: v for k, v in os.environ.items() if not k.startswith("DURABLE_SESSIONS_")}
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *self._options], stderr=log, env={**environment, **self._environment}
            )

    def kill(self) -> None:
        """End the process as a power cut would: no handler runs."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(10)

    def terminate(self) -> int:
        """Ask the process to stop and return its exit status."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def __enter__(self) -> "ServerProcess":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
