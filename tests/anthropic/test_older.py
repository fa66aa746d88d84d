"""The same programs with the last release before 2.0, which sends its key and its version another way."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.skips import disabled

pytestmark = pytest.mark.conformance

HERE = Path(__file__).parent
PINNED = HERE / "older.txt"
NOT_OF_THE_SDK = {"test_older.py", "test_typescript.py", "test_bad_shapes.py"}
# It waits for a server to come back, as long as any release does: half of the time of all programs.
SLOW = "tests/anthropic/test_tool_runner.py::test_it_goes_on_when_the_server_was_gone"
PROGRAMS = [path for path in sorted(HERE.glob("test_*.py")) if path.name not in NOT_OF_THE_SDK]


@pytest.fixture(scope="session")
def older() -> Path:
    """Install the pinned release once, in a cache beside the virtual environment."""
    pinned = PINNED.read_bytes()
    version = re.search(rb"^anthropic==([\d.]+)", pinned, re.MULTILINE)
    assert version is not None
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "durable-sessions"
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    folder = cache / f"anthropic-{version[1].decode()}-{python}-{hashlib.sha256(pinned).hexdigest()[:12]}"
    if not folder.exists():
        fresh = folder.with_name(f"{folder.name}.{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install"]
        done = subprocess.run(
            [*pip, "--require-hashes", "--only-binary", ":all:", "--target", fresh, "--requirement", PINNED],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert "HASHES" not in done.stderr, done.stderr
        if done.returncode:
            shutil.rmtree(fresh, ignore_errors=True)
            why = f"anthropic 1.x is missing: its programs did not run. pip said: {done.stderr[-500:]}"
            pytest.skip(disabled(why, "make test  # with access to a package index"))
        try:
            fresh.rename(folder)
        except OSError:  # another run was first
            shutil.rmtree(fresh)
    return folder


def test_the_same_programs_run_with_an_older_sdk(older: Path, tmp_path: Path) -> None:
    path = [str(older), *filter(None, [os.environ.get("PYTHONPATH")])]
    pytest_options = [
        "-q",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        f"--deselect={SLOW}",
        f"--basetemp={tmp_path / 'base'}",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *pytest_options, *PROGRAMS],
        cwd=HERE.parent.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "ANTHROPIC_SDK_EXPECTED": "1."},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
