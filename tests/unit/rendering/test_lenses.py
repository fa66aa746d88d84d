"""What adapters store is shown, paired and found as what it means."""

import json
from typing import Any

import pytest

from durable_sessions.rendering import lenses
from durable_sessions.rendering.entries import EntryRole, entry_of
from durable_sessions.rendering.pairing import paired
from durable_sessions.search.text import searchable
from durable_sessions.sessions.graph import context
from durable_sessions.sessions.outline.facts import FAILED, facts_of

CALL = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "make test"}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "refused", "is_error": True}


def claude(kind: str, *blocks: Any) -> dict[str, Any]:
    message = {
        "role": kind,
        "content": blocks[0] if len(blocks) == 1 and isinstance(blocks[0], str) else [*blocks],
    }
    return stored("claude.entry", {"type": kind, "uuid": "u1", "cwd": "/secret/place", "message": message})


def openai(**item: Any) -> dict[str, Any]:
    return stored("openai.item", item)


def pydantic(kind: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return stored("pydantic.entry", {"id": "e1", "message": {"kind": kind, "parts": [*parts]}})


def microsoft(role: str, *contents: dict[str, Any]) -> dict[str, Any]:
    return stored("agent-framework.message", {"type": "message", "role": role, "contents": [*contents]})


MS_CALL = {"type": "function_call", "call_id": "c1", "name": "Bash", "arguments": {"command": "make test"}}


def google(author: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return stored("adk.event", {"author": author, "content": {"parts": [*parts]}})


GOOGLE_CALL = {"functionCall": {"id": "c1", "name": "Bash", "args": {"command": "make test"}}}


def stored(kind: str, raw: Any) -> dict[str, Any]:
    return {"type": kind, "id": "xx_1", "raw_format": f"{kind}/1", "raw": raw}


def write(**members: Any) -> dict[str, Any]:
    payload = {"type": "base64", "kind": "msgpack", "data": "cGVsaWNhbg=="}
    return {**stored("langgraph.write", payload), "channel": "messages", **members}


FUNCTION_CALL = {
    "type": "function_call",
    "call_id": "c1",
    "name": "Bash",
    "arguments": '{"command":"make test"}',
}
TOOL_CALL = {
    "part_kind": "tool-call",
    "tool_name": "Bash",
    "tool_call_id": "c1",
    "args": {"command": "make test"},
}
RETRY = {"part_kind": "retry-prompt", "tool_name": "Bash", "tool_call_id": "c1", "content": "refused"}


@pytest.mark.parametrize(
    ("event", "role", "text", "found"),
    [
        (claude("user", "Mend it"), EntryRole.USER, "Mend it", ("user", None, False)),
        (
            claude("assistant", {"type": "text", "text": "Done"}),
            EntryRole.AGENT,
            "Done",
            ("agent", None, False),
        ),
        (claude("assistant", CALL), EntryRole.TOOL, "make test", ("tool", "bash", False)),
        (claude("user", RESULT), EntryRole.RESULT, "refused", ("tool", None, True)),
        (
            claude("assistant", {"type": "thinking", "thinking": "Hm"}),
            EntryRole.THINKING,
            "Hm",
            ("agent", None, False),
        ),
        (openai(role="user", content="Mend it"), EntryRole.USER, "Mend it", ("user", None, False)),
        (openai(**FUNCTION_CALL), EntryRole.TOOL, "make test", ("tool", "bash", False)),
        (
            openai(type="function_call_output", call_id="c1", output="ok"),
            EntryRole.RESULT,
            "ok",
            ("tool", None, False),
        ),
        (
            pydantic("response", {"part_kind": "text", "content": "Done"}),
            EntryRole.AGENT,
            "Done",
            ("agent", None, False),
        ),
        (pydantic("response", TOOL_CALL), EntryRole.TOOL, "make test", ("tool", "bash", False)),
        (pydantic("request", RETRY), EntryRole.RESULT, "refused", ("tool", None, True)),
        (
            microsoft("user", {"type": "text", "text": "Mend it"}),
            EntryRole.USER,
            "Mend it",
            ("user", None, False),
        ),
        (microsoft("assistant", MS_CALL), EntryRole.TOOL, "make test", ("tool", "bash", False)),
        (google("user", {"text": "Mend it"}), EntryRole.USER, "Mend it", ("user", None, False)),
        (google("coder", GOOGLE_CALL), EntryRole.TOOL, "make test", ("tool", "bash", False)),
        (write(text="It has landed"), EntryRole.AGENT, "It has landed", ("agent", None, False)),
    ],
    ids=lambda value: value["raw_format"] if isinstance(value, dict) else None,
)
def test_an_object_of_a_framework_is_what_it_means(
    event: dict[str, Any], role: EntryRole, text: str, found: tuple[str | None, str | None, bool]
) -> None:
    entry = entry_of(event)
    assert entry.role is role
    assert text in entry.text
    assert entry.type == event["type"]
    assert entry.id == "xx_1"
    searched = searchable(json.dumps(event).encode())
    assert text in searched.text
    assert (searched.role, searched.name, searched.is_error) == found
    assert searched.type == event["type"]
    assert "secret" not in searched.text
    assert "raw" not in searched.text


@pytest.mark.parametrize(
    ("call", "result"),
    [
        (claude("assistant", CALL), claude("user", RESULT)),
        (openai(**FUNCTION_CALL), openai(type="function_call_output", call_id="c1", output="ok")),
        (pydantic("response", TOOL_CALL), pydantic("request", RETRY)),
    ],
    ids=["claude", "openai", "pydantic"],
)
def test_a_result_finds_its_call(call: dict[str, Any], result: dict[str, Any]) -> None:
    [shown] = paired([entry_of(call), entry_of({**result, "id": "xx_2"})])
    assert shown.title == "Bash"
    assert shown.result is not None


@pytest.mark.parametrize(
    "raw",
    [None, 5, [], {}, {"type": "user"}, {"message": 3}, {"type": "assistant", "message": {"content": 7}}],
)
@pytest.mark.parametrize("form", [*lenses.LENSES, "langgraph.write/1", "unknown/1", 5])
def test_anything_else_is_shown_as_it_is_stored(raw: Any, form: Any) -> None:
    event = {"type": "some.thing", "id": "a", "raw_format": form, "raw": raw}
    entry_of(event)
    searchable(json.dumps(event).encode())
    erased = {"type": "claude.entry", "raw_format": form, "dropped": {"by": "x", "bytes": 1, "sha256": "0"}}
    assert "dropped" in entry_of(erased).text


@pytest.mark.parametrize("arguments", ["[" * 60_000, "[" * 129 + "]" * 129, '{"a":' * 900 + "1" + "}" * 900])
def test_arguments_that_nest_too_deeply_are_a_text(arguments: str) -> None:
    for event in (
        openai(**{**FUNCTION_CALL, "arguments": arguments}),
        pydantic("response", {**TOOL_CALL, "args": arguments}),
    ):
        seen = lenses.seen(event)
        assert seen is not None
        assert seen["input"] == arguments
        entry_of(event)
        stored = json.dumps(event).encode()
        searchable(stored)
        assert facts_of(stored, 0).name == "Bash"


def test_the_outline_looks_through_lenses_too() -> None:
    call, result = (
        json.dumps(event).encode() for event in (claude("assistant", CALL), claude("user", RESULT))
    )
    assert (facts_of(call, 0).name, facts_of(call, 0).id) == ("Bash", "toolu_1")
    assert (facts_of(result, 1).call, bool(facts_of(result, 1).flags & FAILED)) == ("toolu_1", True)


def test_bookkeeping_is_quiet_and_in_no_context() -> None:
    selects = context._selection((), None)
    for kind in lenses.BOOKKEEPING:
        assert entry_of({"type": kind}).quiet
        assert not selects(kind)
    assert selects("claude.entry")
    assert searchable(json.dumps({**claude("user", "word"), "searchable": False}).encode()).text == ""
