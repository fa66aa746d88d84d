"""Which session telemetry belongs to, and under which ids its events are kept."""

import re
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

from durable_sessions.sessions.otlp.telemetry import LogRecord, Span

PREFIX = "otel"
_CONVERSATION = ("gen_ai.conversation.id", "session.id", "conversation.id")
_PLAIN = re.compile(r"[^A-Za-z0-9._-]", re.ASCII)
_NAME_MAX = 200
_METADATA_MAX = 500
_DEPTH_MAX = 100
"""How far a span's parents are followed."""
_SAME_RUN = (("claude-code", "session.id", "claude-code"), ("codex", "conversation.id", "codex"))
"""Services whose runs other parts of this server keep, too: their attribute, and the name they have there."""


def session_id(service: str, conversation: str) -> str:
    """Return the id of a session; different names never become the same."""
    name = ":".join((PREFIX, _escaped(service), _escaped(conversation)))
    return name if len(name) <= _NAME_MAX else f"{PREFIX}:@@{sha256(name.encode()).hexdigest()}"


def _escaped(part: str) -> str:
    encoded = part.encode(errors="replace")
    return _PLAIN.sub(lambda one: f"@{ord(one[0]):02X}", encoded.decode("latin-1")) or "@"


def conversation_of(item: Span | LogRecord, spans: Mapping[tuple[str, str], Span]) -> str:
    """Return what a span or record says it belongs to: itself, its parents in the batch, its resource."""
    for attributes in _around(item, spans):
        for name in _CONVERSATION:
            if isinstance(found := attributes.get(name), str) and found:
                return found
    return f"trace:{item.trace}" if item.trace else "none"


def _around(item: Span | LogRecord, spans: Mapping[tuple[str, str], Span]) -> Iterable[Mapping[str, Any]]:
    yield item.attributes
    parent = item.parent if isinstance(item, Span) else item.span
    for _ in range(_DEPTH_MAX):
        span = spans.get((item.trace, parent)) if parent else None
        if span is None:
            break
        yield span.attributes
        parent = span.parent
    yield item.resource


def service_of(resource: Mapping[str, Any]) -> str:
    """Return the name of the service that sent something."""
    found = resource.get("service.name")
    return found if isinstance(found, str) and found else "unknown"


def metadata_of(item: Span | LogRecord) -> dict[str, str]:
    """Return the metadata of the session that an item creates."""
    service = service_of(item.resource)
    said = {
        "source": "otlp",
        "service": service,
        "service_version": item.resource.get("service.version"),
        "user": item.attributes.get("user.id", item.resource.get("user.id")),
    }
    for name, attribute, prefix in _SAME_RUN:
        run = item.attributes.get(attribute, item.resource.get(attribute))
        if name in service and isinstance(run, str):
            said["same_run"] = f"{prefix}:{run}"
    return {name: one[:_METADATA_MAX] for name, one in said.items() if isinstance(one, str) and one}


def event_id(session: str, *parts: object) -> str:
    """Return an id that is the same however often, and in whichever batches, something is sent."""
    words = "\n".join(map(str, (session, *parts)))
    return "ot_" + sha256(words.encode(errors="surrogatepass")).hexdigest()[:40]
