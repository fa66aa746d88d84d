from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from durable_sessions.http.api.answer_format import ANSWER_FORMAT
from durable_sessions.http.carrier.message import Handler, Request, Response
from durable_sessions.http.carrier.server import HttpServer
from durable_sessions.limits import DEFAULT_LIMITS

Serve = Callable[..., Awaitable[HttpServer]]


def echo(request: Request) -> Response:
    """Answer with what arrived."""
    seen = b"%b %b ? %b\n" % (request.method, request.path, request.query)
    return Response(200, [(b"Content-Type", b"text/plain")], seen + request.body)


@pytest.fixture
async def serve(anyio_backend: object) -> AsyncIterator[Serve]:
    """Start servers that end with the test."""
    servers: list[HttpServer] = []

    async def start(handler: Handler = echo, **limits: Any) -> HttpServer:
        server = HttpServer(handler, replace(DEFAULT_LIMITS, **limits), answer_format=ANSWER_FORMAT)
        await server.start("127.0.0.1", 0)
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.shutdown(0)
        assert server.open_connections == 0
        assert server.request_bytes == 0
