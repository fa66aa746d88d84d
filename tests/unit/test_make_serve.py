"""``make serve`` tells what it does while it installs: half a minute of silence looks like a hang."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.skips import disabled

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(
    shutil.which("make") is None,
    reason=disabled("make is missing: what make serve shows was not looked at", "apt-get install make"),
)
def test_an_installation_is_announced_and_shows_its_progress(tmp_path: Path) -> None:
    asked = ["make", "--dry-run", "--no-print-directory", "serve", f"VENV={tmp_path / '.venv'}"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True)
    steps = done.stdout.splitlines()
    announced = next(at for at, step in enumerate(steps) if re.match("echo .*half a minute", step))
    installs = next(at for at, step in enumerate(steps) if "--requirement requirements.lock" in step)
    assert announced < installs
    assert "--quiet" not in steps[installs]
    assert steps[-1].endswith("durable-sessions serve")
