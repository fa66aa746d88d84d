"""The process that serves: alone, or as one of several workers."""

import asyncio
import os
import signal
import sys
from typing import Any, Protocol

import structlog
import uvloop

from durable_sessions import __version__
from durable_sessions.cli.command_errors import data_in_use
from durable_sessions.errors import DurableSessionsError, LogLockedError
from durable_sessions.limits import Limits
from durable_sessions.node.garbage_collector import COLLECTOR
from durable_sessions.node.node import Node
from durable_sessions.node.worker_group import WorkerGroup
from durable_sessions.settings import Settings
from durable_sessions.storage.allocator import reuse_large_buffers

logger = structlog.get_logger(__name__)

# A busy event loop keeps the GIL for this long while the log's thread, back from its sync, waits for it.
# Python's default of 5 ms would show in the latency of every append.
_SWITCH_SECONDS = 0.0005
_LOCK_RETRY_SECONDS = 0.05


class RefusedStartError(Exception):
    """The server failed before it served a request."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class Supervision(Protocol):
    """What a worker tells its supervisor."""

    def begin(self) -> None:
        """Listen to the supervisor; called on the event loop before anything else."""
        ...

    def serving(self) -> None:
        """Tell that requests are answered."""
        ...

    async def drained(self) -> None:
        """Tell that no clients are left, and wait until the other workers have none."""
        ...


def prepare_process() -> None:
    """Set what is set once for a process that serves."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    COLLECTOR.bind()
    reuse_large_buffers()


def run(
    settings: Settings,
    limits: Limits | None = None,
    group: WorkerGroup | None = None,
    supervision: Supervision | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT; a worker has a ``group`` and is under ``supervision``."""
    prepare_process()
    try:
        uvloop.run(_serve(settings, limits or settings.limits(), group, supervision))
    except RefusedStartError as refused:
        if isinstance(refused.error, LogLockedError):
            raise RefusedStartError(data_in_use(refused.error)) from None
        raise


async def _serve(
    settings: Settings,
    limits: Limits,
    group: WorkerGroup | None,
    supervision: "Supervision | None",
) -> None:
    if supervision is not None:
        supervision.begin()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    logger.info("starting", version=__version__, pid=os.getpid())
    try:
        node = await _opened(settings, limits, group)
    except DurableSessionsError as error:
        raise RefusedStartError(error) from error
    try:
        failed, stopped = asyncio.ensure_future(node.until_failed()), asyncio.ensure_future(stop.wait())
        await _listen(node, stopped)
        if supervision is not None and not stopped.done():
            supervision.serving()
        await asyncio.wait((failed, stopped), return_when=asyncio.FIRST_COMPLETED)
        logger.info("stopping")
        if failed.done():
            raise failed.result()
        failed.cancel()
    finally:
        await node.close(None if supervision is None else supervision.drained)


async def _opened(settings: Settings, limits: Limits, group: WorkerGroup | None) -> Node:
    """Open the node; a worker waits for the one before it, which ends because its supervisor has died."""
    loop = asyncio.get_running_loop()
    give_up_at = loop.time() + (0.0 if group is None else limits.worker_lock_seconds_max)
    while True:
        try:
            return await Node.open(settings, limits=limits, group=group)
        except LogLockedError:
            if loop.time() >= give_up_at:
                raise
        await asyncio.sleep(_LOCK_RETRY_SECONDS)


async def _listen(node: Node, stopped: "asyncio.Future[Any]") -> None:
    """Listen, which in a worker waits for another one; a stop ends that."""
    listening = asyncio.ensure_future(node.listen())
    await asyncio.wait((listening, stopped), return_when=asyncio.FIRST_COMPLETED)
    if not listening.done():
        listening.cancel()
        await asyncio.wait((listening,))
    try:
        await listening
    except asyncio.CancelledError:
        pass
    except DurableSessionsError as error:
        raise RefusedStartError(error) from error
