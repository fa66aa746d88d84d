"""Starting a search worker: whoever gives up meanwhile leaves no process behind."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.search import link
from durable_sessions.search.link import WorkerLink

pytestmark = pytest.mark.anyio


async def test_a_start_that_is_given_up_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go = threading.Event(), threading.Event()
    started: list[subprocess.Popen[bytes]] = []

    def start(*_: object) -> subprocess.Popen[bytes]:
        begun.set()
        go.wait()
        waiting = [sys.executable, "-c", "import time; time.sleep(600)"]
        started.append(subprocess.Popen(waiting, stderr=subprocess.PIPE))
        return started[0]

    monkeypatch.setattr(link, "_start", start)
    opening = asyncio.create_task(WorkerLink.open(tmp_path, "lineage", DEFAULT_LIMITS))
    await asyncio.to_thread(begun.wait)
    opening.cancel()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert started[0].returncode is not None
