"""The low priority of threads of the search process, behind everything else on the machine."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from threading import get_native_id

NICENESS = 10
_MERGING = "merge_thread"
"""How the names of Tantivy's threads begin that merge what is on disk; nobody ever waits for one."""


def stand_back() -> None:
    """Lower the priority of this thread for good; only Linux has a priority per thread."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, get_native_id(), NICENESS)


def stand_back_while_merging() -> None:
    """Lower the priority of the threads that merge."""
    if sys.platform != "linux":
        return
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # it has ended meanwhile
            if (task / "comm").read_text().startswith(_MERGING):
                os.setpriority(os.PRIO_PROCESS, int(task.name), NICENESS)
