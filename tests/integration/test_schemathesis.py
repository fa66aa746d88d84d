"""Schemathesis sends what ``/openapi.json`` allows and what it does not: no 500, nothing undescribed."""

import asyncio
import json
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
FREE_EVENT, NEW_EVENT = "#/components/schemas/FreeEvent", "#/components/schemas/NewEvent"
WORKED = {"budget": {"type": "limit", "max_list_cost": {"amount": "500", "currency": "USD"}}}
SEEN = [{"rel": "because", "id": "call-1"}]
STRICT = [
    {"type": "ds.fact", "key": "cause", "value": {"deep": [1]}, "refs": SEEN},
    {"type": "ds.checkpoint", "id": "cp-1", "units": 1, "next": "f1", "instructions": "Go on"},
    {"type": "ds.context.compacted", "from": 0, "to": 2, "summary": "It began"},
    {"type": "ds.approval.requested", "question": "Which one?", "blocking": False},
    {"type": "ds.budget.set", "tokens": 1_000_000},
    {"type": "ds.sandbox", "sandbox": "box", "backend": "local", "status": "ready"},
    {"type": "ds.memory.written", "scope": "user:me", "key": "k", "value": 1, "why": "state", "refs": SEEN},
]
"""The routes of units of work have something to show."""
ENDLESS = ("streamEvents", "streamSession", "streamThread")
"""These answer for as long as the session is open; tests/integration/test_sessions_live.py has them."""


async def test_answers_are_as_described(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, sse_seconds_max=0.1, live_list_seconds_max=0.1)
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
            *("--url", server.url),
        ]
        run = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("schemathesis")),
            "run",
            str(await _description(server.url, tmp_path / "openapi.json")),
            *options,
            cwd=tmp_path,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        said, _ = await run.communicate()
    assert run.returncode == 0, said.decode()


async def _description(url: str, file: Path) -> Path:
    """Fetch the document, and keep strict events as single events only: in every list they take a minute."""
    async with httpx2.AsyncClient(base_url=url, timeout=PATIENCE_SECONDS) as client:
        text = (await client.get("/openapi.json")).text
    assert text.count(NEW_EVENT) > 3
    found = json.loads(text.replace(NEW_EVENT, FREE_EVENT))
    body = found["paths"]["/v1/sessions/{session_id}/events"]["post"]["requestBody"]["content"]
    alternatives = body["application/json"]["schema"]["anyOf"]
    assert alternatives[-1] == {"$ref": FREE_EVENT}
    alternatives[-1] = {"$ref": NEW_EVENT}
    file.write_text(json.dumps(found))
    return file


async def _prepare(url: str) -> None:
    """Make what the examples of the description are about, so that they are found."""
    key = {"x-api-key": SECRET}
    async with httpx2.AsyncClient(base_url=url, headers=key, timeout=PATIENCE_SECONDS) as client:
        events = [
            {"type": "user.message"},
            {"type": "agent.tool_use", "id": "call-1", "session_thread_id": "sthr_review"},
        ]
        await client.put("/v1/sessions/build-41", json={"initial_events": events})
        worked = {"goal": "Mend it", "outcome": {"features": [{"id": "f1", "text": "It works"}]}, **WORKED}
        made = await client.put("/v1/sessions/build-42", json={**worked, "initial_events": events + STRICT})
        assert made.status_code == 201, made.text
        fork = {"Stream-Forked-From": "/v1/sessions/build-42"}
        assert (await client.put("/v1/sessions/build-42-b", headers=fork)).status_code == 201
        assert (await client.post("/v1/sessions/build-42/wake", json={})).status_code == 200
        await client.put("/v1/stream/agents/build-42", json={"n": 1})
        await client.put("/v1/stream/wakes/summaries", headers={"Content-Type": "application/json"})
        wakes = {"type": "pull-wake", "pattern": "agents/*", "wake_stream": "wakes/summaries"}
        await client.put("/v1/stream/__ds/subscriptions/summaries", json=wakes)
