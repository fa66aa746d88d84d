"""Lowers the priority of background threads of the search process below everything else."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from threading import get_native_id

NICENESS = 10
_MERGING = "merge_thread"
"""The prefix of the names of Tantivy's merge threads; no search ever waits for one."""


def lower_this_thread() -> None:
    """Lower the priority of this thread for good; only Linux has a priority per thread."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, get_native_id(), NICENESS)


def lower_merge_threads() -> None:
    """Lower the priority of the threads that merge segments."""
    if sys.platform != "linux":
        return
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            if (task / "comm").read_text().startswith(_MERGING):
                os.setpriority(os.PRIO_PROCESS, int(task.name), NICENESS)
