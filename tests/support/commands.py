"""Running the command line: in this process, and on a terminal."""

import json
import os
import pty
import subprocess
import sys
from typing import Any

from click.testing import CliRunner, Result

from durable_sessions.cli.main import cli

SECONDS_MAX = 120.0


class Commands:
    """Runs commands in this process."""

    def __init__(self, url: str) -> None:
        self._environment = {"DURABLE_SESSIONS_URL": url, "DURABLE_SESSIONS_API_KEY": None}

    def run(self, *arguments: str, status: int = 0, given: bytes = b"") -> Result:
        done = CliRunner().invoke(cli, arguments, input=given, env=self._environment)
        assert done.exit_code == status, (done.output, done.exception)
        return done

    def json(self, *arguments: str, given: bytes = b"") -> Any:
        return json.loads(self.run(*arguments, "--json", given=given).stdout)

    def lines(self, *arguments: str) -> list[Any]:
        return [json.loads(line) for line in self.run(*arguments).stdout.splitlines()]


def on_a_terminal(url: str, *arguments: str, typed: bytes = b"", status: int = 0, **environment: str) -> str:
    """Return what a command writes to a terminal on which something is typed."""
    master, slave = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    variables |= {"DURABLE_SESSIONS_URL": url, "TERM": "xterm-256color", "COLUMNS": "100", **environment}
    command = [sys.executable, "-m", "durable_sessions", *arguments]
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=variables) as process:
        os.close(slave)
        os.write(master, typed)
        seen = b""
        while True:
            try:
                piece = os.read(master, 65_536)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            seen += piece
        assert process.wait(SECONDS_MAX) == status, seen
    os.close(master)
    return seen.decode()
