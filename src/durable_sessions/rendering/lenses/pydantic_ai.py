"""Messages of conversations of Pydantic AI."""

from collections.abc import Mapping, Sequence
from typing import Any

from durable_sessions.rendering.lenses.meaning import (
    Meaning,
    Usage,
    called,
    decoded,
    model_usage,
    number,
    returned,
    said,
    thought,
)

_RESULTS = ("tool-return", "retry-prompt")


def entry(raw: Mapping[str, Any]) -> Meaning | None:
    """Return what a message means: what its only part does, or the texts of its parts."""
    message, parts = raw["message"], _parts(raw)
    if len(parts) == 1 and (found := _part(parts[0])) is not None:
        return found
    if message.get("kind") == "response":
        return said("agent", _contents(parts))
    kinds = {part.get("part_kind") for part in parts}
    return said("system" if kinds == {"system-prompt"} else "user", _contents(parts))


def steps(raw: Mapping[str, Any]) -> list[Meaning]:
    """Return what the parts of a message do; a text does nothing."""
    return [found for one in _parts(raw) if (found := _part(one)) is not None]


def usage(raw: Mapping[str, Any]) -> tuple[Any, Usage] | None:
    """Return what the model request of a response used; its input has what came from a cache."""
    used = raw["message"].get("usage")
    if raw["message"].get("kind") != "response" or not isinstance(used, Mapping):
        return None
    read, written = number(used.get("cache_read_tokens")), number(used.get("cache_write_tokens"))
    asked = number(used.get("input_tokens")) - read - written
    return None, model_usage(asked, number(used.get("output_tokens")), read, written)


def _parts(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [part for part in raw["message"]["parts"] if isinstance(part, Mapping)]


def _part(part: Mapping[str, Any]) -> Meaning | None:
    kind = part.get("part_kind")
    if kind == "tool-call":
        return called(part.get("tool_call_id"), part.get("tool_name"), decoded(part.get("args")))
    if kind in _RESULTS and part.get("tool_name"):
        is_error = kind == "retry-prompt" or part.get("outcome") == "failed"
        return returned(part.get("tool_call_id"), part.get("content"), is_error=is_error)
    if kind == "thinking":
        return thought(part.get("content"))
    return None


def _contents(parts: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the contents of parts as blocks; calls and results among them are shown as data."""
    found: list[Any] = []
    for part in parts:
        content = part.get("content")
        if part.get("part_kind") in (*_RESULTS, "tool-call"):
            found.append(part)
        elif isinstance(content, list):
            found += map(_block, content)
        elif content is not None:
            found.append(_block(content))
    return found


def _block(content: Any) -> Any:
    return {"type": "text", "text": content} if isinstance(content, str) else content
