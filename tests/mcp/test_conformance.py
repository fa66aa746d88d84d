"""MCP's own conformance suite, unmodified, against ``ds mcp --http``: the scenarios that need no fixtures."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_sessions.testing import BackgroundServer
from tests.mcp.conftest import HttpServer, serve_http
from tests.support.npm import installed, node_22
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.conformance
PROJECT = Path(__file__).parent.parent / "conformance" / "mcp"
SUITE = "MCP's conformance suite"
PROGRAM = "node_modules/@modelcontextprotocol/conformance/dist/index.js"
CHECKS = {
    "server-initialize": 1,
    "ping": 1,
    "tools-list": 1,
    "tools-call-error": 1,
    "resources-list": 1,
    "prompts-list": 1,
    "dns-rebinding-protection": 2,
}


@pytest.fixture(scope="module")
def http(running: BackgroundServer) -> Iterator[HttpServer]:
    yield from serve_http(running.url)


@pytest.mark.parametrize("scenario", CHECKS)
def test_the_suite_of_mcp_passes(http: HttpServer, scenario: str) -> None:
    node = node_22(SUITE)
    folder = installed(PROJECT, "mcp", missing=SUITE)
    command = [node, PROGRAM, "server", "--url", http.url, "--scenario", scenario]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    count = CHECKS[scenario]
    assert f"Passed: {count}/{count}, 0 failed" in done.stdout, done.stdout[-2_000:] + done.stderr[-500:]
