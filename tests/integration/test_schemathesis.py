"""Schemathesis sends what ``/openapi.json`` allows and what it does not: no 500, nothing undescribed."""

import asyncio
import sys
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import local_server
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

SECRET = "a-secret-of-the-tests"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
ENDLESS = ("streamEvents", "streamSession", "streamThread")
"""These answer for as long as the session is open; tests/integration/test_sessions_live.py has them."""


async def test_answers_are_as_described(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, sse_seconds_max=0.1)
    async with local_server(
        tmp_path / "data", long_poll_seconds=0.05, limits=limits, api_key=SECRET
    ) as server:
        await _prepare(server.url)
        options = [
            *("--seed", "1", "--max-examples", "5", "--no-shrink", "--request-timeout", "20"),
            *("--phases", "examples,coverage,fuzzing,stateful", "--checks", ",".join(CHECKS)),
            *("--header", f"x-api-key: {SECRET}", "--warnings", "off"),
            # HEAD and OPTIONS are described alike everywhere; test_openapi.py asks for each of them.
            *("--exclude-method", "OPTIONS", "--exclude-method", "HEAD"),
            *(word for name in ENDLESS for word in ("--exclude-operation-id", name)),
        ]
        run = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            server.url + "/openapi.json",
            *options,
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await run.communicate()
    assert run.returncode == 0, said.decode()


async def _prepare(url: str) -> None:
    """Make what the examples of the description are about, so that they are found."""
    key = {"x-api-key": SECRET}
    async with httpx2.AsyncClient(base_url=url, headers=key, timeout=PATIENCE_SECONDS) as client:
        events = [
            {"type": "user.message"},
            {"type": "agent.tool_use", "id": "call-1", "session_thread_id": "sthr_review"},
        ]
        await client.put("/v1/sessions/build-41", json={"initial_events": events})
        await client.put("/v1/sessions/build-42", json={"initial_events": events})
        await client.put("/v1/stream/agents/build-42", json={"n": 1})
        await client.put("/v1/stream/wakes/summaries", headers={"Content-Type": "application/json"})
        wakes = {"type": "pull-wake", "pattern": "agents/*", "wake_stream": "wakes/summaries"}
        await client.put("/v1/stream/__ds/subscriptions/summaries", json=wakes)
