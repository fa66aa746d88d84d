"""Outside witnesses: the public conformance suite and the official clients, unmodified."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.process import ServerProcess
from tests.support.skips import NODE, disabled

HERE = Path(__file__).parent / "node"


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """Install the pinned packages once, in a cache beside the virtual environment."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip(disabled("Node.js is missing: the public conformance suite did not run", NODE))
    lock = (HERE / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "durable-sessions"
    folder = cache / f"conformance-{hashlib.sha256(lock).hexdigest()[:12]}"
    if not (folder / ".ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(HERE / name, folder)
        # Not "npm ci": it refuses the lock where a registry lacks binaries for other platforms.
        command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(command, cwd=folder, check=True, timeout=300)
        (folder / ".ready").touch()
    for name in ("server.test.mjs", "vitest.config.mjs", "client.mjs"):
        shutil.copy(HERE / name, folder)
    return folder


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path / "data", "--long-poll-seconds", "1") as running:
        yield running
