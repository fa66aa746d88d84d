"""A server with some history, and the official MCP client: in process, over stdio, and over HTTP."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest
from mcp import Client as McpClient
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from durable_sessions import Client
from durable_sessions.mcp.connections import Connections
from durable_sessions.mcp.options import PastOptions
from durable_sessions.mcp.server import PastServer
from durable_sessions.testing import BackgroundServer, server
from tests.support.waiting import PATIENCE_SECONDS, wait_until

SECRET = "AKIAIOSFODNN7EXAMPLE"  # the one of AWS' own documentation


@pytest.fixture(scope="module")
def running() -> Iterator[BackgroundServer]:
    with server() as running:
        with Client(running.url) as client:
            client.sessions.create("deploy", title="Deploy the shop", metadata={"team": "infra", "stage": 2})
            client.session("deploy").append(
                [
                    {"id": "ask", "type": "user.message", "content": "Deploy it."},
                    {
                        "id": "call",
                        "type": "agent.tool_use",
                        "name": "bash",
                        "input": {"command": "make deploy"},
                    },
                    {
                        "id": "result",
                        "type": "agent.tool_result",
                        "tool_use_id": "call",
                        "is_error": True,
                        "content": f"connection refused on port 5432 with the key {SECRET}",
                    },
                ]
            )
            client.sessions.create("secret-plan", metadata={"team": "board"})
            client.session("secret-plan").append(
                {"id": "plan", "type": "user.message", "content": "refused offer"}
            )
            client.session("secret-plan").remember(
                "plan", "buy the competitor", scope="project:board", why="reflection", because=["plan"]
            )
        yield running


@dataclass
class Tools:
    """The tools of one ``ds mcp``, called by the official client."""

    client: McpClient
    texts: list[str] = field(default_factory=list)

    async def call(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Return the structured answer of a tool; the text that a model gets says the same."""
        answer = await self.client.call_tool(name, arguments)
        [content] = answer.content
        assert content.type == "text"
        assert not answer.is_error, content.text
        assert answer.structured_content is not None
        assert json.loads(content.text) == answer.structured_content
        self.texts.append(content.text)
        return dict(answer.structured_content)

    async def refused(self, name: str, **arguments: Any) -> str:
        """Return what a model is told of a failure."""
        answer = await self.client.call_tool(name, arguments)
        assert answer.is_error, answer.structured_content
        [content] = answer.content
        assert content.type == "text"
        return content.text

    async def names(self) -> set[str]:
        return {tool.name for tool in (await self.client.list_tools()).tools}


@asynccontextmanager
async def in_process(url: str, options: PastOptions, api_key: str | None = None) -> AsyncIterator[Tools]:
    connections = Connections(url, api_key)
    try:
        async with McpClient(PastServer(connections, options)) as client:
            yield Tools(client)
    finally:
        await connections.close()


@asynccontextmanager
async def over_stdio(url: str, *words: str, **environment: str) -> AsyncIterator[Tools]:
    command = ["-m", "durable_sessions", "mcp", "--url", url, *words]
    parameters = StdioServerParameters(
        command=sys.executable, args=command, env={**os.environ, **environment}
    )
    async with McpClient(parameters) as client:
        yield Tools(client)


@dataclass
class HttpServer:
    """A ``ds mcp --http``."""

    url: str

    @asynccontextmanager
    async def tools(self, api_key: str | None = None) -> AsyncIterator[Tools]:
        headers = {} if api_key is None else {"Authorization": f"Bearer {api_key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=PATIENCE_SECONDS) as http,
            McpClient(streamable_http_client(self.url, http_client=http)) as client,
        ):
            yield Tools(client)


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def serve_http(url: str, *words: str, **environment: str) -> Iterator[HttpServer]:
    """Run ``ds mcp --http`` until the test is over."""
    port = free_port()
    command = [sys.executable, "-m", "durable_sessions", "mcp", "--url", url, "--http", str(port), *words]
    process = subprocess.Popen(
        command, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True, start_new_session=True
    )

    def answers() -> bool:
        assert process.poll() is None, process.stderr and process.stderr.read()
        try:
            return httpx2.get(f"http://127.0.0.1:{port}/nothing", timeout=PATIENCE_SECONDS).status_code > 0
        except httpx2.ConnectError:
            return False

    try:
        wait_until(answers)
        yield HttpServer(f"http://127.0.0.1:{port}/mcp")
    finally:
        process.terminate()
        process.communicate(timeout=PATIENCE_SECONDS)
