"""Telemetry becomes the same events however it is batched, ordered and repeated."""

import itertools
import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.sessions.otlp import mapping, naming, telemetry
from durable_sessions.sessions.otlp.messages import tool_use
from durable_sessions.sessions.otlp.telemetry import BadTelemetryError

TRACE = "5b8efff798038103d269b633813fc60c"
START = 1_763_460_000_000


def value(one: Any) -> dict[str, Any]:
    if isinstance(one, bool):
        return {"boolValue": one}
    if isinstance(one, int):
        return {"intValue": str(one)}
    if isinstance(one, float):
        return {"doubleValue": one}
    return {"stringValue": one if isinstance(one, str) else json.dumps(one)}


def attributes(said: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": value(one)} for name, one in said.items()]


def span(name: str, number: int, at: int, said: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "traceId": TRACE,
        "spanId": f"{number:016x}",
        "name": name,
        "startTimeUnixNano": str((START + at) * 1_000_000),
        "endTimeUnixNano": str((START + at + 5) * 1_000_000),
        "attributes": attributes(said),
        **more,
    }


def log(name: str, at: int, said: dict[str, Any], **more: Any) -> dict[str, Any]:
    record = {"timeUnixNano": str((START + at) * 1_000_000), "body": {"stringValue": name}}
    return {**record, "attributes": attributes(said), **more}


def traces(*spans: dict[str, Any], service: str = "shop") -> dict[str, Any]:
    resource = {"attributes": attributes({"service.name": service})}
    return {"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": list(spans)}]}]}


def logs(*records: dict[str, Any], service: str = "claude-code") -> dict[str, Any]:
    resource = {"attributes": attributes({"service.name": service})}
    return {"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": list(records)}]}]}


