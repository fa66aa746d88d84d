"""A context as messages for a model: who says what, in which blocks, and what must be known before."""

from typing import Any

import pytest

from durable_sessions.client.context import Context, preamble_text

NOTHING: dict[str, Any] = {"goal": None, "facts": {}, "outcome": None, "approvals": [], "handoff": None}


def messages(*items: dict[str, Any], **preamble: Any) -> list[dict[str, Any]]:
    """Return what a model is told of these items, without what it must know before."""
    known = {**NOTHING, **preamble}
    first, *rest = Context("s", "0_0", 1_000, 10, known, list(items), [], 0, []).messages()
    assert first["role"] == "system"
    return rest


def event(kind: str, **members: Any) -> dict[str, Any]:
    added = {"id": "e1", "offset": "0_0", "created_at": "t", "processed_at": "t", "actor": "a"}
    return {"kind": "event", "event": {**added, "type": kind, **members}}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def test_users_and_agents_take_turns_and_what_one_says_in_a_row_is_one_message() -> None:
    assert messages(
        event("user.message", content=[text("Do it.")]),
        event("agent.message", content=[text("Well.")]),
        event("agent.message", content=[text("Done.")]),
        event("user.message", content="Thanks."),
    ) == [
        {"role": "user", "content": [text("Do it.")]},
        {"role": "assistant", "content": [text("Well."), text("Done.")]},
        {"role": "user", "content": [text("Thanks.")]},
    ]


@pytest.mark.parametrize(
    ("call", "result", "member"),
    [
        ("agent.tool_use", "agent.tool_result", "tool_use_id"),
        ("agent.mcp_tool_use", "agent.mcp_tool_result", "mcp_tool_use_id"),
        ("agent.custom_tool_use", "user.custom_tool_result", "custom_tool_use_id"),
    ],
)
def test_a_call_and_its_result_are_blocks_that_name_each_other(call: str, result: str, member: str) -> None:
    said, answered = messages(
        event(call, name="run", input={"command": "ls"}),
        event(result, **{member: "e1"}, content=[text("a.py")], is_error=True),
    )
    assert said == {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "e1", "name": "run", "input": {"command": "ls"}}],
    }
    assert answered == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "e1", "content": [text("a.py")], "is_error": True}
        ],
    }


@pytest.mark.parametrize("wrong", [None, "true", 1, False])
def test_only_true_is_an_error(wrong: object) -> None:
    (said,) = messages(event("agent.tool_result", tool_use_id="c", content=[], is_error=wrong))
    assert said["content"][0]["is_error"] is False


def test_a_summary_stands_for_what_it_replaces_and_hits_are_events() -> None:
    summary = {"kind": "summary", "id": "e9", "from": 0, "to": 5, "text": "It compiled."}
    hit = {"kind": "found", "score": 2.0, **event("user.message", content=[text("Why?")])}
    hit["kind"] = "found"
    assert messages(summary, hit) == [
        {"role": "user", "content": [text("What happened before, in short: It compiled."), text("Why?")]}
    ]


def test_other_types_are_told_without_what_the_server_added() -> None:
    (own,) = messages(event("my.note", words="ä"))
    assert own == {"role": "user", "content": [text('{"type":"my.note","words":"ä"}')]}
    (thought,) = messages(event("agent.thinking", thinking="hm"))
    assert thought["role"] == "assistant"


@pytest.mark.parametrize("content", [7, {"a": 1}, ["a", "b"], [text("a"), "b"]])
def test_content_of_another_shape_is_told_as_text(content: object) -> None:
    (said,) = messages(event("user.message", content=content))
    assert [block["type"] for block in said["content"]] == ["text"]


def test_messages_are_copies() -> None:
    sent = event("user.message", content=[text("Do it.")])
    context = Context("s", "0_0", 1_000, 10, NOTHING, [sent], [], 0, [])
    context.messages()[1]["content"][0]["text"] = "Something else."
    assert context.messages()[1]["content"] == [text("Do it.")]


def test_what_must_be_known_is_told_in_one_text() -> None:
    known = {
        "goal": {"text": "Fix it."},
        "facts": {"z": {"value": {"n": 1}}, "cause": {"value": "off by one"}},
        "outcome": {
            "features": [
                {"id": "f1", "text": "adds", "passing": True},
                {"id": "f2", "text": "subtracts", "passing": False},
            ]
        },
        "approvals": [{"id": "q1", "question": "Deploy?"}],
        "handoff": {"instructions": "Begin with f2."},
    }
    assert preamble_text(known) == (
        "Goal: Fix it.\n\n"
        'Known:\n- cause: off by one\n- z: {"n":1}\n\n'
        "To be done:\n- [x] f1: adds\n- [ ] f2: subtracts\n\n"
        "Waiting for a decision:\n- Deploy? (q1)\n\n"
        "Handed over: Begin with f2."
    )
    assert preamble_text(NOTHING) == ""
