"""OpenTelemetry over HTTP: the official exporter, hostile bodies, roles, and several workers."""

import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from durable_sessions import Client
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing import BackgroundServer, server
from tests.support.commands import Commands
from tests.support.keys import BOOTSTRAP, bearer, make_secret
from tests.unit.sessions.test_otlp import TURN, log, logs, span, traces, types

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module", params=[1, 2], ids=lambda workers: f"{workers} workers")
def running(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BackgroundServer]:
    with server(tmp_path_factory.mktemp("data"), workers=request.param) as running:
        yield running


def send(url: str, document: dict[str, Any], path: str = "/v1/traces", **parameters: str) -> dict[str, Any]:
    answer = httpx2.post(url + path, json=document, params=parameters)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def events_of(url: str, session: str) -> dict[str, dict[str, Any]]:
    with Client(url) as client:
        return {event.id: dict(event.data) for event in client.session(session).events()}


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip], ids=str)
def test_the_official_exporter_writes_a_session(running: BackgroundServer, compression: Compression) -> None:
    name = f"exported-{compression.value}"
    exporter = OTLPSpanExporter(endpoint=f"{running.url}/v1/traces", compression=compression)
    provider = TracerProvider(resource=Resource({"service.name": "shop", "service.version": "2"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("test")
    common = {"gen_ai.conversation.id": name}
    asked = json.dumps([{"role": "user", "parts": [{"type": "text", "content": "Make it green."}]}])
    with tracer.start_as_current_span(
        "agent", attributes={**common, "gen_ai.operation.name": "invoke_agent"}
    ):
        chat = {**common, "gen_ai.operation.name": "chat", "gen_ai.input.messages": asked}
        with tracer.start_as_current_span("chat", attributes={**chat, "gen_ai.usage.input_tokens": 7}):
            pass
        tool = {**common, "gen_ai.operation.name": "execute_tool", "gen_ai.tool.call.id": "t1"}
        with tracer.start_as_current_span("tool", attributes={**tool, "gen_ai.tool.call.result": "ok"}):
            pass
    provider.shutdown()
    kinds = types(events_of(running.url, f"otel:shop:{name}"))
    assert sorted(kinds) == [
        "agent.tool_result",
        "agent.tool_use",
        "otel.agent_run",
        "span.model_request_end",
        "user.message",
    ]
    with Client(running.url) as client:
        info = client.sessions.get(f"otel:shop:{name}")
        assert info.metadata == {"source": "otlp", "service": "shop", "service_version": "2"}
        assert info.usage.input_tokens == 7


def test_what_is_sent_again_is_stored_once(running: BackgroundServer) -> None:
    assert send(running.url, traces(*TURN, service="again")) == {}
    before = events_of(running.url, "otel:again:c1")
    for one in reversed(TURN[:4]):
        assert send(running.url, traces(one, service="again")) == {}
    assert events_of(running.url, "otel:again:c1") == before


def test_one_request_may_concern_many_sessions(running: BackgroundServer) -> None:
    spans = [span("x", n + 1, n, {"gen_ai.conversation.id": f"many-{n}"}) for n in range(40)]
    assert send(running.url, traces(*spans, service="many")) == {}
    with Client(running.url) as client:
        assert len(list(client.sessions.list(metadata={"service": "many"}))) == 40


def test_a_session_of_ones_own_takes_all_of_it(running: BackgroundServer) -> None:
    with Client(running.url) as client:
        client.session("mine").append({"type": "note"})
        assert send(running.url, traces(*TURN), session="mine") == {}
        assert len(events_of(running.url, "mine")) == 10
        client.session("mine").close()
    refused = send(running.url, traces(span("x", 99, 0, {})), session="mine")["partialSuccess"]
    assert refused["rejectedSpans"] == "1"
    assert "closed" in refused["errorMessage"]
    wrong = httpx2.post(f"{running.url}/v1/traces?session=a%2Fb", json=traces(), headers=JSON)
    assert wrong.status_code == 400


def test_what_came_in_goes_out_and_comes_in_again(running: BackgroundServer, tmp_path: Path) -> None:
    commands = Commands(running.url)
    assert send(running.url, traces(*TURN[:4]), session="round-0") == {}
    said = []
    for number in range(2):
        file = tmp_path / f"{number}.json"
        commands.run("export", f"round-{number}", "--format", "otlp", "--content", "-o", str(file))
        send(running.url, json.loads(file.read_text()), session=f"round-{number + 1}")
        found = events_of(running.url, f"round-{number + 1}")
        told = [event for event in found.values() if event["type"].startswith(("user.", "agent."))]
        said.append([(event["type"], event.get("content"), event.get("input")) for event in told])
    assert said[0] == said[1]
    assert {kind for kind, _, _ in said[0]} >= {
        "user.message",
        "agent.message",
        "agent.tool_use",
        "agent.tool_result",
    }


def packed(body: bytes) -> bytes:
    """Return the same bytes each time, so that all processes of the tests name a case alike."""
    return gzip.compress(body, mtime=0)


@pytest.mark.parametrize(
    ("path", "body", "headers", "status", "told"),
    [
        ("/v1/traces", b"{", JSON, 400, "JSON"),
        ("/v1/traces", b"[]", JSON, 400, "exporter"),
        ("/v1/traces", b'{"resourceSpans":{}}', JSON, 400, "resourceSpans is no list"),
        ("/v1/traces", b'{"resourceSpans":[{"resource":7}]}', JSON, 400, "resource is no object"),
        ("/v1/logs", b'{"resourceLogs":[{"resource":{"attributes":[1]}}]}', JSON, 400, "attributes"),
        ("/v1/traces", b'{"a":' * 500 + b"1" + b"}" * 500, JSON, 400, "deep"),
        ("/v1/traces", b"x", {"Content-Type": "text/plain"}, 415, "application/x-protobuf"),
        ("/v1/traces", b"x", {}, 415, "application/json"),
        ("/v1/traces", b"\xff\xff\xff", {"Content-Type": "application/x-protobuf"}, 400, "no protobuf"),
        ("/v1/traces", b"x", {**JSON, "Content-Encoding": "br"}, 415, "gzip"),
        ("/v1/traces", b"x", {**JSON, "Content-Encoding": "gzip"}, 400, "gzip"),
        ("/v1/traces", packed(b"{}")[:-9], {**JSON, "Content-Encoding": "gzip"}, 400, "middle"),
        (
            "/v1/logs",
            packed(b" " * (DEFAULT_LIMITS.telemetry_bytes_max + 1)),
            {**JSON, "Content-Encoding": "gzip"},
            413,
            "unpacked",
        ),
        ("/v1/traces?sesion=x", b"{}", JSON, 400, "session"),
        ("/v1/traces/x", b"{}", JSON, 404, ""),
    ],
    ids=lambda case: case[:30].decode("latin-1") if isinstance(case, bytes) else None,
)
def test_hostile_exports_are_refused(
    running: BackgroundServer, path: str, body: bytes, headers: dict[str, str], status: int, told: str
) -> None:
    answer = httpx2.post(running.url + path, content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert told in answer.text


def test_broken_spans_are_counted_and_others_stored(running: BackgroundServer) -> None:
    good, bad = log("x", 0, {"session.id": "partly"}), {"timeUnixNano": "never"}
    answer = send(running.url, logs(good, bad, bad, service="partly"), "/v1/logs")
    assert answer["partialSuccess"]["rejectedLogRecords"] == "2"
    assert types(events_of(running.url, "otel:partly:partly")) == ["otel.log"]
    assert send(running.url, {"resourceMetrics": [{}]}, "/v1/metrics") == {}


def test_protobuf_is_answered_in_protobuf(running: BackgroundServer) -> None:
    headers = {"Content-Type": "application/x-protobuf"}
    answer = httpx2.post(f"{running.url}/v1/logs", content=b"", headers=headers)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-protobuf")
    assert not ExportLogsServiceResponse.FromString(answer.content).HasField("partial_success")


def test_without_the_library_json_is_named(
    running: BackgroundServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.proto.collector.trace.v1.trace_service_pb2", None)
    headers = {"Content-Type": "application/x-protobuf"}
    answer = httpx2.post(f"{running.url}/v1/traces", content=b"", headers=headers)
    assert answer.status_code == 415
    assert "OTEL_EXPORTER_OTLP_PROTOCOL=http/json" in answer.text
    assert "durable-sessions[otlp]" in answer.text


@pytest.mark.anyio
async def test_it_takes_a_writer_and_no_foreign_page(tmp_path: Path) -> None:
    with server(tmp_path, api_key=BOOTSTRAP) as guarded:
        reader = await make_secret(guarded.url, "reader", "w")
        writer = await make_secret(guarded.url, "writer", "w")
        body = traces(*TURN)
        url = f"{guarded.url}/v1/traces"
        assert httpx2.post(url, json=body).status_code == 401
        assert httpx2.post(url, json=body, headers=bearer(reader)).status_code == 403
        assert httpx2.post(url, json=body, headers=bearer(writer)).status_code == 200
        found = httpx2.get(f"{guarded.url}/v1/sessions/otel:shop:c1", headers=bearer(reader))
        assert found.status_code == 200, "in the workspace of the key"
        assert (
            httpx2.get(f"{guarded.url}/v1/sessions/otel:shop:c1", headers=bearer(BOOTSTRAP)).status_code
            == 404
        )
    with server(tmp_path / "open", otlp_unknown="drop") as opened:
        foreign = httpx2.post(f"{opened.url}/v1/traces", json=body, headers={"Origin": "http://evil.example"})
        assert foreign.status_code == 403
        send(opened.url, traces(*TURN))
        assert "otel.span" not in types(events_of(opened.url, "otel:shop:c1"))


def test_secrets_are_replaced_before_anything_is_stored(tmp_path: Path) -> None:
    secret = "AKIA" + "ABCDEFGHIJKLMNOP"
    said = json.dumps([{"role": "user", "parts": [{"type": "text", "content": f"Use {secret} for it."}]}])
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.conversation.id": "c1",
        "gen_ai.input.messages": said,
        "user.id": secret,
    }
    document = traces(
        span("chat", 1, 0, chat), span("other", 2, 1, {**chat, "gen_ai.operation.name": secret})
    )
    with server(tmp_path / "kept") as keeping:
        send(keeping.url, document)
        assert secret in str(events_of(keeping.url, "otel:shop:c1"))
    with server(tmp_path / "data", otlp_redact=True) as redacting:
        send(redacting.url, document)
        send(redacting.url, document)
        events = events_of(redacting.url, "otel:shop:c1")
        [asked] = [event for event in events.values() if event["type"] == "user.message"]
        text = asked["content"][0]["text"]
        assert text.startswith("Use [redacted aws-access-key ")
        assert text.endswith("] for it.")
        assert len(events) == 3
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if secret.encode() in path.read_bytes()]
