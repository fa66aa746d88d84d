"""OpenTelemetry in: its operations."""

from durable_sessions.http.bodies.otlp import ExportAnswer
from durable_sessions.http.openapi.error_groups import READING
from durable_sessions.http.openapi.parts import JSON, Answer, Body, Noun, Operation, in_query
from durable_sessions.http.openapi.request_headers import CONTENT_ENCODING
from durable_sessions.http.openapi.schemas import Schema, record, text
from durable_sessions.http.openapi.struct_schemas import schema_of

PROTOBUF = "application/x-protobuf"
SESSION = in_query(
    "session",
    text(minLength=1, maxLength=200),
    "The session that takes all of it. If absent, each conversation has its own: `otel:<service>:<id>`.",
    "build-42",
    "invalid_session",
)
_REFUSED = ("unsupported_media_type", "telemetry_too_large", "invalid_telemetry", *READING)


def _body(member: str, what: str) -> Body:
    groups: Schema = {"type": "array", "items": {"type": "object"}}
    shape = record({member: groups}, additionalProperties=True)
    said = f"{what}, as OTLP/HTTP has it, perhaps packed with gzip. Protobuf needs the extra `otlp`."
    return Body({JSON: shape, PROTOBUF: text(format="binary")}, said, True, ("invalid_json",))


def _taken(said: str) -> Answer:
    return Answer(said, {JSON: schema_of(ExportAnswer), PROTOBUF: text(format="binary")})


NOUN = Noun(
    "OpenTelemetry",
    "Agents that send OpenTelemetry can write sessions without knowing it: "
    "`OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4437` is the whole set-up. Spans and log records by the "
    "conventions for generative AI, of OpenInference, Claude Code and Codex become events; others are kept "
    "as they came. What is sent again, in whichever batches, is stored once. At most "
    "{telemetry_bytes_max:,} bytes when it is unpacked.",
    (
        Operation(
            "exportTraces: POST /v1/traces",
            "Take spans. Answered when the events are durable.",
            {200: _taken("Durable, but for what `partialSuccess` names.")},
            (SESSION, CONTENT_ENCODING),
            _body("resourceSpans", "An ExportTraceServiceRequest"),
            _REFUSED,
        ),
        Operation(
            "exportLogs: POST /v1/logs",
            "Take log records. Answered when the events are durable.",
            {200: _taken("Durable, but for what `partialSuccess` names.")},
            (SESSION, CONTENT_ENCODING),
            _body("resourceLogs", "An ExportLogsServiceRequest"),
            _REFUSED,
        ),
        Operation(
            "exportMetrics: POST /v1/metrics",
            "Take metrics, and drop them. Exporters send all signals to one place; a session has no metrics.",
            {200: _taken("Dropped.")},
            (SESSION, CONTENT_ENCODING),
            _body("resourceMetrics", "An ExportMetricsServiceRequest"),
            _REFUSED,
        ),
    ),
)