def stored(*documents: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the events of exports by session and id, the first of each id, as a server keeps them."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for document in documents:
        export = telemetry.traces(document) if "resourceSpans" in document else telemetry.logs(document)
        assert export.broken == 0
        for session, part in mapping.parts(export, None, unknown=True).items():
            for event in part.events():
                found.setdefault(session, {}).setdefault(event["id"], event)
    return found


def types(session: dict[str, dict[str, Any]]) -> list[str]:
    ordered = sorted(session.values(), key=lambda event: event["original_created_at"])
    return [event["type"] for event in ordered]


CONVERSATION = {"gen_ai.conversation.id": "c1"}
USER = {"role": "user", "parts": [{"type": "text", "content": "Make it green."}]}
CALL = {
    "role": "assistant",
    "parts": [{"type": "tool_call", "id": "t1", "name": "bash", "arguments": {"c": 1}}],
}
RESULT = {"role": "tool", "parts": [{"type": "tool_call_response", "id": "t1", "response": "ok"}]}
SAID = {
    "role": "assistant",
    "parts": [{"type": "reasoning", "content": "hm"}, {"type": "text", "content": "Done."}],
}
CHAT = {**CONVERSATION, "gen_ai.operation.name": "chat", "gen_ai.request.model": "gpt-9"}
TURN = [
    span("chat", 1, 0, {**CHAT, "gen_ai.input.messages": [USER], "gen_ai.output.messages": [CALL]}),
    span(
        "execute_tool",
        2,
        10,
        {
            **CONVERSATION,
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.call.id": "t1",
            "gen_ai.tool.name": "bash",
            "gen_ai.tool.call.arguments": {"c": 1},
            "gen_ai.tool.call.result": "ok",
        },
    ),
    span(
        "chat",
        3,
        20,
        {**CHAT, "gen_ai.input.messages": [USER, CALL, RESULT], "gen_ai.output.messages": [SAID]},
    ),
    span("invoke_agent", 4, 0, {**CONVERSATION, "gen_ai.operation.name": "invoke_agent"}),
    span("SELECT", 5, 12, {}, parentSpanId=f"{2:016x}"),
]


def test_a_turn_of_the_conventions_is_told_once() -> None:
    found = stored(traces(*TURN))
    [session] = found.values()
    assert list(found) == ["otel:shop:c1"], "a span without a conversation belongs to that of its parent"
    assert types(session) == [
        "user.message",
        "agent.tool_use",
        "span.model_request_end",
        "otel.agent_run",
        "otel.span",
        "agent.tool_result",
        "agent.thinking",
        "agent.message",
        "span.model_request_end",
    ]
    events = {event["type"]: event for event in session.values()}
    assert events["agent.tool_result"]["tool_use_id"] == events["agent.tool_use"]["id"]
    assert events["agent.tool_use"]["input"] == {"c": 1}
    assert events["otel.span"]["searchable"] is False


@given(st.randoms(use_true_random=False))
def test_batches_order_and_repetition_change_nothing(chance: random.Random) -> None:
    whole = stored(traces(*TURN[:4]))  # the last one needs its parent in the batch
    spans = [*TURN[:4], *chance.sample(TURN[:4], 2)]
    chance.shuffle(spans)
    cuts = sorted(chance.sample(range(len(spans) + 1), 2))
    pieces = [spans[: cuts[0]], spans[cuts[0] : cuts[1]], spans[cuts[1] :]]
    again = stored(*(traces(*piece) for piece in pieces if piece))
    assert {session: set(events) for session, events in again.items()} == {
        session: set(events) for session, events in whole.items()
    }


def test_a_growing_history_is_stored_once() -> None:
    messages: list[dict[str, Any]] = []
    spans = []
    for number in range(200):
        messages.append(
            {"role": "user", "parts": [{"type": "text", "content": "go on" if number % 2 else f"n{number}"}]}
        )
        answer = {"role": "assistant", "parts": [{"type": "text", "content": f"a{number}"}]}
        said = {**CHAT, "gen_ai.input.messages": list(messages), "gen_ai.output.messages": [answer]}
        spans.append(span("chat", number + 1, number * 10, said))
        messages.append(answer)
    [session] = stored(*(traces(one) for one in spans)).values()
    kinds = types(session)
    assert kinds.count("user.message") == 200, "also what was said in the same words"
    assert kinds.count("agent.message") == 200
    assert kinds.count("span.model_request_end") == 200


def test_claude_code_is_one_session_told_by_logs_and_spans() -> None:
    common = {"session.id": "run-1", "prompt.id": "p1"}
    tokens = {"input_tokens": "12", "output_tokens": 3, "cache_read_tokens": 100, "model": "claude-sonnet-5"}
    records = [
        log("claude_code.user_prompt", 0, {**common, "prompt": "Make it green."}, traceId=TRACE),
        log(
            "claude_code.api_request",
            30,
            {**common, **tokens, "cost_usd": 0.01, "duration_ms": "20"},
            traceId=TRACE,
        ),
        log("claude_code.tool_decision", 31, {**common, "tool_use_id": "t1", "decision": "accept"}),
        log(
            "claude_code.tool_result",
            40,
            {
                **common,
                "tool_use_id": "t1",
                "tool_name": "Bash",
                "tool_input": '{"command":"make"}',
                "success": "false",
            },
        ),
        log("claude_code.api_error", 50, {**common, "error": "overloaded"}),
    ]
    told = [
        span("claude_code.interaction", 1, 0, {**common, "user_prompt": "Make it green."}),
        span("claude_code.llm_request", 2, 10, {**common, **tokens}),
    ]
    found = stored(logs(*records), traces(*told, service="claude-code"))
    assert list(found) == ["otel:claude-code:run-1"]
    kinds = types(found["otel:claude-code:run-1"])
    assert sorted(kinds) == sorted(
        [
            "user.message",
            "span.model_request_end",
            "user.tool_confirmation",
            "agent.tool_use",
            "agent.tool_result",
            "session.error",
            "otel.agent_run",
        ]
    ), "one prompt and one model request, though both are told twice"
    export = telemetry.logs(logs(*records))
    [part] = mapping.parts(export, None, unknown=True).values()
    assert part.metadata["same_run"] == "claude-code:run-1"
    request = next(event for event in part.events() if event["type"] == "span.model_request_end")
    assert request["model_usage"]["input_tokens"] == 12
    assert request["cost_usd"] == 0.01


def test_codex_and_openinference() -> None:
    records = [
        log(
            "codex.user_prompt",
            0,
            {"conversation.id": "x1", "prompt": "Hi", "event.name": "codex.user_prompt"},
        ),
        log(
            "codex.sse_event", 9, {"conversation.id": "x1", "input_token_count": 50, "cached_token_count": 20}
        ),
        log("codex.conversation_starts", 1, {"conversation.id": "x1"}),
    ]
    [(name, session)] = stored(logs(*records, service="codex_cli_rs")).items()
    assert name == "otel:codex_cli_rs:x1"
    assert types(session) == ["user.message", "otel.log", "span.model_request_end"]
    said = {
        "openinference.span.kind": "LLM",
        "session.id": "o1",
        "llm.model_name": "m",
        "llm.token_count.prompt": 30,
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "Hi",
        "llm.output_messages.0.message.role": "assistant",
        "llm.output_messages.0.message.tool_calls.0.tool_call.id": "t9",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "look",
        "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": '{"a": 1}',
    }
    tool = {
        "openinference.span.kind": "TOOL",
        "session.id": "o1",
        "tool.name": "look",
        "output.value": "seen",
    }
    failed = span("look", 2, 9, tool, status={"code": 2, "message": "no"})
    [session] = stored(traces(span("llm", 1, 0, said), failed)).values()
    kinds = types(session)
    assert kinds[:2] == ["user.message", "agent.tool_use"]
    assert [event["is_error"] for event in session.values() if event["type"] == "agent.tool_result"] == [True]


def test_evaluations_and_failures_are_told_without_vouching() -> None:
    event = {
        "name": "gen_ai.evaluation.result",
        "timeUnixNano": str(START * 1_000_000),
        "attributes": attributes(
            {"gen_ai.evaluation.name": "tests", "gen_ai.evaluation.score.label": "pass"}
        ),
    }
    crash = {"name": "exception", "attributes": attributes({"exception.message": "boom"})}
    said = {**CONVERSATION, "gen_ai.operation.name": "invoke_agent"}
    failed = span("invoke_agent", 1, 0, said, events=[event, crash], status={"code": "STATUS_CODE_ERROR"})
    [session] = stored(traces(failed)).values()
    events = {event["type"]: event for event in session.values()}
    assert events["otel.evaluation"]["label"] == "pass"
    assert events["session.error"]["error"]["message"] == "boom"


def test_names_are_never_confused() -> None:
    words = ["", ":", "a", "a:b", "@", "@3A", "/", "..", "☃", "x" * 500, "x" * 501]
    names = [naming.session_id(*pair) for pair in itertools.product(words, repeat=2)]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) <= 200


