"""MCP's own conformance suite, unmodified, against ``ds mcp --http``: every scenario of it."""

import re
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

NONE, FAILED, BY_CHANCE = "Passed: 0/0, 0 failed", "Passed: 0/1, 1 failed", "Passed: 1/1, 0 failed"
FIXTURE = "calls a tool, a resource or a prompt of a server that was written for the suite"
STATELESS = "wants a server that keeps a connection to its client; this one keeps nothing between requests"
NOT_OFFERED = "what it asks for is optional, and not among the capabilities that this server declares"
OTHERS = {
    **dict.fromkeys(
        (
            "tools-call-image",
            "tools-call-audio",
            "tools-call-embedded-resource",
            "tools-call-mixed-content",
            "tools-call-with-progress",
            "json-schema-2020-12",
            "resources-read-text",
            "resources-read-binary",
            "resources-templates-read",
            "prompts-get-simple",
            "prompts-get-with-args",
            "prompts-get-embedded-resource",
            "prompts-get-with-image",
        ),
        (FAILED, FIXTURE),
    ),
    "tools-call-simple-text": (BY_CHANCE, f"{FIXTURE}; any text passes, also that of a refusal"),
    **dict.fromkeys(
        (
            "tools-call-sampling",
            "tools-call-elicitation",
            "elicitation-sep1034-defaults",
            "elicitation-sep1330-enums",
        ),
        (FAILED, f"{FIXTURE}; {STATELESS}"),
    ),
    **dict.fromkeys(("server-sse-polling", "server-sse-multiple-streams"), (NONE, STATELESS)),
    **dict.fromkeys(
        (
            "logging-set-level",
            "tools-call-with-logging",
            "completion-complete",
            "resources-subscribe",
            "resources-unsubscribe",
        ),
        (FAILED, NOT_OFFERED),
    ),
}
"""What the other scenarios come to, and why they are not about this server."""


@pytest.fixture(scope="module")
def http(running: BackgroundServer) -> Iterator[HttpServer]:
    yield from serve_http(running.url)


def said(*words: str) -> str:
    """Return what the suite prints."""
    node = node_22(SUITE)
    folder = installed(PROJECT, "mcp", missing=SUITE)
    done = subprocess.run(
        [node, PROGRAM, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return done.stdout + done.stderr


@pytest.mark.parametrize("scenario", CHECKS)
def test_the_suite_of_mcp_passes(http: HttpServer, scenario: str) -> None:
    count = CHECKS[scenario]
    found = said("server", "--url", http.url, "--scenario", scenario)
    assert f"Passed: {count}/{count}, 0 failed" in found, found[-2_500:]


@pytest.mark.parametrize("scenario", OTHERS)
def test_what_is_not_about_this_server_comes_to_what_it_did(http: HttpServer, scenario: str) -> None:
    outcome, reason = OTHERS[scenario]
    found = said("server", "--url", http.url, "--scenario", scenario)
    assert outcome in found, f"expected, since it {reason}: {outcome}\n{found[-2_500:]}"


def test_every_scenario_of_the_suite_is_named_here() -> None:
    listed = re.findall(r"^  - (\S+)", said("list", "--server"), re.MULTILINE)
    assert sorted(listed) == sorted(CHECKS.keys() | OTHERS.keys())
