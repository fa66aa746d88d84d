"""The SDK's own tool runner serves the calls that a scripted harness makes."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from anthropic import AsyncAnthropic, beta_async_tool

from tests.anthropic.harness import END_TURN, RUNNING, Harness, text, waits_for
from tests.support.process import ServerProcess
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio
asynchronous = pytest.mark.parametrize("sdk", ["async"], indirect=True)

ran: list[str] = []


@beta_async_tool(name="bash")
async def bash(command: str) -> str:
    """Run a command."""
    ran.append(command)
    return f"ran {command}"


@beta_async_tool
async def add(left: int, right: int) -> str:
    """Add two numbers."""
    return str(left + right)


@beta_async_tool
async def fail() -> str:
    """Fail."""
    raise ValueError("it is broken")


def call(kind: str, name: str, **given: Any) -> dict[str, Any]:
    permission = {"evaluated_permission": given.pop("permission")} if "permission" in given else {}
    return {"type": kind, "name": name, "input": given, **permission}


@pytest.fixture
async def session(sdk: AsyncAnthropic) -> str:
    ran.clear()
    return (await sdk.beta.sessions.create(agent="a", environment_id="e")).id


@asynchronous
async def test_calls_are_run_held_confirmed_and_denied(
    sdk: AsyncAnthropic, harness: Harness, session: str
) -> None:
    events = sdk.beta.sessions.events

    async def script() -> None:
        """Play the agent: wait for what the runner says before going on."""
        both = await harness.wait_for(session, "user.tool_result", "user.custom_tool_result")
        by_type = {event["type"]: event for event in both}
        assert by_type["user.tool_result"]["tool_use_id"] == early["id"]
        assert by_type["user.tool_result"]["content"] == text("ran early")
        assert by_type["user.custom_tool_result"]["custom_tool_use_id"] == added["id"]
        assert by_type["user.custom_tool_result"]["content"] == text("5")

        asked, refused, broken = await harness.append(
            session,
            call("agent.tool_use", "bash", command="careful", permission="ask"),
            call("agent.tool_use", "bash", command="never", permission="ask"),
            call("agent.tool_use", "fail"),
        )
        await harness.append(session, waits_for(asked["id"], refused["id"], broken["id"]))
        [failed] = await harness.wait_for(session, "user.tool_result")
        assert (failed["tool_use_id"], failed["is_error"]) == (broken["id"], True)
        assert "careful" not in ran

        await events.send(
            session,
            events=[
                {"type": "user.tool_confirmation", "tool_use_id": refused["id"], "result": "deny"},
                {"type": "user.tool_confirmation", "tool_use_id": asked["id"], "result": "allow"},
            ],
        )
        [allowed] = await harness.wait_for(session, "user.tool_result")
        assert (allowed["tool_use_id"], allowed["content"]) == (asked["id"], text("ran careful"))
        await harness.append(session, END_TURN)

    [_, early] = await harness.append(session, RUNNING, call("agent.tool_use", "bash", command="early"))
    async with asyncio.timeout(PATIENCE_SECONDS), asyncio.TaskGroup() as group:
        runner = events.tool_runner(session, tools=[bash, add, fail], max_idle=0.3)
        [added] = await harness.append(session, call("agent.custom_tool_use", "add", left=2, right=3))
        group.create_task(script())
        calls = [(one.name, one.posted, one.is_error, one.confirmation) async for one in runner]
    assert sorted(calls, key=str) == [
        ("add", True, False, None),
        ("bash", False, False, "deny"),
        ("bash", True, False, "allow"),
        ("bash", True, False, None),
        ("fail", True, True, None),
    ]
    assert ran == ["early", "careful"]


@asynchronous
async def test_calls_of_others_are_left_to_them(sdk: AsyncAnthropic, harness: Harness, session: str) -> None:
    await harness.append(session, RUNNING, call("agent.custom_tool_use", "of_another_client"))
    runner = sdk.beta.sessions.events.tool_runner(session, tools=[add], max_idle=0.3)
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for one in runner:
            assert (one.name, one.posted) == ("of_another_client", False)
            await harness.append(session, END_TURN)
    types = [event.type async for event in sdk.beta.sessions.events.list(session)]
    assert "user.custom_tool_result" not in types


@asynchronous
@pytest.mark.parametrize("end", ["terminated", "deleted"])
async def test_it_stops_with_the_session(
    sdk: AsyncAnthropic, harness: Harness, session: str, end: str
) -> None:
    await harness.append(session, call("agent.custom_tool_use", "add", left=1, right=1))
    runner = sdk.beta.sessions.events.tool_runner(session, tools=[add], max_idle=None)
    async with asyncio.timeout(PATIENCE_SECONDS):
        async for one in runner:
            assert one.posted
            if end == "terminated":
                await harness.append(session, {"type": "session.status_terminated"})
            else:
                await sdk.beta.sessions.delete(session)


async def test_it_goes_on_when_the_server_was_gone(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data") as server:
        harness = Harness(server.url, "none")
        async with (
            AsyncAnthropic(base_url=server.url, api_key="none") as client,
            asyncio.timeout(PATIENCE_SECONDS),
        ):
            session = (await client.beta.sessions.create(agent="a", environment_id="e")).id
            await harness.append(session, call("agent.custom_tool_use", "add", left=1, right=1))
            calls = 0
            async for one in client.beta.sessions.events.tool_runner(session, tools=[add], max_idle=None):
                calls += one.posted
                if calls == 1:
                    await asyncio.to_thread(server.kill)
                    await asyncio.to_thread(server.start)
                    await harness.append(session, call("agent.custom_tool_use", "add", left=2, right=2))
                else:
                    await harness.append(session, {"type": "session.status_terminated"})
            types = [event.type async for event in client.beta.sessions.events.list(session)]
        await harness.http.aclose()
    assert calls == 2
    assert types == ["agent.custom_tool_use", "user.custom_tool_result"] * 2 + ["session.status_terminated"]
