"""Runs the MCP server: on standard input and output for one agent, or over HTTP for many."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import uvicorn

from durable_sessions.mcp import web
from durable_sessions.mcp.connections import Connections
from durable_sessions.mcp.options import PastOptions
from durable_sessions.mcp.server import PastServer

CONNECTIONS_MAX = 256


def serve_stdio(url: str, api_key: str | None, principal: str | None, options: PastOptions) -> None:
    """Serve one agent until it closes standard input."""

    async def serve() -> None:
        connections = Connections(url, api_key, principal)
        try:
            await PastServer(connections, options).run_stdio_async()
        finally:
            await connections.close()

    asyncio.run(serve())


def serve_http(
    url: str,
    principal: str | None,
    options: PastOptions,
    host: str,
    port: int,
    *,
    hosts: Iterable[str],
    origins: Iterable[str],
    ready: Callable[[int], None],
) -> None:
    """Serve until a signal comes; ``ready`` is told the port. Each caller sends a key of its own."""

    async def serve() -> None:
        connections = Connections(url, None, principal)
        gate = web.application(PastServer(connections, options), url, (*hosts, host), origins)
        config = uvicorn.Config(
            gate,
            host=host,
            port=port,
            log_level="warning",
            limit_concurrency=CONNECTIONS_MAX,
            server_header=False,
        )
        try:
            await _Announced(config, ready).serve()
        finally:
            await connections.close()

    asyncio.run(serve())


class _Announced(uvicorn.Server):
    """Says where it listens, as soon as it does."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[int], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: Any = None) -> None:
        """Begin to listen."""
        await super().startup(sockets)
        if self.started and self.servers:
            self._ready(self.servers[0].sockets[0].getsockname()[1])
