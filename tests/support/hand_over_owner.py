"""A process that takes connections from others: ``python -m tests.support.hand_over_owner PATH uvloop``."""

import asyncio
import os
import sys
from pathlib import Path

import uvloop

from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import Request, Response
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node.handover import HandOverReceiver
from tests.support.descriptors import open_sockets


def answer(request: Request) -> Response:
    if request.path == b"/sockets":
        return Response(200, [], b"%d" % open_sockets())
    return Response(200, [], b"%d %b" % (os.getpid(), request.body))


async def serve(path: Path) -> None:
    server = HttpServer(answer, answer_format=ANSWER_FORMAT)
    await server.start("127.0.0.1", 0)
    receiver = HandOverReceiver(server, DEFAULT_LIMITS)
    receiver.listen(path)
    sys.stdout.write(f"{server.port}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)  # until the parent has gone
    await receiver.close()
    await server.shutdown(0)


if __name__ == "__main__":
    (uvloop.run if sys.argv[2] == "uvloop" else asyncio.run)(serve(Path(sys.argv[1])))
