"""The same application for three carriers: run as a module it is the built-in server, ``app`` is ASGI."""

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable
from pathlib import Path

import structlog
import uvloop

from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.asgi import asgi_app
from durable_sessions.http.carrier.message import Answer, Request, Response
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.node.node import Node
from durable_sessions.settings import Settings

structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
sys.setswitchinterval(0.0005)  # as ``durable-sessions serve`` does

_EMPTY = Response(204, [])
_nodes: list[Node] = []
"""The running node, or none where only the carrier is measured."""


async def _startup() -> None:
    if os.environ["BENCH_APPLICATION"] == "streams":
        _nodes.append(await Node.open(Settings(data=Path(os.environ["BENCH_DATA"]))))


async def _shutdown() -> None:
    for node in _nodes:
        await node.close()


def _handle(request: Request) -> Answer | Awaitable[Answer]:
    return _nodes[0].app(request) if _nodes else _EMPTY


app = asgi_app(_handle, startup=_startup, shutdown=_shutdown, answer_format=ANSWER_FORMAT)


async def _serve_empty(port: int) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server = HttpServer(lambda request: _EMPTY, answer_format=ANSWER_FORMAT)
    await server.start("127.0.0.1", port)
    await stop.wait()
    await server.shutdown(1)


if __name__ == "__main__":
    uvloop.run(_serve_empty(int(sys.argv[1])))
