"""Shapes that no type checker would let through are refused in words, never by a fault of the server."""

from typing import Any

import pytest

from tests.anthropic.harness import Harness

pytestmark = pytest.mark.anyio

AGENT = {"name": "a", "model": "m"}
SESSION = {"agent": "a", "environment_id": "e"}
WRONG: list[tuple[str, dict[str, Any]]] = [
    ("agents", {**AGENT, "model": 5}),
    ("agents", {**AGENT, "model": {"id": 5}}),
    ("agents", {**AGENT, "tools": 5}),
    ("agents", {**AGENT, "tools": ["bash"]}),
    ("agents", {**AGENT, "tools": [{"type": "agent_toolset_20260401", "configs": 5}]}),
    ("agents", {**AGENT, "tools": [{"type": "agent_toolset_20260401", "configs": ["bash"]}]}),
    ("agents", {**AGENT, "tools": [{"type": "mcp_toolset", "default_config": 5}]}),
    ("agents", {**AGENT, "skills": ["xlsx"]}),
    ("agents", {**AGENT, "metadata": {"k": 1}}),
    ("agents", {**AGENT, "multiagent": 5}),
    ("agents", {**AGENT, "multiagent": {"type": "coordinator"}}),
    ("agents", {**AGENT, "multiagent": {"type": "coordinator", "agents": [5]}}),
    ("agents", {**AGENT, "multiagent": {"type": "coordinator", "agents": [{"type": "agent"}]}}),
    (
        "agents",
        {
            **AGENT,
            "multiagent": {"type": "coordinator", "agents": [{"type": "agent", "id": "a", "version": "1"}]},
        },
    ),
    ("agents", {**AGENT, "multiagent": {"type": "multiagent_20261001", "subagents": 5}}),
    ("environments", {"name": "e", "config": 5}),
    ("environments", {"name": "e", "config": {"type": "cloud", "networking": 5}}),
    ("environments", {"name": "e", "config": {"type": "cloud", "packages": []}}),
    ("environments", {"name": "e", "metadata": {"k": []}}),
    ("sessions", {**SESSION, "agent": 5}),
    ("sessions", {**SESSION, "agent": {"type": "agent"}}),
    ("sessions", {**SESSION, "agent": {"id": "a", "version": "x"}}),
    ("sessions", {**SESSION, "agent": {"id": "a", "model": 5}}),
    ("sessions", {**SESSION, "agent": {"id": "a", "skills": 5}}),
    ("sessions", {**SESSION, "agent": {"id": "a", "mcp_servers": "x"}}),
    ("sessions", {**SESSION, "resources": [5]}),
    ("sessions", {**SESSION, "resources": [{"type": "file"}]}),
    ("sessions", {**SESSION, "resources": [{"type": "github_repository", "url": 5}]}),
    ("sessions", {**SESSION, "vault_ids": [5]}),
    ("sessions", {**SESSION, "initial_events": {}}),
    ("sessions/known", {"agent": {"tools": 5}}),
    ("sessions/known", {"agent": {"mcp_servers": 5}}),
    ("sessions/known", {"agent": {"system": "s"}}),
    ("sessions/known", {"agent": 5}),
    ("sessions/known", {"metadata": 5}),
    ("sessions/known", {"title": 5}),
]


async def test_a_wrong_shape_is_a_bad_request(harness: Harness) -> None:
    await harness.http.put("/v1/sessions/known", json={"agent": "a"})
    for path, body in WRONG:
        answer = await harness.http.post(
            f"/v1/{path}", json=body, headers={"anthropic-version": "2026-10-21"}
        )
        assert answer.status_code == 400, (path, body, answer.text)
        assert answer.json()["error"]["type"] == "invalid_request_error"
