"""Agents and environments: plain registries, with versions where the SDK has them."""

from datetime import timedelta

import pytest
from anthropic import AsyncAnthropic, BadRequestError, ConflictError, NotFoundError

from tests.anthropic.harness import Harness

pytestmark = pytest.mark.anyio


async def test_short_forms_of_an_agent_come_back_long(sdk: AsyncAnthropic) -> None:
    agent = await sdk.beta.agents.create(
        name="All",
        model={"id": "claude-opus-5-5", "effort": "high", "speed": "fast"},
        description="Has everything",
        system="Be kind.",
        metadata={"a": "1"},
        mcp_servers=[{"type": "url", "name": "docs", "url": "https://docs.example.com/mcp"}],
        skills=[
            {"type": "anthropic", "skill_id": "xlsx"},
            {"type": "custom", "skill_id": "s", "version": "7"},
        ],
        tools=[
            {
                "type": "agent_toolset_20260401",
                "default_config": {"permission_policy": {"type": "always_ask"}},
                "configs": [
                    {"name": "bash"},
                    {"name": "read", "permission_policy": {"type": "always_allow"}},
                    {"name": "web_fetch", "enabled": False},
                    {"name": "web_search", "allowed_domains": ["example.com"]},
                ],
            },
            {"type": "mcp_toolset", "mcp_server_name": "docs", "configs": [{"name": "search"}]},
            {"type": "custom", "name": "crm", "description": "d", "input_schema": {"type": "object"}},
        ],
    )
    assert agent.version == 1
    assert agent.model.effort is not None
    assert (agent.model.id, agent.model.effort.type, agent.model.speed) == ("claude-opus-5-5", "high", "fast")
    toolset, mcp, custom = agent.tools
    assert toolset.type == "agent_toolset_20260401"
    bash, read, fetch, search = toolset.configs
    assert (bash.type, bash.enabled, bash.permission_policy.type) == ("bash", True, "always_ask")
    assert (read.name, read.permission_policy.type) == ("read", "always_allow")
    assert (fetch.type, fetch.enabled) == ("web_fetch", False)
    assert search.type == "web_search"
    assert search.allowed_domains == ["example.com"]
    assert mcp.type == "mcp_toolset"
    assert [(one.name, one.enabled, one.permission_policy.type) for one in mcp.configs] == [
        ("search", True, "always_ask")
    ]
    assert custom.type == "custom"
    assert [skill.version for skill in agent.skills] == ["latest", "7"]
    assert agent.execution_identity.type == "service_account"
    assert agent.multiagent is None
    assert await sdk.beta.agents.retrieve(agent.id) == agent
    simple = await sdk.beta.agents.create(name="Plain", model="claude-sonnet-5")
    assert (simple.model.id, simple.tools, simple.metadata) == ("claude-sonnet-5", [], {})


async def test_an_agent_calls_others(sdk: AsyncAnthropic, harness: Harness) -> None:
    worker = await sdk.beta.agents.create(name="Worker", model="m")
    await sdk.beta.agents.update(worker.id, version=1, name="Worker two")
    lead = await sdk.beta.agents.create(
        name="Lead",
        model="m",
        multiagent={
            "type": "coordinator",
            "agents": [
                worker.id,
                {"type": "self"},
                {"type": "agent", "id": "agent_of_elsewhere", "version": 7},
                {"type": "advisor", "model": "claude-opus-5-5"},
            ],
        },
    )
    assert lead.multiagent is not None
    assert lead.multiagent.to_dict() == {
        "type": "coordinator",
        "agents": [
            {"type": "agent", "id": worker.id, "version": 2},
            {"type": "agent", "id": lead.id, "version": 1},
            {"type": "agent", "id": "agent_of_elsewhere", "version": 7},
            {"type": "advisor", "model": "claude-opus-5-5"},
        ],
    }
    session = await sdk.beta.sessions.create(agent=lead.id, environment_id="e")
    assert session.agent.multiagent is not None
    assert session.agent.multiagent.type == "coordinator"
    called = session.agent.multiagent.agents
    assert [(one.name, one.version) for one in called if one.type == "agent"] == [
        ("Worker two", 2),
        ("Lead", 1),
        ("agent_of_elsewhere", 7),
    ]
    child = {"session_thread_id": "sthr_1", "agent_name": "Worker two", "workflow_run_id": None}
    await harness.append(session.id, {"type": "session.thread_created", **child})
    thread = await sdk.beta.sessions.threads.retrieve("sthr_1", session_id=session.id)
    assert thread.agent.type == "agent"
    assert (thread.agent.id, thread.agent.version) == (worker.id, 2)

    members = await sdk.beta.agents.create(
        name="Members",
        model="m",
        multiagent={
            "type": "multiagent_20261001",
            "subagents": {"type": "enabled", "predefined_agents": [worker.id]},
            "workflows": {"type": "disabled"},
        },
    )
    advised = await sdk.beta.agents.update(
        members.id,
        version=1,
        multiagent={"type": "multiagent_20261001", "advisor": {"type": "enabled", "model": "m"}},
    )
    assert advised.multiagent is not None
    assert advised.multiagent.to_dict() == {
        "type": "multiagent_20261001",
        "advisor": {"type": "enabled", "model": "m"},
        "subagents": {
            "type": "enabled",
            "inline_agents": {"type": "enabled"},
            "predefined_agents": [{"type": "agent", "id": worker.id, "version": 2}],
        },
        "workflows": {"type": "disabled"},
    }
    whole = await sdk.beta.sessions.create(agent=members.id, environment_id="e")
    assert whole.agent.multiagent is not None
    assert whole.agent.multiagent.type == "multiagent_20261001"
    assert whole.agent.multiagent.subagents.type == "enabled"
    assert [one.name for one in whole.agent.multiagent.subagents.predefined_agents] == ["Worker two"]


