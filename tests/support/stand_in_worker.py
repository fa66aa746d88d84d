"""A worker that serves nothing: ``python -m tests.support.stand_in_worker DIRECTORY``.

It writes its process id into the directory each time it is started. A file there tells it what to do: to
refuse its start with a status, or not to stop.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from durable_sessions.node.worker_channel import WorkerChannel


async def work(directory: Path) -> None:
    channel = WorkerChannel()
    number = channel.start().decode()
    ended = asyncio.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        if not (directory / "stubborn").exists():
            asyncio.get_running_loop().add_signal_handler(one, ended.set)
        else:
            signal.signal(one, signal.SIG_IGN)
    with (directory / f"started-{number}").open("a") as started:
        started.write(f"{os.getpid()}\n")
    refusal = directory / f"refuse-{number}"
    if refusal.exists():
        sys.stderr.write(f"worker {number} cannot start\n")
        sys.exit(int(refusal.read_text()))
    channel.listen(ended.set)
    channel.tell_ready()
    (directory / f"ready-{number}").touch()
    await ended.wait()
    await channel.drained(3600.0)
    (directory / f"ended-{number}").touch()


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1])))
