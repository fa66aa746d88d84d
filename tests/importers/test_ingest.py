"""Live capture by hooks: durable when answered, stored once, and never lost for being strange or large."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from durable_sessions import testing
from durable_sessions.cli.main import cli
from durable_sessions.client import Client
from durable_sessions.client.event import Event
from durable_sessions.managed_agents.claude_code_hooks import HOOKS, Hook

ROUTE = "/v1/ingest/claude-code"


def payload(session: str, name: str, **more: Any) -> dict[str, Any]:
    common = {
        "session_id": session,
        "transcript_path": "/t.jsonl",
        "cwd": "/srv/demo",
        "hook_event_name": name,
    }
    return common | more


def deliver(server: testing.BackgroundServer, *payloads: dict[str, Any]) -> None:
    for one in payloads:
        answer = httpx2.post(server.url + ROUTE, json=one)
        assert (answer.status_code, answer.json()) == (200, {})


def events(client: Client, session: str) -> list[Event]:
    return list(client.session(f"claude-code-hooks:{session}").events())


def turn(session: str) -> list[dict[str, Any]]:
    call = {"tool_name": "Bash", "tool_input": {"command": "ls"}, "tool_use_id": "t1"}
    return [
        payload(session, "SessionStart", source="startup", model="m"),
        payload(session, "UserPromptSubmit", prompt="yes"),
        payload(session, "PreToolUse", **call),
        payload(session, "PostToolUse", **call, tool_response={"stdout": "a"}),
        payload(session, "Notification", message="Waiting", notification_type="idle"),
        payload(session, "Stop", stop_hook_active=False, last_assistant_message="Done."),
    ]


def test_a_turn(server: testing.BackgroundServer, client: Client) -> None:
    deliver(server, *turn("a-turn"))
    found = events(client, "a-turn")
    assert [event.type for event in found] == [
        "session.updated",
        "user.message",
        "session.status_running",
        "agent.tool_use",
        "agent.tool_result",
        "claude_code.notification",
        "agent.message",
        "session.status_idle",
    ]
    assert found[4]["tool_use_id"] == found[3].id
    assert found[5]["source_detail"]["message"] == "Waiting"
    info = client.session("claude-code-hooks:a-turn").info()
    assert (info.metadata, info.status) == (
        {
            "tool": "claude-code",
            "same_run": "claude-code:a-turn",
            "cwd": "/srv/demo",
            "project": "demo",
        },
        "idle",
    )


def test_repeated_deliveries_write_nothing(server: testing.BackgroundServer, client: Client) -> None:
    for one in turn("repeats"):
        deliver(server, one, one, one)
    before = [event.id for event in events(client, "repeats")]
    assert len(before) == 8
    with ThreadPoolExecutor(4) as pool:
        same = payload("repeats", "UserPromptSubmit", prompt="at once")
        list(pool.map(lambda one: deliver(server, one), [same] * 8))
    assert len(events(client, "repeats")) == 10
    call = turn("repeats")[3]
    deliver(server, call)
    assert len(events(client, "repeats")) == 10


def test_the_same_words_said_again_are_new(server: testing.BackgroundServer, client: Client) -> None:
    yes, stop = turn("again")[1], turn("again")[5]
    deliver(server, yes, stop, yes, stop)
    assert [event.type for event in events(client, "again")].count("user.message") == 2


def test_subagents_failures_and_unknown_hooks(server: testing.BackgroundServer, client: Client) -> None:
    deliver(
        server,
        payload("others", "SubagentStart", agent_id="a1", agent_type="Explore"),
        payload(
            "others",
            "PostToolUseFailure",
            tool_use_id="t9",
            tool_name="mcp__git__log",
            error="no",
            agent_id="a1",
        ),
        payload("others", "SubagentStop", agent_id="a1", last_assistant_message="Found."),
        payload("others", "StopFailure", error="rate_limit"),
        payload("others", "PreCompact", trigger="auto"),
        payload("others", "SomethingNew", of="the future"),
        payload("others", "SessionEnd", reason="logout"),
    )
    found = events(client, "others")
    assert [event.type for event in found] == [
        "session.thread_created",
        "agent.mcp_tool_result",
        "agent.message",
        "session.thread_status_idle",
        "session.error",
        "session.status_idle",
        "claude_code.pre_compact",
        "claude_code.something_new",
        "session.status_idle",
    ]
    assert {event.data.get("session_thread_id") for event in found[:4]} == {"a1"}
    assert found[7]["source_detail"]["of"] == "the future"


def test_a_large_response_goes_into_an_artifact(server: testing.BackgroundServer, client: Client) -> None:
    output = "x" * (2 * 1024 * 1024)
    deliver(server, payload("large", "PostToolUse", tool_use_id="t", tool_name="Bash", tool_response=output))
    (event,) = events(client, "large")
    whole = json.loads(client.artifacts.get(event["artifact"]["sha256"]))
    assert whole["content"][0]["text"] == output
    assert event["tool_use_id"] == whole["tool_use_id"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"{",
        b"\xff",
        b'{"session_id":"a"}',
        b'{"hook_event_name":"Stop"}',
        b'{"hook_event_name":"Stop","session_id":"a/b"}',
    ],
)
def test_what_is_refused(server: testing.BackgroundServer, body: bytes) -> None:
    assert httpx2.post(server.url + ROUTE, content=body).status_code == 400


def test_who_may_write() -> None:
    with testing.server(api_key="a-secret-of-the-tests") as guarded:
        one = payload("keys", "Stop")
        assert httpx2.post(guarded.url + ROUTE, json=one).status_code == 401
        admin = {"Authorization": "Bearer a-secret-of-the-tests"}
        made = httpx2.post(
            guarded.url + "/v1/keys", json={"principal": "p", "role": "reader"}, headers=admin
        ).json()
        reader = {"Authorization": f"Bearer {made['secret']}"}
        assert httpx2.post(guarded.url + ROUTE, json=one, headers=reader).status_code == 403
        assert httpx2.post(guarded.url + ROUTE, json=one, headers=admin).status_code == 200
        assert httpx2.get(guarded.url + ROUTE, headers=admin).status_code == 405
        assert httpx2.post(guarded.url + "/v1/ingest/other", json=one, headers=admin).status_code == 404


def test_nothing_of_a_payload_is_lost() -> None:
    for name in (*HOOKS, "New"):
        told = payload("s", name, tool_use_id="t", tool_name="Bash", tool_input={"a": "deep"}, extra="kept")
        if name in ("UserPromptSubmit",):
            told["prompt"] = "said"
        written = json.dumps(Hook(told, "d").events(0))
        for word in ("kept", "/t.jsonl", "deep" if name == "PreToolUse" else "kept"):
            assert word in written


def test_the_settings_to_paste(server: testing.BackgroundServer) -> None:
    arguments = [
        "capture",
        "claude-code",
        "--print-config",
        "--url",
        server.url,
        "--api-key",
        "a-real-secret",
    ]
    told = CliRunner().invoke(cli, arguments).output
    assert "a-real-secret" not in told
    settings = json.loads(told)["hooks"]
    assert settings.keys() == set(HOOKS)
    (hook,) = settings["PostToolUse"][0]["hooks"]
    assert hook["url"] == server.url + ROUTE
    assert hook["headers"] == {"Authorization": "Bearer $DURABLE_SESSIONS_API_KEY"}
    assert server.url + ROUTE in settings["SessionStart"][0]["hooks"][0]["command"]
