"""Events of Google's ADK."""

from collections.abc import Mapping
from typing import Any

from durable_sessions.rendering.lenses.meaning import (
    Meaning,
    Usage,
    called,
    model_usage,
    number,
    returned,
    said,
    thought,
)


def event(raw: Mapping[str, Any]) -> Meaning | None:
    """Return what an event means: what its only part does, or the texts of its parts."""
    parts = _parts(raw)
    if len(parts) == 1 and (found := _part(parts[0])) is not None:
        return found
    return said("user" if raw.get("author") == "user" else "agent", parts)


def steps(raw: Mapping[str, Any]) -> list[Meaning]:
    """Return what the parts of an event do; a text does nothing."""
    return [found for one in _parts(raw) if (found := _part(one)) is not None]


def usage(raw: Mapping[str, Any]) -> tuple[Any, Usage] | None:
    """Return what the model request of an event used; each event is one."""
    used = raw.get("usageMetadata")
    if not isinstance(used, Mapping) or raw.get("partial") is True:
        return None
    cached = number(used.get("cachedContentTokenCount"))
    output = number(used.get("candidatesTokenCount")) + number(used.get("thoughtsTokenCount"))
    return None, model_usage(number(used.get("promptTokenCount")) - cached, output, cached, 0)


def _parts(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for part in raw["content"]["parts"] if isinstance(part, Mapping)]


def _part(part: Mapping[str, Any]) -> Meaning | None:
    if isinstance(call := part.get("functionCall"), Mapping):
        return called(call.get("id"), call.get("name"), call.get("args"))
    if isinstance(result := part.get("functionResponse"), Mapping):
        response = result.get("response")
        is_error = isinstance(response, Mapping) and bool(response.get("error"))
        return returned(result.get("id"), response, is_error=is_error)
    return thought(part.get("text")) if part.get("thought") is True else None
