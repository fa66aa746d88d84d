"""Hooks of Claude Code as events: nothing that was sent is lost, and a repeated delivery is the same."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.managed_agents.claude_code_hooks import HOOKS, Hook, call_event_id


def events(name: str, place: int = 0, **payload: Any) -> list[dict[str, Any]]:
    given = {"hook_event_name": name, "session_id": "s", **payload}
    return Hook(given, "digest").events(place)


def types(name: str, **payload: Any) -> list[str]:
    return [event["type"] for event in events(name, **payload)]


def test_a_turn_becomes_the_events_of_a_run() -> None:
    assert types("UserPromptSubmit", prompt="Do it.") == ["user.message", "session.status_running"]
    assert types("Stop", last_assistant_message="Done.") == ["agent.message", "session.status_idle"]
    assert types("Stop", last_assistant_message="  ") == ["session.status_idle"]
    failed = events("StopFailure", error="rate_limit", error_details="Wait.", last_assistant_message="Oh.")
    assert [one["type"] for one in failed] == ["session.error", "agent.message", "session.status_idle"]
    assert failed[0]["error"]["message"] == "Wait."


@pytest.mark.parametrize(
    ("tool", "call", "result", "member"),
    [
        ("Bash", "agent.tool_use", "agent.tool_result", "tool_use_id"),
        ("mcp__git__log", "agent.mcp_tool_use", "agent.mcp_tool_result", "mcp_tool_use_id"),
    ],
)
@pytest.mark.parametrize("hook", ["PostToolUse", "PostToolUseFailure"])
def test_a_result_names_the_event_of_its_call(
    tool: str, call: str, result: str, member: str, hook: str
) -> None:
    named: dict[str, Any] = {"tool_name": tool, "tool_use_id": "toolu_1", "tool_input": {"command": "ls"}}
    (called,) = events("PreToolUse", **named)
    (answered,) = events(hook, **named, tool_response="a.py", error="It broke.")
    assert (called["type"], answered["type"]) == (call, result)
    assert answered[member] == called["id"]
    assert answered["is_error"] is (hook == "PostToolUseFailure")
    words = "It broke." if answered["is_error"] else "a.py"
    assert answered["content"] == [{"type": "text", "text": words}]


def test_a_denied_call_is_named_and_one_without_an_id_is_not() -> None:
    assert events("PermissionDenied", tool_use_id="toolu_1")[0]["tool_use_id"] == call_event_id(
        {"session_id": "s", "tool_use_id": "toolu_1"}
    )
    assert call_event_id({"session_id": "s"}) is None


def test_what_a_subagent_does_is_in_its_thread() -> None:
    (started,) = events("SubagentStart", agent_id="a1", agent_type="researcher")
    (called,) = events("PreToolUse", agent_id="a1", tool_name="Bash", tool_use_id="t")
    assert started["session_thread_id"] == called["session_thread_id"] == "a1"
    assert started["agent_name"] == "researcher"


def test_a_delivery_that_comes_twice_makes_the_same_events() -> None:
    for more in ({"tool_use_id": "t"}, {"prompt_id": "p"}):
        assert events("PreToolUse", 3, **more) == events("PreToolUse", 9, **more)
    # Without an id of its own, only its place tells it from the same words, said again.
    assert events("Stop", 3) == events("Stop", 3)
    assert events("Stop", 3)[0]["id"] != events("Stop", 4)[0]["id"]


def test_two_agents_may_use_one_id() -> None:
    first, second = (events("PreToolUse", agent_id=agent, tool_use_id="t")[0]["id"] for agent in ("a", "b"))
    assert first != second


def test_a_hook_that_is_not_known_keeps_all_it_says() -> None:
    (kept,) = events("FileChanged", path="a.py")
    assert kept["type"] == "claude_code.file_changed"
    assert kept["source_detail"]["path"] == "a.py"
    (unnamed,) = Hook({"hook_event_name": "☃"}, "digest").events(0)
    assert unnamed["type"] == "claude_code.hook"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
MEMBERS = [
    "tool_name",
    "tool_input",
    "tool_use_id",
    "tool_response",
    "error",
    "error_details",
    "prompt",
    "prompt_id",
    "agent_id",
    "agent_type",
    "last_assistant_message",
    "trigger",
    "compact_summary",
    "reason",
    "source",
    "session_id",
    "else",
]


@given(st.sampled_from([*HOOKS, "Unheard", ""]), st.dictionaries(st.sampled_from(MEMBERS), JSON))
def test_whatever_is_sent_becomes_events_and_stays(name: str, payload: dict[str, Any]) -> None:
    made = Hook({**payload, "hook_event_name": name}, "digest").events(0)
    assert len({event["id"] for event in made}) == len(made) > 0
    assert all(list(event)[:2] == ["id", "type"] for event in made)
    kept = made[0]["source_detail"]
    taken = set(payload) - set(kept)
    assert all(kept[member] == payload[member] for member in kept)
    assert taken <= {"prompt", "tool_name", "tool_input", "tool_response", "error", "last_assistant_message"}
