"""Lowers the priority of the merge threads of the search process below everything else."""

import os
import sys
from contextlib import suppress
from pathlib import Path

from durable_sessions.threads import NICENESS

_MERGING = "merge_thread"
"""The prefix of the names of Tantivy's merge threads; no search ever waits for one."""


def lower_merge_threads() -> None:
    """Lower the priority of the threads that merge segments."""
    if sys.platform != "linux":
        return
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            if (task / "comm").read_text().startswith(_MERGING):
                os.setpriority(os.PRIO_PROCESS, int(task.name), NICENESS)
