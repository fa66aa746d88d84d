"""The supervisor of ``serve --workers N``: it starts the workers and keeps the port, and sees no data."""

import asyncio
import os
import secrets
import shutil
import sys
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import structlog

from durable_sessions import __version__
from durable_sessions.node.link_handshake import SECRET_BYTES_MIN
from durable_sessions.node.listen_policy import reserved_port
from durable_sessions.node.worker_group import WorkerGroup
from durable_sessions.node.worker_id import WorkerId
from durable_sessions.node.worker_start import WorkerStart
from durable_sessions.node.workers import Workers
from durable_sessions.settings import Settings

logger = structlog.get_logger(__name__)

_COMMAND = (sys.executable, "-m", "durable_sessions.cli.worker")


class Supervised(NamedTuple):
    """How it ended: the exit status, and whether any worker has served."""

    status: int
    has_served: bool


def supervise(settings: Settings) -> Supervised:
    """Run workers until SIGTERM or SIGINT."""
    logger.info("starting", version=__version__, pid=os.getpid(), workers=settings.workers)
    sockets = Path(mkdtemp(prefix="durable-sessions-"))
    try:
        with reserved_port(settings.host, settings.port) as port:
            return asyncio.run(_run(replace(settings, port=port), sockets))
    finally:
        shutil.rmtree(sockets, ignore_errors=True)


async def _run(settings: Settings, sockets: Path) -> Supervised:
    secret = secrets.token_bytes(SECRET_BYTES_MIN)
    limits = settings.limits()
    start = WorkerStart(settings, limits, WorkerGroup(WorkerId(of=settings.workers), sockets, secret))

    def start_message(worker: WorkerId) -> bytes:
        return start.of(worker).encode()

    def serving() -> None:
        logger.info("listening", **settings.address(), workers=settings.workers)

    workers = Workers(_COMMAND, start_message, settings.workers, limits, serving)
    status = await workers.run()
    logger.info("stopped")
    return Supervised(status, workers.has_served)
