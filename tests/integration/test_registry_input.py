"""Parts of agents and environments that are no objects where they should be: refused, not a fault."""

from typing import Any

import httpx2
import pytest

pytestmark = pytest.mark.anyio

AGENT = {"name": "Builder", "model": "m"}


@pytest.mark.parametrize("configs", [5, "bash", {"name": "bash"}])
async def test_configs_of_a_toolset_are_a_list(api: httpx2.AsyncClient, configs: object) -> None:
    tool = {"type": "agent_toolset_20260401", "configs": configs}
    refused = await api.post("/agents", json={**AGENT, "tools": [tool]})
    assert refused.status_code == 400
    assert refused.json()["error"]["details"]["error_code"] == "invalid_agent"


@pytest.mark.parametrize("config", [{"networking": "none"}, {"packages": ["git"]}, {"packages": "git"}])
async def test_parts_of_an_environment_are_objects(api: httpx2.AsyncClient, config: dict[str, Any]) -> None:
    refused = await api.post("/environments", json={"name": "e", "config": config})
    assert refused.status_code == 400
    assert refused.json()["error"]["details"]["error_code"] == "invalid_environment"
