"""Every object on the wire against the SDK's own models: all required fields, each of its declared type."""

import json
from typing import Any, get_args

import pytest
from anthropic import AsyncAnthropic
from anthropic.types import beta
from anthropic.types.beta import sessions
from pydantic import BaseModel, TypeAdapter

from tests.anthropic.clients import taken
from tests.anthropic.harness import END_TURN, RUNNING, Harness
from tests.anthropic.samples import EVENTS

pytestmark = pytest.mark.anyio


def members(union: Any) -> dict[str, type[BaseModel]]:
    """Return the models of a union by the type that each declares."""
    variants = get_args(get_args(union)[0])
    return {get_args(model.model_fields["type"].annotation)[0]: model for model in variants}


def check(model: Any, value: object) -> None:
    """Validate without any coercion; texts are taken for times only where the model has a time."""
    TypeAdapter(model).validate_json(json.dumps(value), strict=True)


STORED = members(sessions.BetaManagedAgentsSessionEvent)


@pytest.mark.parametrize("sdk", ["async"], indirect=True)
async def test_an_event_of_every_type(sdk: AsyncAnthropic, harness: Harness) -> None:
    sent = [event for event in EVENTS if event["type"] in STORED]
    assert STORED.keys() == {event["type"] for event in sent} | {"session.deleted"}
    session = (await sdk.beta.sessions.create(agent="a", environment_id="e")).id
    async with await sdk.beta.sessions.events.stream(session) as stream:
        appended = await harness.append(session, *sent)
        for event in appended:
            check(STORED[event["type"]], event)
        streamed = await taken(stream, len(sent))
    assert [type(event) for event in streamed] == [STORED[event["type"]] for event in sent]
    listed = (await harness.get(f"/v1/sessions/{session}/events"))["data"]
    assert listed == appended
    assert [event.id for event in streamed] == [event["id"] for event in listed]
    assert [one async for one in sdk.beta.sessions.events.list(session, limit=10)] == streamed
    check(beta.BetaManagedAgentsSession, await harness.get(f"/v1/sessions/{session}"))
    for thread in (await harness.get(f"/v1/sessions/{session}/threads"))["data"]:
        check(sessions.BetaManagedAgentsSessionThread, thread)


@pytest.mark.parametrize("sdk", ["async"], indirect=True)
async def test_the_last_event_of_a_deleted_session(sdk: AsyncAnthropic, harness: Harness) -> None:
    session = (await sdk.beta.sessions.create(agent="a", environment_id="e")).id
    async with harness.http.stream("GET", f"/v1/sessions/{session}/events/stream") as answer:
        await sdk.beta.sessions.delete(session)
        lines = [line async for line in answer.aiter_lines()]
    assert "event: session.deleted" in lines
    [data] = [line for line in lines if line.startswith("data: ")]
    check(STORED["session.deleted"], json.loads(data.removeprefix("data: ")))


@pytest.mark.parametrize("sdk", ["async"], indirect=True)
async def test_objects_that_say_as_little_and_as_much_as_they_can(
    sdk: AsyncAnthropic, harness: Harness
) -> None:
    agent = await sdk.beta.agents.create(
        name="All",
        model={"id": "m", "effort": "low"},
        metadata={"k": "v"},
        mcp_servers=[{"type": "url", "name": "docs", "url": "https://docs.example.com"}],
        skills=[
            {"type": "anthropic", "skill_id": "xlsx"},
            {"type": "custom", "skill_id": "s", "version": None},
        ],
        tools=[
            {
                "type": "agent_toolset_20260401",
                "default_config": {"enabled": None, "permission_policy": None},
                "configs": [
                    {"name": "bash", "enabled": None},
                    {"name": "edit", "permission_policy": {"type": "auto"}},
                    {"name": "web_fetch"},
                    {"name": "web_search"},
                ],
            },
            {"type": "mcp_toolset", "mcp_server_name": "docs", "configs": [{"name": "find"}]},
            {"type": "custom", "name": "crm", "description": "d", "input_schema": {"type": "object"}},
        ],
    )
    bare = await sdk.beta.agents.create(name="Bare", model="m")
    full_session = await sdk.beta.sessions.create(
        agent=agent.id,
        environment_id="e",
        title="t",
        metadata={"k": "v"},
        vault_ids=["vlt_1"],
        budget={"type": "limit", "max_list_cost": {"amount": "100", "currency": "USD"}},
        resources=[
            {"type": "file", "file_id": "file_1", "mount_path": None},
            {"type": "github_repository", "url": "https://github.com/a/b", "authorization_token": "t"},
            {"type": "memory_store", "memory_store_id": "m"},
        ],
        initial_events=[
            {"type": "user.define_outcome", "description": "d", "rubric": {"type": "file", "file_id": "f"}}
        ],
    )
    await harness.append("made-by-its-first-event", RUNNING, END_TURN)
    await sdk.beta.sessions.update(full_session.id, agent={"tools": [{"type": "agent_toolset_20260401"}]})
    for name in (full_session.id, "made-by-its-first-event"):
        check(beta.BetaManagedAgentsSession, await harness.get(f"/v1/sessions/{name}"))
        for thread in (await harness.get(f"/v1/sessions/{name}/threads"))["data"]:
            check(sessions.BetaManagedAgentsSessionThread, thread)
    for event in (await harness.get(f"/v1/sessions/{full_session.id}/events"))["data"]:
        check(STORED[event["type"]], event)
    for resource in (await harness.get(f"/v1/sessions/{full_session.id}/resources"))["data"]:
        check(sessions.BetaManagedAgentsSessionResource, resource)
    for one in (agent, bare):
        check(beta.BetaManagedAgentsAgent, await harness.get(f"/v1/agents/{one.id}"))
    for version in (await harness.get(f"/v1/agents/{agent.id}/versions"))["data"]:
        check(beta.BetaManagedAgentsAgent, version)
    for config in (
        {},
        {"config": {"type": "self_hosted"}},
        {"config": {"type": "cloud", "packages": {"pip": None}}},
    ):
        made = await sdk.beta.environments.create(name="e", **config)
        check(beta.BetaEnvironment, await harness.get(f"/v1/environments/{made.id}"))
    for page in ("/v1/sessions", "/v1/agents", "/v1/environments"):
        assert {"data", "next_page"} <= (await harness.get(page)).keys()
