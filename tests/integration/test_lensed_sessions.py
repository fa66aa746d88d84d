"""Sessions of adapters: state, context and pairs go by what the frameworks' objects mean."""

from collections.abc import Mapping
from typing import Any

import pytest

from durable_sessions import Client
from durable_sessions.adapters._envelope import wrapped
from durable_sessions.client import Session

Event = dict[str, Any]
MESSAGE = {
    "id": "m1",
    "type": "message",
    "role": "assistant",
    "usage": {"input_tokens": 7, "output_tokens": 3},
}


def openai(**item: Any) -> Event:
    return wrapped("openai.item", item)


def claude(kind: str, *content: Mapping[str, Any], **message: Any) -> Event:
    return wrapped("claude.entry", {"type": kind, "message": {**message, "content": list(content)}})


def google(author: str, *parts: Mapping[str, Any], **event: Any) -> Event:
    return wrapped("adk.event", {"author": author, "content": {"parts": list(parts)}, **event})


def pydantic(kind: str, *parts: Mapping[str, Any], **message: Any) -> Event:
    message = {"kind": kind, "parts": list(parts), **message}
    return wrapped("pydantic.entry", {"id": "e", "parent_id": None, "kind": kind, "message": message})


def microsoft(role: str, *contents: Mapping[str, Any]) -> Event:
    return wrapped("agent-framework.message", {"role": role, "contents": list(contents)})