def test_what_is_unknown_can_be_dropped() -> None:
    export = telemetry.traces(traces(TURN[4]))
    [part] = mapping.parts(export, "mine", unknown=False).values()
    assert part.events() == []


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["key", "value", "attributes", "stringValue", "intValue", "arrayValue", "values", "role"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=10,
)
_ITEM = st.dictionaries(
    st.sampled_from(
        ["traceId", "spanId", "startTimeUnixNano", "timeUnixNano", "attributes", "events", "status", "body"]
    ),
    _ANY | st.just(TRACE) | st.just("00000000000000ab") | st.just("1763460000000000000"),
    max_size=8,
)


@given(st.lists(_ITEM, max_size=3), _ANY)
def test_broken_telemetry_breaks_nothing(items: list[dict[str, Any]], resource: Any) -> None:
    for outer, inner, name, read in (
        ("resourceSpans", "scopeSpans", "spans", telemetry.traces),
        ("resourceLogs", "scopeLogs", "logRecords", telemetry.logs),
    ):
        try:
            export = read({outer: [{"resource": resource, inner: [{name: items}]}]})
        except (BadTelemetryError, TypeError, ValueError, AttributeError, KeyError):
            continue
        for part in mapping.parts(export, None, unknown=True).values():
            assert len(part.events()) <= 10 * len(items)


@pytest.mark.parametrize("text", ["[", "[1]", '{"a":1}', "[{}]", '[{"role":1,"parts":[{}]}]', "[" * 2_000])
def test_messages_of_another_shape_are_no_error(text: str) -> None:
    said = {**CHAT, "gen_ai.input.messages": text}
    [session] = stored(traces(span("chat", 1, 0, said))).values()
    assert "span.model_request_end" in types(session)


@pytest.mark.parametrize(
    "arguments", [r'"\ud800"', r'{"a":["\ud800"]}', "NaN", '{"a":NaN}', '{"a":1e999}', "[" * 60_000]
)
def test_arguments_that_no_event_can_hold_are_a_text(arguments: str) -> None:
    event = tool_use("s", "call", "bash", arguments)
    assert event["input"] == {"value": arguments}
    assert msgspec.json.decode(msgspec.json.encode(event)) == event