async def test_each_update_of_an_agent_is_a_version(sdk: AsyncAnthropic) -> None:
    agent = await sdk.beta.agents.create(name="A", model="m", system="s", metadata={"k": "v", "old": "1"})
    second = await sdk.beta.agents.update(
        agent.id,
        version=1,
        name="B",
        metadata={"old": None, "new": "2"},
    )
    assert (second.version, second.name, second.system) == (2, "B", "s")
    assert second.metadata == {"k": "v", "new": "2"}
    third = await sdk.beta.agents.update(agent.id, version=2, system=None)
    assert (third.version, third.system) == (3, None)
    with pytest.raises(ConflictError, match="version"):
        await sdk.beta.agents.update(agent.id, version=1, name="C")

    versions = [one async for one in sdk.beta.agents.versions.list(agent.id, limit=2)]
    assert [(one.version, one.name) for one in versions] == [(3, "B"), (2, "B"), (1, "A")]
    first = await sdk.beta.agents.retrieve(agent.id, version=1)
    assert first == agent
    with pytest.raises(NotFoundError):
        await sdk.beta.agents.retrieve(agent.id, version=9)

    archived = await sdk.beta.agents.archive(agent.id)
    assert archived.archived_at is not None
    with pytest.raises(BadRequestError, match="archived"):
        await sdk.beta.agents.update(agent.id, version=3, name="D")


async def test_agents_are_listed(sdk: AsyncAnthropic) -> None:
    agents = [await sdk.beta.agents.create(name=str(number), model="m") for number in range(5)]
    await sdk.beta.agents.archive(agents[2].id)
    names = [one.name async for one in sdk.beta.agents.list(limit=2)]
    assert names == ["4", "3", "1", "0"]
    everything = sdk.beta.agents.list(limit=2, include_archived=True)
    assert [one.name async for one in everything] == ["4", "3", "2", "1", "0"]
    later = agents[-1].created_at + timedelta(hours=1)
    assert [one async for one in sdk.beta.agents.list(created_at_gte=later)] == []
    assert len([one async for one in sdk.beta.agents.list(created_at_lte=later)]) == 4
    with pytest.raises(NotFoundError):
        await sdk.beta.agents.retrieve("agent_none")


async def test_environments_are_made_changed_listed_and_removed(sdk: AsyncAnthropic) -> None:
    plain = await sdk.beta.environments.create(name="plain")
    assert plain.config.type == "cloud"
    assert plain.config.networking.type == "unrestricted"
    assert plain.config.packages.pip == []
    assert (plain.description, plain.metadata, plain.archived_at) == (None, {}, None)

    limited = await sdk.beta.environments.create(
        name="limited",
        description="Narrow",
        metadata={"k": "v"},
        config={
            "type": "cloud",
            "networking": {"type": "limited", "allowed_hosts": ["example.com"]},
            "packages": {"pip": ["pandas"]},
        },
    )
    assert limited.config.type == "cloud"
    assert limited.config.networking.type == "limited"
    assert limited.config.networking.allow_mcp_servers is False
    assert (limited.config.packages.pip, limited.config.packages.npm) == (["pandas"], [])
    own = await sdk.beta.environments.create(name="own", config={"type": "self_hosted"})
    assert own.config.type == "self_hosted"

    changed = await sdk.beta.environments.update(limited.id, name="renamed", metadata={"k": None, "n": "1"})
    assert (changed.name, changed.description, changed.metadata) == ("renamed", "Narrow", {"n": "1"})
    assert changed.config == limited.config
    assert await sdk.beta.environments.retrieve(limited.id) == changed

    archived = await sdk.beta.environments.archive(own.id)
    assert archived.archived_at is not None
    assert [one.name async for one in sdk.beta.environments.list(limit=1)] == ["renamed", "plain"]
    everything = sdk.beta.environments.list(include_archived=True)
    assert [one.name async for one in everything] == ["own", "renamed", "plain"]
    deleted = await sdk.beta.environments.delete(plain.id)
    assert (deleted.id, deleted.type) == (plain.id, "environment_deleted")
    with pytest.raises(NotFoundError):
        await sdk.beta.environments.retrieve(plain.id)