STORED: dict[str, list[Event]] = {
    "openai": [
        openai(role="user", content="Mend it"),
        openai(type="function_call", call_id="c1", name="ls", arguments='{"at":"."}'),
        openai(type="function_call", call_id="c2", name="cat", arguments="{}"),
        openai(type="function_call_output", call_id="c1", output="calc.py"),
        openai(type="function_call_output", call_id="c2", output="def total"),
        openai(type="message", role="assistant", content="Mended"),
        openai(type="function_call", call_id="c3", name="sleep", arguments="{}"),
    ],
    "claude": [
        claude("user", {"type": "text", "text": "Mend it"}),
        claude("assistant", {"type": "tool_use", "id": "c1", "name": "ls", "input": {"at": "."}}, **MESSAGE),
        claude("assistant", {"type": "tool_use", "id": "c2", "name": "cat", "input": {}}, **MESSAGE),
        claude("user", {"type": "tool_result", "tool_use_id": "c1", "content": "calc.py"}),
        claude("user", {"type": "tool_result", "tool_use_id": "c2", "content": "def total"}),
        claude("assistant", {"type": "text", "text": "Mended"}, **{**MESSAGE, "id": "m2"}),
        claude("assistant", {"type": "tool_use", "id": "c3", "name": "sleep", "input": {}}),
    ],
    "adk": [
        google("user", {"text": "Mend it"}),
        google(
            "coder",
            {"functionCall": {"id": "c1", "name": "ls", "args": {"at": "."}}},
            {"functionCall": {"id": "c2", "name": "cat", "args": {}}},
            usageMetadata={"promptTokenCount": 9, "cachedContentTokenCount": 2, "candidatesTokenCount": 3},
        ),
        google(
            "coder",
            {"functionResponse": {"id": "c1", "name": "ls", "response": {"result": "calc.py"}}},
            {"functionResponse": {"id": "c2", "name": "cat", "response": {"result": "def total"}}},
        ),
        google("coder", {"text": "Mended"}),
        google("coder", {"functionCall": {"id": "c3", "name": "sleep", "args": {}}}),
    ],
    "pydantic": [
        pydantic("request", {"part_kind": "user-prompt", "content": "Mend it"}),
        pydantic(
            "response",
            {"part_kind": "text", "content": "I look."},
            {"part_kind": "tool-call", "tool_name": "ls", "tool_call_id": "c1", "args": '{"at":"."}'},
            {"part_kind": "tool-call", "tool_name": "cat", "tool_call_id": "c2", "args": {}},
            usage={"input_tokens": 9, "cache_read_tokens": 2, "output_tokens": 3},
        ),
        pydantic(
            "request",
            {"part_kind": "tool-return", "tool_name": "ls", "tool_call_id": "c1", "content": "calc.py"},
            {"part_kind": "tool-return", "tool_name": "cat", "tool_call_id": "c2", "content": "def total"},
        ),
        pydantic("response", {"part_kind": "text", "content": "Mended"}),
        pydantic(
            "response", {"part_kind": "tool-call", "tool_name": "sleep", "tool_call_id": "c3", "args": {}}
        ),
    ],
    "agent-framework": [
        microsoft("user", {"type": "text", "text": "Mend it"}),
        microsoft(
            "assistant",
            {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": {"at": "."}},
            {"type": "function_call", "call_id": "c2", "name": "cat", "arguments": {}},
        ),
        microsoft("tool", {"type": "function_result", "call_id": "c1", "result": "calc.py"}),
        microsoft("tool", {"type": "function_result", "call_id": "c2", "result": "def total"}),
        microsoft("assistant", {"type": "text", "text": "Mended"}),
        microsoft("assistant", {"type": "function_call", "call_id": "c3", "name": "sleep", "arguments": {}}),
    ],
}
"""A conversation as each adapter stores it: two calls that are answered, and one that is not."""
USED = {"claude": (14, 6, 0, 2), "adk": (7, 3, 2, 1), "pydantic": (7, 3, 2, 1)}
"""Tokens in, out and from the cache, and the requests: two of Claude's entries tell of one."""


@pytest.fixture(params=STORED)
def told(request: pytest.FixtureRequest, sdk: Client) -> tuple[str, Session]:
    session = sdk.session(request.param)
    for event in STORED[request.param]:
        session.append(event)
    return request.param, session


def test_the_state_counts_what_the_objects_mean(told: tuple[str, Session]) -> None:
    framework, session = told
    state = session.state()
    assert state["goal"]["text"] == "Mend it"
    assert (state["calls"]["total"], state["calls"]["failed"]) == (3, 0)
    assert [(one["id"], one["name"]) for one in state["calls"]["open"]] == [("c3", "sleep")]
    assert [one["code"] for one in state["warnings"] if one["code"] == "orphan_result"] == []
    own = state["usage"]["own"]
    used = (own["input_tokens"], own["output_tokens"], own["cache_read_input_tokens"], own["requests"])
    assert used == USED.get(framework, (0, 0, 0, 0))


def test_a_context_has_the_meaning_and_no_half_of_a_pair(told: tuple[str, Session]) -> None:
    framework, session = told
    stored = list(session.events())
    whole = session.context()
    assert whole.event_ids == [event.id for event in stored[:-1]], "all but the call without a result"
    assert whole.open_calls == ["c3"]
    for item in whole.items:
        assert "raw" not in item["event"]
        assert item["event"]["lens"]["type"].startswith(("user.", "agent."))
    said = str(whole.messages())
    assert all(text in said for text in ("Mend it", "calc.py", "def total", "Mended"))
    seen = set()
    for budget in range(100, whole.tokens + 5, 5):
        ids = session.context(budget_tokens=budget).event_ids
        positions = [event.position for event in stored if event.id in ids]
        seen.add(tuple(positions))
        for group in GROUPS.get(framework, [{1, 3}, {2, 4}]):
            assert len(group.intersection(positions)) in (0, len(group)), (budget, positions)
    assert len(seen) > 2, "some budgets cut between a call and its result"


GROUPS = {"adk": [{1, 2}], "pydantic": [{1, 2}], "agent-framework": [{1, 2, 3}]}
"""The positions that belong together, where one message has several calls."""


def test_a_page_does_not_part_calls_from_results(told: tuple[str, Session]) -> None:
    framework, session = told
    for group in GROUPS.get(framework, [{1, 3}, {2, 4}]):
        for position in (min(group), max(group)):
            found = session.events(around=position, window=0, pairs="keep")
            assert group <= {event.position for event in found}


def test_an_erased_result_leaves_no_open_call(told: tuple[str, Session]) -> None:
    framework, session = told
    stored = list(session.events())
    halves = [place for group in GROUPS.get(framework, [{1, 3}, {2, 4}]) for place in group]
    session.redact([stored[position].id for position in halves], reason="secret")
    calls = session.state()["calls"]
    assert (calls["total"], [one["id"] for one in calls["open"]]) == (3, ["c3"])
    assert "calc.py" not in str([event.data for event in session.events()])


def test_a_call_of_ours_that_mentions_a_format_is_ours(sdk: Client) -> None:
    session = sdk.session("s")
    session.append(
        {"type": "agent.tool_use", "id": "c", "name": "put", "input": {"raw_format": "openai.item/1"}}
    )
    session.append({"type": "agent.tool_result", "tool_use_id": "c", "content": {"raw_format": "x"}})
    assert session.state()["calls"] == {"open": [], "total": 1, "failed": 0}
    found = session.events(around=1, window=0, pairs="keep")
    assert [event.position for event in found] == [0, 1]
    assert [item["event"]["type"] for item in session.context().items] == [
        "agent.tool_use",
        "agent.tool_result",
    ]
