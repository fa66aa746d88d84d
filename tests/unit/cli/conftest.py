"""The commands in this process, on a data directory that is made once and copied for each test."""

import asyncio
import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from durable_sessions.cli.main import cli
from tests.unit.tools.damage import make_with_subscriptions


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it said."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What it said to people."""
        return self.out.splitlines()

    @property
    def json(self) -> list[Any]:
        """What it said to programs."""
        return [json.loads(line) for line in self.lines]


Run = Callable[..., Said]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("DATA", "BUCKET", "CONFIG", "URL", "API_KEY"):
        monkeypatch.delenv(f"DURABLE_SESSIONS_{name}", raising=False)

    def run(*arguments: object) -> Said:
        result = CliRunner().invoke(cli, [str(one) for one in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Said(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture(scope="session")
def made_for_commands(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("made") / "data"
    asyncio.run(make_with_subscriptions(data, "sub"))
    return data


@pytest.fixture
def data(made_for_commands: Path, tmp_path: Path) -> Path:
    shutil.copytree(made_for_commands, tmp_path / "data")
    return tmp_path / "data"


def tree(data: Path) -> dict[str, str]:
    """Return the digest of every file, but for the lock."""
    return {
        path.relative_to(data).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(data.rglob("*"))
        if path.is_file() and path.name != "lock"
    }
