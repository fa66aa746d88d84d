"""Messages of the Microsoft Agent Framework."""

from collections.abc import Mapping
from typing import Any

from durable_sessions.rendering.lenses.meaning import Meaning, called, returned, said, thought

_ROLES = {"user": "user", "assistant": "agent", "system": "system"}


def message(raw: Mapping[str, Any]) -> Meaning | None:
    """Return what a message means: what its only content does, or the texts of its contents."""
    contents = _contents(raw)
    if len(contents) == 1 and (found := _content(contents[0])) is not None:
        return found
    role = raw.get("role")
    return said(_ROLES[role], contents) if isinstance(role, str) and role in _ROLES else None


def steps(raw: Mapping[str, Any]) -> list[Meaning]:
    """Return what the contents of a message do; a text does nothing."""
    return [found for one in _contents(raw) if (found := _content(one)) is not None]


def _contents(raw: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [content for content in raw["contents"] if isinstance(content, Mapping)]


def _content(content: Mapping[str, Any]) -> Meaning | None:
    match content.get("type"):
        case "function_call":
            return called(content.get("call_id"), content.get("name"), content.get("arguments"))
        case "function_result":
            is_error = bool(content.get("exception"))
            return returned(content.get("call_id"), content.get("result"), is_error=is_error)
        case "text_reasoning":
            return thought(content.get("text"))
    return None
