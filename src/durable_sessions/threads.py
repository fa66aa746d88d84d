"""Named pools of threads, one for each purpose, so that what hangs in one holds up none of the others."""

import asyncio
import os
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import get_native_id
from typing import TypeVar

from durable_sessions.limits import DEFAULT_LIMITS

T = TypeVar("T")

NICENESS = 10
"""How much lower the priority of background threads is."""


def lower_this_thread() -> None:
    """Lower the priority of this thread for good; only Linux has a priority per thread."""
    if sys.platform == "linux":
        os.setpriority(os.PRIO_PROCESS, get_native_id(), NICENESS)


class Pool(ThreadPoolExecutor):
    """Threads for one purpose; they are made when they are needed, and named after it."""

    def __init__(self, purpose: str, threads_max: int) -> None:
        super().__init__(threads_max, thread_name_prefix=purpose)

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Return what ``work`` returns, in a thread of this pool."""
        return await asyncio.get_running_loop().run_in_executor(self, work, *arguments)


BUCKET_READS = Pool("bucket-read", DEFAULT_LIMITS.bucket_read_threads_max)
BUCKET_WRITES = Pool("bucket-write", DEFAULT_LIMITS.bucket_write_threads_max)
CPU = Pool("cpu", DEFAULT_LIMITS.cpu_threads_max)
"""For work that never waits: digests, encoding and decoding."""
FILES = Pool("files", DEFAULT_LIMITS.dossier_threads_max)
"""For the temporary files of large answers."""
