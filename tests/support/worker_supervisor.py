"""A supervisor of stand-in workers.

Run it with ``python -m tests.support.worker_supervisor DIRECTORY OF [STOP_SECONDS]``.
"""

import asyncio
import sys
from dataclasses import replace

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node.worker_id import WorkerId
from durable_sessions.node.workers import Workers

COMMAND = [sys.executable, "-m", "tests.support.stand_in_worker", sys.argv[1]]


def start(worker: WorkerId) -> bytes:
    return str(worker.number).encode()


async def supervise() -> int:
    limits = replace(
        DEFAULT_LIMITS,
        worker_start_failures_max=3,
        worker_stop_seconds_max=float(sys.argv[3]) if len(sys.argv) > 3 else 3600.0,
    )
    return await Workers(COMMAND, start, int(sys.argv[2]), limits).run()


if __name__ == "__main__":
    sys.exit(asyncio.run(supervise()))
