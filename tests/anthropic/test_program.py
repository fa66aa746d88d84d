"""A Managed Agents program from its first call to its last."""

import pytest
from anthropic import AsyncAnthropic

from tests.anthropic.clients import taken
from tests.anthropic.harness import END_TURN, RUNNING, Harness, says, text

pytestmark = pytest.mark.anyio


async def test_a_program_talks_to_an_agent(sdk: AsyncAnthropic, harness: Harness) -> None:
    agent = await sdk.beta.agents.create(
        name="Coder",
        model="claude-sonnet-5",
        system="You write code.",
        tools=[{"type": "agent_toolset_20260401"}],
    )
    environment = await sdk.beta.environments.create(name="box")
    session = await sdk.beta.sessions.create(
        agent=agent.id, environment_id=environment.id, title="First", metadata={"team": "blue"}
    )
    assert (session.status, session.title, session.metadata) == ("idle", "First", {"team": "blue"})
    assert (session.agent.id, session.agent.version, session.agent.name) == (agent.id, 1, "Coder")
    assert session.environment_id == environment.id

    async with await sdk.beta.sessions.events.stream(session.id) as stream:
        sent = await sdk.beta.sessions.events.send(
            session.id, events=[{"type": "user.message", "content": [{"type": "text", "text": "Hello"}]}]
        )
        assert sent.data is not None
        await harness.append(session.id, RUNNING, says("Hi"), _used(10, 3), END_TURN)
        seen = await taken(stream, 5)
    assert [event.type for event in seen] == [
        "user.message",
        "session.status_running",
        "agent.message",
        "span.model_request_end",
        "session.status_idle",
    ]
    assert seen[0] == sent.data[0]
    assert [block.text for block in seen[2].content if block.type == "text"] == ["Hi"]
    assert seen[4].stop_reason.type == "end_turn"

    listed = [event async for event in sdk.beta.sessions.events.list(session.id)]
    assert [event.id for event in listed] == [event.id for event in seen]

    after = await sdk.beta.sessions.retrieve(session.id)
    assert (after.usage.input_tokens, after.usage.output_tokens) == (10, 3)
    assert after.updated_at >= session.updated_at

    archived = await sdk.beta.sessions.archive(session.id)
    assert archived.archived_at is not None
    assert archived.status == "terminated"
    deleted = await sdk.beta.sessions.delete(session.id)
    assert (deleted.id, deleted.type) == (session.id, "session_deleted")


async def test_a_session_begins_with_events_and_an_outcome(sdk: AsyncAnthropic, harness: Harness) -> None:
    session = await sdk.beta.sessions.create(
        agent="agent_of_elsewhere",
        environment_id="env_of_elsewhere",
        initial_events=[
            {"type": "user.message", "content": [{"type": "text", "text": "Begin"}]},
            {
                "type": "user.define_outcome",
                "description": "It compiles",
                "rubric": {"type": "text", "content": "make passes"},
            },
        ],
        budget={"type": "limit", "max_list_cost": {"amount": "2500", "currency": "USD"}},
        vault_ids=["vlt_1"],
    )
    assert session.agent.id == "agent_of_elsewhere"
    assert session.environment_id == "env_of_elsewhere"
    assert session.vault_ids == ["vlt_1"]
    assert session.budget is not None
    assert session.budget.max_list_cost.amount == "2500"
    [outcome] = session.outcome_evaluations
    assert (outcome.description, outcome.result, outcome.iteration) == ("It compiles", "pending", 0)
    _, defined = [event async for event in sdk.beta.sessions.events.list(session.id)]
    assert defined.type == "user.define_outcome"
    assert defined.outcome_id == outcome.outcome_id
    assert defined.max_iterations is None

    evaluation = {"outcome_id": outcome.outcome_id, "iteration": 1}
    [start] = await harness.append(session.id, {"type": "span.outcome_evaluation_start", **evaluation})
    await harness.append(
        session.id,
        {
            "type": "span.outcome_evaluation_end",
            **evaluation,
            "outcome_evaluation_start_id": start["id"],
            "result": "satisfied",
            "explanation": "It does.",
            "usage": _used(1, 1)["model_usage"],
        },
    )
    [judged] = (await sdk.beta.sessions.retrieve(session.id)).outcome_evaluations
    assert (judged.result, judged.iteration, judged.explanation) == ("satisfied", 1, "It does.")
    assert judged.completed_at is not None


async def test_every_kind_of_event_that_a_client_sends(sdk: AsyncAnthropic, harness: Harness) -> None:
    session = await sdk.beta.sessions.create(agent="a", environment_id="e")
    tool, custom = await harness.append(
        session.id,
        {"type": "agent.tool_use", "name": "bash", "input": {"command": "ls"}, "evaluated_permission": "ask"},
        {"type": "agent.custom_tool_use", "name": "ask_crm", "input": {}},
    )
    sent = await sdk.beta.sessions.events.send(
        session.id,
        events=[
            {"type": "user.tool_confirmation", "tool_use_id": tool["id"], "result": "allow"},
            {
                "type": "user.tool_result",
                "tool_use_id": tool["id"],
                "content": text("README"),
                "is_error": False,
            },
            {"type": "user.custom_tool_result", "custom_tool_use_id": custom["id"], "content": text("42")},
            {"type": "user.interrupt"},
            {
                "type": "user.tool_confirmation",
                "tool_use_id": "sevt_other",
                "result": "deny",
                "deny_message": "Not on my machine",
            },
            {
                "type": "user.message",
                "content": [
                    {"type": "text", "text": "Look"},
                    {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
                    {"type": "document", "source": {"type": "file", "file_id": "file_1"}, "title": "Terms"},
                ],
            },
            {"type": "system.message", "content": [{"type": "text", "text": "Be brief."}]},
        ],
    )
    assert sent.data is not None
    listed = [event async for event in sdk.beta.sessions.events.list(session.id)]
    assert listed[2:] == sent.data
    assert [event.type for event in sent.data] == [
        "user.tool_confirmation",
        "user.tool_result",
        "user.custom_tool_result",
        "user.interrupt",
        "user.tool_confirmation",
        "user.message",
        "system.message",
    ]


def _used(input_tokens: int, output_tokens: int) -> dict[str, object]:
    return {
        "type": "span.model_request_end",
        "model_request_start_id": "sevt_start",
        "is_error": None,
        "model_usage": {
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cache_read_input_tokens": 0,
            "cache_creation_input_tokens": 0,
        },
    }
