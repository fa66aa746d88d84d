"""Exports that the public packages of their formats read: OpenTelemetry's, PROV's, and Inspect's schema."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import ParseDict
from hypothesis import given, settings
from jsonschema import Draft202012Validator
from opentelemetry.proto.trace.v1.trace_pb2 import Span, TracesData
from prov.model import (
    ProvActivity,
    ProvAgent,
    ProvDerivation,
    ProvDocument,
    ProvEntity,
    ProvGeneration,
    ProvUsage,
)

from durable_sessions.exporters import ExportOptions, prov
from durable_sessions.exporters.otlp import SCHEMA_URL
from durable_sessions.rendering.events import decode, text_member
from tests.unit.exporters import hostile
from tests.unit.exporters.golden import exported, judged

SCHEMA = json.loads((Path(__file__).parent / "inspect-eval-log.schema.json").read_text())
INSPECT = Draft202012Validator(SCHEMA)


def event_id(line: bytes) -> str:
    return text_member(decode(line), "id")


def traces(text: str) -> TracesData:
    """Return a trace as the official package reads it; ids are hex in OTLP's JSON, base64 in protobuf's."""
    document = json.loads(text)
    for spans in (scope["spans"] for one in document["resourceSpans"] for scope in one["scopeSpans"]):
        for span in spans:
            for name, size in (("traceId", 16), ("spanId", 8), ("parentSpanId", 8)):
                if name in span:
                    raw = bytes.fromhex(span[name])
                    assert len(raw) == size
                    span[name] = base64.b64encode(raw).decode()
    found = TracesData()
    ParseDict(document, found)
    return found


def spans_of(found: TracesData) -> list[Span]:
    return list(found.resource_spans[0].scope_spans[0].spans)


def said(span: Span) -> dict[str, Any]:
    return {one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes}


def test_a_trace_has_a_span_for_each_request_and_each_call() -> None:
    found = traces(exported("otlp", judged()))
    assert found.resource_spans[0].schema_url == SCHEMA_URL
    spans = spans_of(found)
    *inner, root = spans
    names = [span.name for span in spans]
    assert names.count("chat claude-opus-4-5") == 2
    calls = [name for name in names if name.startswith("execute_tool")]
    assert sorted(calls) == [
        f"execute_tool {name}" for name in ("ask_person", "bash", "edit", "get_issue", "grep")
    ]
    assert root.name == "invoke_agent builder"
    assert not root.parent_span_id
    assert {span.parent_span_id for span in inner} == {root.span_id}
    assert len({span.span_id for span in spans}) == len(spans)
    assert len({span.trace_id for span in spans}) == 1
    assert all(0 < span.start_time_unix_nano <= span.end_time_unix_nano for span in spans)
    chat = next(span for span in spans if span.name.startswith("chat"))
    assert said(chat) | {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.request.model": "claude-opus-4-5",
        "gen_ai.conversation.id": "build-42",
        "gen_ai.usage.input_tokens": 1_012,
        "gen_ai.usage.output_tokens": 80,
        "gen_ai.usage.cache_read.input_tokens": 900,
    } == said(chat)
    failed = next(span for span in spans if span.name == "execute_tool bash")
    assert (failed.status.code, said(failed)["error.type"]) == (2, "_OTHER")
    (evaluation,) = root.events
    assert evaluation.name == "gen_ai.evaluation.result"
    assert said(evaluation)["gen_ai.evaluation.score.label"] == "pass"


def test_content_is_in_a_trace_only_if_it_is_asked_for() -> None:
    secret = "make test"
    assert secret not in exported("otlp")
    text = exported("otlp", judged(), content=True)
    spans = [said(span) for span in spans_of(traces(text))]
    called = next(one for one in spans if one.get("gen_ai.tool.name") == "bash")
    assert json.loads(called["gen_ai.tool.call.arguments"])["command"] == secret
    assert "FAILED" in called["gen_ai.tool.call.result"]
    first = next(one for one in spans if one["gen_ai.operation.name"] == "chat")
    (answer,) = json.loads(first["gen_ai.output.messages"])
    assert [part["type"] for part in answer["parts"]] == ["text", "tool_call", "tool_call"]
    assert json.loads(first["gen_ai.input.messages"])[0]["role"] == "user"


def test_provenance_relates_events_calls_artifacts_and_principals() -> None:
    document = ProvDocument.deserialize(content=exported("prov", judged()), format="json")
    records = list(document.get_records())
    entities = {str(one.identifier) for one in records if isinstance(one, ProvEntity)}
    activities = {str(one.identifier) for one in records if isinstance(one, ProvActivity)}
    agents = {str(one.identifier) for one in records if isinstance(one, ProvAgent)}
    assert {"event:build-42/e1", "event:build-42/sevt_0010", f"artifact:{'ab' * 32}"} <= entities
    assert {"session:build-42", "call:build-42/sevt_0006"} <= activities
    assert agents == {"principal:build-agent", "principal:judge"}
    derived = derivations(document)
    assert ("event:build-42/e1", "event:build-42/sevt_0010") in derived
    assert ("event:build-42/e1", "event:other/x") in derived
    assert ("event:build-42/sevt_0010", "event:build-42/sevt_0006") in derived  # a result and its call
    assert ("event:build-42/log", f"artifact:{'ab' * 32}") in derived
    assert len(list(document.unified().get_records())) == len(records)


def derivations(document: ProvDocument) -> set[tuple[str, ...]]:
    records = document.get_records(ProvDerivation)
    return {tuple(str(value) for value in one.args[:2]) for one in records}


def provenance(session: dict[str, Any], events: list[dict[str, Any]], **options: Any) -> ProvDocument:
    lines = [json.dumps({"actor": "me", **event}).encode() for event in events]
    text = b"".join(prov.export(session, lines, ExportOptions(**options))).decode()
    return ProvDocument.deserialize(content=text, format="json")


def test_documents_of_two_sessions_merge_and_reads_of_memory_lead_from_one_to_the_other() -> None:
    written = {"type": "ds.memory.written", "id": "lesson", "scope": "project:x", "key": "k", "value": 1}
    writer = provenance({"id": "run-1"}, [{"type": "note", "id": "e1"}, written])
    read = {
        "type": "ds.memory.read",
        "id": "e1",  # as in the other session
        "scope": "project:x",
        "returned": [{"id": "lesson", "session": "run-1"}, {"id": "memver_1", "session": None}],
    }
    undone = {"type": "ds.memory.rolled_back", "id": "e2", "write": "lesson", "session": "run-1"}
    reader = provenance({"id": "run-2"}, [read, undone])
    reads = {("event:run-2/e1", "event:run-1/lesson"), ("event:run-2/e1", "memory:project%3Ax/memver_1")}
    assert derivations(reader) == reads | {("event:run-2/e2", "event:run-1/lesson")}
    used = [tuple(str(value) for value in one.args[:2]) for one in reader.get_records(ProvUsage)]
    assert used == [("session:run-2", source) for _, source in sorted(reads)]
    apart = len(list(writer.get_records())) + len(list(reader.get_records()))
    merged = writer
    merged.update(reader)
    unified = merged.unified()
    # Only the principal, who worked in both, is told twice.
    assert len(list(unified.get_records())) == apart - 1
    entities = {str(one.identifier) for one in unified.get_records(ProvEntity)}
    assert {"event:run-1/e1", "event:run-2/e1", "event:run-1/lesson"} <= entities
    ProvDocument.deserialize(content=unified.serialize(format="json"), format="json")


def test_what_a_fork_inherits_is_told_as_of_the_session_that_it_was_appended_to() -> None:
    sessions: dict[str, dict[str, Any]] = {
        "a": {"id": "a"},
        "b": {"id": "b", "forked_from": {"session_id": "a", "position": 1}},
        "c": {"id": "c", "forked_from": {"session_id": "b", "position": 2}},
    }
    events: list[dict[str, Any]] = [
        {"type": "agent.tool_use", "id": "call", "name": "bash", "offset": f"{0:016}_{0:016}"},
        {"type": "agent.tool_result", "id": "result", "tool_use_id": "call", "offset": f"{0:016}_{1:016}"},
        {"type": "n", "id": "own", "offset": f"{0:016}_{2:016}", "refs": [{"rel": "about", "id": "call"}]},
    ]
    document = provenance(sessions["c"], events, other_session=sessions.get)
    assert derivations(document) == {("event:b/result", "event:a/call"), ("event:c/own", "event:a/call")}
    activities = {str(one.identifier) for one in document.get_records(ProvActivity)}
    assert activities == {"session:a", "session:b", "session:c", "call:a/call"}
    made_by = {tuple(str(one) for one in made.args[:2]) for made in document.get_records(ProvGeneration)}
    assert made_by == {
        ("event:a/call", "session:a"),
        ("event:b/result", "call:a/call"),
        ("event:c/own", "session:c"),
    }
    gone = provenance(sessions["c"], events)  # nobody knows what b was forked from
    assert ("event:c/own", "event:b/call") in derivations(gone)


def test_a_log_of_inspect_has_messages_and_scores() -> None:
    log = json.loads(exported("inspect", judged()))
    INSPECT.validate(log)
    assert (log["version"], log["status"]) == (2, "success")
    (taken,) = log["samples"]
    assert (taken["input"], taken["target"]) == ("Mend the cache", ["It is green."])
    assert taken["scores"]["f1"]["value"] == "C"
    assert log["results"]["scores"][0]["metrics"]["accuracy"]["value"] == 1.0
    roles = [message["role"] for message in taken["messages"]]
    assert roles[:5] == ["user", "system", "assistant", "tool", "tool"]
    answer = taken["messages"][2]
    assert [call["function"] for call in answer["tool_calls"]] == ["bash", "edit"]
    failed = next(one for one in taken["messages"] if one.get("tool_call_id") == "sevt_0006")
    assert (failed["function"], failed["error"]["type"]) == ("bash", "unknown")
    assert log["stats"]["model_usage"]["claude-opus-4-5"]["output_tokens"] == 110


@pytest.mark.parametrize("outcome", ["cancelled", "failed", "timed_out", None])
def test_how_a_session_ended_is_the_status_of_its_log(outcome: str | None) -> None:
    ended = {"type": "ds.session.ended", "outcome": outcome, "reason": "no more money"}
    lines = [json.dumps(ended).encode()] if outcome else []
    log = json.loads(exported("inspect", lines))
    INSPECT.validate(log)
    expected = {"cancelled": "cancelled", "failed": "error", "timed_out": "error", None: "started"}
    assert log["status"] == expected[outcome]


@given(hostile.lines)
@settings(max_examples=60, deadline=None)
def test_every_log_gives_what_the_packages_read(lines: list[bytes]) -> None:
    for content in (False, True):
        spans_of(traces(exported("otlp", lines, content=content)))
    # In a session no two events have the same id.
    unique = list({event_id(line): line for line in lines}.values())
    ProvDocument.deserialize(content=exported("prov", unique), format="json")
    INSPECT.validate(json.loads(exported("inspect", lines)))
