"""Agents and environments are found from whichever partition a session is created in."""

from pathlib import Path
from typing import Any

import pytest

from durable_sessions.http.api.neighbours import Neighbours
from tests.support.differential import rivals

pytestmark = pytest.mark.anyio

STRICT = {"anthropic-version": "2023-06-01"}
MODEL = {"name": "helper", "model": "claude-sonnet-4-5"}


async def test_sessions_get_their_agent_as_with_one_partition(tmp_path: Path) -> None:
    async with rivals(tmp_path) as all_of_them:
        ask = all_of_them.ask
        helper = (await ask("POST", "/v1/agents", json={**MODEL, "system": "one"}))[2]["id"]
        roster = {"type": "coordinator", "agents": [{"type": "agent", "id": helper}]}
        lead = (await ask("POST", "/v1/agents", json={**MODEL, "name": "lead", "multiagent": roster}))[2][
            "id"
        ]
        await ask("POST", f"/v1/agents/{helper}", json={"system": "two", "version": 1})
        environment = (await ask("POST", "/v1/environments", json={"name": "cloud"}))[2]["id"]
        given: list[Any] = [
            helper,
            lead,
            {"id": helper, "version": 1},
            {"id": helper, "version": 2, "system": "mine"},
            {"id": helper, "version": 3},
            {"id": lead, "version": 0},
            "agent_unknown_to_all",
            {"id": "agent_unknown_to_all", "version": 7},
            {"name": "no id"},
        ]
        for turn in range(2):
            for number, agent in enumerate(given):
                body = {"id": f"session-{turn}-{number}", "agent": agent, "environment_id": environment}
                await ask("POST", "/v1/sessions", json=body)
                await ask("POST", "/v1/sessions", json=body, headers=STRICT)
                await ask("PUT", f"/v1/sessions/again-{turn}-{number}", json={"agent": agent})
                await ask("GET", f"/v1/sessions/session-{turn}-{number}", headers=STRICT)
            # What was archived is refused in Anthropic's dialect, though its versions are remembered.
            for path in (f"/v1/agents/{helper}", f"/v1/environments/{environment}"):
                await ask("POST", f"{path}/archive")
        await ask("GET", "/v1/agents", params={"include_archived": "true"})
        await ask("GET", f"/v1/agents/{helper}/versions")


async def test_the_document_of_a_version_is_asked_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    call = Neighbours.read

    async def counted(self: Neighbours, partition: int, path: bytes, *given: Any) -> Any:
        asked.append(given[1])
        return await call(self, partition, path, *given)

    monkeypatch.setattr(Neighbours, "read", counted)
    async with rivals(tmp_path, counts=(2,)) as all_of_them:
        agent = (await all_of_them.ask("POST", "/v1/agents", json=MODEL))[2]["id"]
        for number in range(12):
            body = {"id": f"session-{number}", "agent": {"id": agent, "version": 1}}
            assert (await all_of_them.ask("POST", "/v1/sessions", json=body))[0] == 201
        assert len(asked) == 1
        for number in range(12, 24):
            body = {"id": f"session-{number}", "agent": agent}
            assert (await all_of_them.ask("POST", "/v1/sessions", json=body))[0] == 201
        assert len(asked) > 2, "which version is the newest only the owner knows"
