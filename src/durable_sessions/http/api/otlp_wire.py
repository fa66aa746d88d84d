"""Exports of OpenTelemetry on the wire: gzip, JSON and protobuf, bounded before anything is made of them."""

import base64
import binascii
import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from durable_sessions.errors import InvalidTelemetryError, TelemetryTooLargeError, UnsupportedMediaTypeError
from durable_sessions.http.api.json_body import Expected, decode
from durable_sessions.http.bodies.otlp import ExportAnswer, PartialSuccess
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.openapi.request_headers import CONTENT_ENCODING
from durable_sessions.limits import Limits

JSON, PROTOBUF = b"application/json", b"application/x-protobuf"
_GZIP = 16 + zlib.MAX_WBITS
_IDS = frozenset(("traceId", "spanId", "parentSpanId"))
_EXPORT = Expected("An export", InvalidTelemetryError, "Send what an exporter of OpenTelemetry sends.")
_NO_LIBRARY = (
    "This server reads OTLP as JSON: set OTEL_EXPORTER_OTLP_PROTOCOL=http/json, or install the library for "
    "protobuf on the server's side: python -m pip install 'durable-sessions[otlp]'"
)


def media_type(request: Request) -> bytes:
    """Return how an export is encoded, or refuse it."""
    given = request.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if given not in (JSON, PROTOBUF):
        raise UnsupportedMediaTypeError(
            problem="Send application/json or application/x-protobuf, as OTLP over HTTP has them."
        )
    return given


def is_packed(request: Request) -> bool:
    """Say whether an export is packed with gzip; other encodings are refused."""
    given = request.headers.get(CONTENT_ENCODING.key, b"identity").strip().lower()
    if given not in (b"identity", b"gzip"):
        raise UnsupportedMediaTypeError(problem="Send it as it is, or packed with gzip.")
    return given == b"gzip"


def unpacked(body: bytes, limits: Limits) -> bytes:
    """Return an export unpacked; one that grows beyond the limit is never unpacked any further."""
    machine = zlib.decompressobj(_GZIP)
    try:
        found = machine.decompress(body, limits.telemetry_bytes_max + 1)
    except zlib.error:
        raise InvalidTelemetryError(problem="The body is not packed with gzip, as its header says.") from None
    if len(found) > limits.telemetry_bytes_max:
        raise TelemetryTooLargeError(telemetry_bytes_max=limits.telemetry_bytes_max)
    if not machine.eof:
        raise InvalidTelemetryError(problem="The body ends in the middle of what gzip packed.")
    return found


def document(body: bytes, kind: bytes, signal: str, limits: Limits) -> dict[str, Any]:
    """Return an export as OTLP's JSON has it."""
    if len(body) > limits.telemetry_bytes_max:
        raise TelemetryTooLargeError(telemetry_bytes_max=limits.telemetry_bytes_max)
    if kind == JSON:
        return decode(body, dict[str, Any], _EXPORT, limits)
    message, to_dict, problem = _library(signal, "Request")
    try:
        message.ParseFromString(body)
    except problem:
        raise InvalidTelemetryError(problem="The body is no protobuf of this signal.") from None
    found: dict[str, Any] = _with_hex_ids(to_dict(message))
    return found


def answer(said: PartialSuccess | None, kind: bytes, signal: str) -> bytes:
    """Return an answer in the encoding of its request."""
    if kind == JSON:
        return msgspec.json.encode(ExportAnswer(said))
    message, _, _ = _library(signal, "Response")
    if said is not None:
        part = message.partial_success
        part.error_message = said.error_message
        if signal == "trace":
            part.rejected_spans = int(said.rejected_spans)
        else:
            part.rejected_log_records = int(said.rejected_log_records)
    encoded: bytes = message.SerializeToString()
    return encoded


def _library(signal: str, direction: str) -> tuple[Any, Callable[[Any], dict[str, Any]], type[Exception]]:
    """Return an empty message, and what decodes it; refuse protobuf where its library is not installed."""
    try:
        from importlib import import_module

        from google.protobuf.json_format import MessageToDict
        from google.protobuf.message import DecodeError

        module = import_module(f"opentelemetry.proto.collector.{signal}.v1.{signal}_service_pb2")
    except ImportError:
        raise UnsupportedMediaTypeError(problem=_NO_LIBRARY) from None
    name = f"Export{signal.capitalize()}Service{direction}"
    return getattr(module, name)(), MessageToDict, DecodeError


def _with_hex_ids(value: Any) -> Any:
    """Return a message with its ids in hex, as OTLP's JSON has them; that of protobuf has base64."""
    if isinstance(value, list):
        return [_with_hex_ids(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: _hex(one) if name in _IDS else _with_hex_ids(one) for name, one in value.items()}


def _hex(value: Any) -> Any:
    try:
        return base64.b64decode(value, validate=True).hex()
    except (TypeError, binascii.Error, ValueError):
        return value
