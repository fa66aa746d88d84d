"""Spans and log records as OTLP sends them, decoded leniently: what is broken is left out and counted."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_NANOSECONDS = 1_000_000
_ERROR = 2
_MS_MAX = 253_402_300_799_000
"""The end of the year 9999: what is later is no time."""


class BadTelemetryError(Exception):
    """A request that is no export of OpenTelemetry; the text says why."""


@dataclass(frozen=True, slots=True)
class SpanEvent:
    """Something that happened during a span."""

    name: str
    at_ms: int
    attributes: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Span:
    """A span that has ended."""

    trace: str
    id: str
    parent: str
    name: str
    start_ms: int
    end_ms: int
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]
    events: list[SpanEvent]
    failure: str | None
    """Why it failed; None if it did not, perhaps empty if nobody says why."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A log record; ``name`` is that of the event that it reports."""

    trace: str
    span: str
    name: str
    at_ms: int
    attributes: Mapping[str, Any]
    resource: Mapping[str, Any]
    body: Any


@dataclass(slots=True)
class Export:
    """What one request brings, and how many of its items could not be read."""

    spans: list[Span] = field(default_factory=list)
    logs: list[LogRecord] = field(default_factory=list)
    broken: int = 0


def traces(document: Mapping[str, Any]) -> Export:
    """Return the spans of an ``ExportTraceServiceRequest``."""
    export = Export()
    for resource, item in _items(document, "resourceSpans", "scopeSpans", "spans"):
        try:
            export.spans.append(_span(item, resource))
        except (TypeError, ValueError, AttributeError, KeyError):
            export.broken += 1
    return export


def logs(document: Mapping[str, Any]) -> Export:
    """Return the records of an ``ExportLogsServiceRequest``."""
    export = Export()
    for resource, item in _items(document, "resourceLogs", "scopeLogs", "logRecords"):
        try:
            export.logs.append(_log(item, resource))
        except (TypeError, ValueError, AttributeError, KeyError):
            export.broken += 1
    return export


def count(document: Mapping[str, Any]) -> int:
    """Return how many metrics an ``ExportMetricsServiceRequest`` has."""
    return sum(1 for _ in _items(document, "resourceMetrics", "scopeMetrics", "metrics"))


def _items(document: Mapping[str, Any], outer: str, inner: str, name: str) -> Iterator[tuple[Any, Any]]:
    for group in _list(document, outer):
        resource = attributes_of(_object(group.get("resource"), "resource"))
        for scope in _list(group, inner):
            for item in _list(scope, name):
                yield resource, item


def _list(value: Mapping[str, Any], name: str) -> list[Any]:
    found = value.get(name, [])
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise BadTelemetryError(f"{name} is no list of objects.")
    return found


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if value is not None and not isinstance(value, dict):
        raise BadTelemetryError(f"{name} is no object.")
    return value or {}


def _span(item: Mapping[str, Any], resource: Mapping[str, Any]) -> Span:
    status = item.get("status") or {}
    # OTLP writes enumerations as numbers; JSON made by general protobuf libraries has their names.
    failed = status.get("code") in (_ERROR, "STATUS_CODE_ERROR")
    start_ms = _ms(item["startTimeUnixNano"])
    return Span(
        _id(item["traceId"], 32),
        _id(item["spanId"], 16),
        _id(item.get("parentSpanId") or "", 16),
        _text(item.get("name", "")),
        start_ms,
        # Clocks of exporters jump; a span that ended before it began would have a negative length.
        max(start_ms, _ms(item.get("endTimeUnixNano") or item["startTimeUnixNano"])),
        attributes_of(item),
        resource,
        [
            SpanEvent(_text(one.get("name", "")), _ms(one.get("timeUnixNano") or 0), attributes_of(one))
            for one in item.get("events") or ()
        ],
        _text(status.get("message", "")) if failed else None,
    )


def _log(item: Mapping[str, Any], resource: Mapping[str, Any]) -> LogRecord:
    attributes = attributes_of(item)
    body = value_of(item.get("body") or {})
    # The name of an event has moved: from an attribute to a member of its own.
    named = item.get("eventName") or attributes.get("event.name") or (body if isinstance(body, str) else "")
    return LogRecord(
        _id(item.get("traceId") or "", 32),
        _id(item.get("spanId") or "", 16),
        _text(named),
        _ms(item.get("timeUnixNano") or item.get("observedTimeUnixNano") or 0),
        attributes,
        resource,
        body,
    )


def attributes_of(item: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes of a span, an event, a record or a resource by name."""
    return {_text(one["key"]): value_of(one.get("value") or {}) for one in item.get("attributes") or ()}


def value_of(value: Mapping[str, Any]) -> Any:
    """Return an ``AnyValue`` as plain JSON; 64-bit numbers may be texts or numbers."""
    for kind, given in value.items():
        match kind:
            case "stringValue" | "bytesValue":
                return _text(given)
            case "boolValue":
                return given is True or given == "true"
            case "intValue":
                return int(given)
            case "doubleValue":
                return float(given)
            case "arrayValue":
                return [value_of(one) for one in given.get("values") or ()]
            case "kvlistValue":
                return attributes_of({"attributes": given.get("values")})
    return None


def _ms(nanoseconds: Any) -> int:
    found = int(nanoseconds) // _NANOSECONDS
    if not 0 <= found <= _MS_MAX:
        raise ValueError("no time")
    return found


def _id(value: Any, digits: int) -> str:
    text = _text(value).lower()
    if text and (len(text) != digits or not all(one in "0123456789abcdef" for one in text)):
        raise ValueError("no id")
    # All zeros mean that there is none.
    return text if text.strip("0") else ""


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value
