"""The process of a node of a cluster."""

import asyncio
import os
import signal

import structlog
import uvloop

from durable_sessions import __version__
from durable_sessions.cli.server_process import RefusedStartError, prepare_process
from durable_sessions.errors import DurableSessionsError
from durable_sessions.node.cluster_node import ClusterNode
from durable_sessions.settings import Settings

logger = structlog.get_logger(__name__)


def run_node(settings: Settings) -> None:
    """Serve as a node of a cluster until SIGTERM or SIGINT."""
    prepare_process()
    uvloop.run(_serve(settings))


async def _serve(settings: Settings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    logger.info("starting", version=__version__, pid=os.getpid(), cluster=settings.cluster)
    try:
        node = await ClusterNode.open(settings, settings.limits())
        await node.listen()
    except DurableSessionsError as error:
        raise RefusedStartError(error) from error
    await stop.wait()
    logger.info("stopping")
    await node.close()
