"""Messages of conversations of Pydantic AI."""

from collections.abc import Mapping, Sequence
from typing import Any

from durable_sessions.rendering.lenses.meaning import Meaning, called, decoded, returned, said, thought

_RESULTS = ("tool-return", "retry-prompt")


def entry(raw: Mapping[str, Any]) -> Meaning | None:
    """Return what a message means: what its only part does, or the texts of its parts."""
    message = raw["message"]
    parts = [part for part in message["parts"] if isinstance(part, Mapping)]
    if len(parts) == 1 and (found := _part(parts[0])) is not None:
        return found
    if message.get("kind") == "response":
        return said("agent", _contents(parts))
    kinds = {part.get("part_kind") for part in parts}
    return said("system" if kinds == {"system-prompt"} else "user", _contents(parts))


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
            found += content
        elif content is not None:
            found.append(content)
    return found
