"""What an outline says of an event is what rendering shows of it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.rendering.entries import KNOWN_TYPES, entry_of
from durable_sessions.rendering.events import decode
from durable_sessions.sessions.outline.facts import (
    COMPACTION,
    FAILED,
    HIDDEN,
    IMAGE,
    QUIET,
    REDACTED,
    ROLES,
    facts_of,
)

KINDS = (
    *KNOWN_TYPES,
    "session.status_idle",
    "session.status_running",
    "session.status_terminated",
    "session.thread_created",
    "session.deleted",
    "span.model_request_start",
    "span.outcome_evaluation_end",
    "workflow_run.created",
    "workflow_run.ended",
    "note",
)
texts = st.sampled_from(["", "hello", "two\nlines", "é\u200b"])
contents: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    texts,
    st.lists(texts.map(lambda text: {"type": "text", "text": text}), max_size=3),
    st.just([]),
)
events = st.fixed_dictionaries(
    {"id": st.just("e"), "type": st.sampled_from(KINDS), "created_at": st.just("2026-01-02T03:04:05.678Z")},
    optional={
        "content": contents,
        "thinking": texts,
        "text": texts,
        "summary": texts,
        "is_error": st.booleans() | st.just("true"),
        "injected": st.booleans(),
        "kind": st.sampled_from(["micro", "full"]),
        "explanation": texts,
        "stop_reason": st.sampled_from(
            [None, "x", {"type": "end_turn"}, {"type": "requires_action"}, {"type": "refusal"}]
        ),
        "original_created_at": st.sampled_from(["2020-01-01T00:00:00Z", "soon", None]),
        "original_processed_at": st.sampled_from(["2021-01-01T00:00:00Z", 5]),
        "source": st.sampled_from([{"record_id": "r"}, {"tool": "x"}, "x"]),
        "name": texts,
        "mcp_server_name": texts,
        "session_thread_id": st.sampled_from(["sthr_1", ""]),
        "tool_use_id": st.sampled_from(["call", ""]),
    },
)


@given(events)
def test_role_quiet_failed_and_time_are_those_that_are_shown(event: dict[str, Any]) -> None:
    stored = json.dumps(event).encode()
    shown = entry_of(decode(stored))
    found = facts_of(stored, 0)
    assert ROLES[found.role] == shown.role.value
    assert bool(found.flags & QUIET) == shown.quiet
    assert bool(found.flags & FAILED) == shown.failed
    assert found.at_ms == shown.at_ms
    assert found.call == shown.call
    assert found.thread == event.get("session_thread_id", "")


@given(
    st.binary(max_size=60)
    | st.dictionaries(st.text(max_size=6), st.integers()).map(lambda d: json.dumps(d).encode())
)
def test_everything_has_facts(stored: bytes) -> None:
    assert 0 <= facts_of(stored, 0).role < len(ROLES)


@pytest.mark.parametrize(
    ("members", "flag"),
    [
        ({"type": "agent.thread_context_compacted"}, COMPACTION),
        ({"type": "user.message", "content": [{"type": "image", "source": {}}]}, IMAGE),
        ({"type": "note", "redacted": {"by": "me"}}, REDACTED),
        ({"type": "note", "dropped": {"by": "me"}}, REDACTED),
        ({"type": "user.message", "content": "a\u200bb"}, HIDDEN),
        ({"type": "user.message", "content": "tags \U000e0041"}, HIDDEN),
    ],
)
def test_flags(members: dict[str, Any], flag: int) -> None:
    assert facts_of(json.dumps(members).encode(), 0).flags & flag
    plain = {"type": "user.message", "content": 'an image of "redacted" things'}
    assert not facts_of(json.dumps(plain).encode(), 0).flags


def test_equal_calls_have_equal_keys() -> None:
    def key(name: str, **given: Any) -> int:
        return facts_of(json.dumps({"type": "agent.tool_use", "name": name, "input": given}).encode(), 0).key

    assert key("bash", command="ls") == key("bash", command="ls")
    assert len({key("bash", command="ls"), key("sh", command="ls"), key("bash", command="ll")}) == 3


def test_a_model_request_says_what_it_used() -> None:
    usage = {
        "input_tokens": 10,
        "output_tokens": 3,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 2,
    }
    event = {"type": "span.model_request_end", "model_usage": usage, "cost_usd": 0.25}
    request = facts_of(json.dumps(event).encode(), 7).request
    assert request is not None
    assert (request.index, request.context, request.output, request.cost_micros) == (7, 17, 3, 250_000)
