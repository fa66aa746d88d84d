"""Messages of the Microsoft Agent Framework."""

from collections.abc import Mapping
from typing import Any

from durable_sessions.rendering.lenses.meaning import Meaning, called, returned, said, thought

_ROLES = {"user": "user", "assistant": "agent", "system": "system"}


def message(raw: Mapping[str, Any]) -> Meaning | None:
    """Return what a message means: what its only content does, or the texts of its contents."""
    contents = [content for content in raw["contents"] if isinstance(content, Mapping)]
    if len(contents) == 1:
        [one] = contents
        match one.get("type"):
            case "function_call":
                return called(one.get("call_id"), one.get("name"), one.get("arguments"))
            case "function_result":
                is_error = bool(one.get("exception"))
                return returned(one.get("call_id"), one.get("result"), is_error=is_error)
            case "text_reasoning":
                return thought(one.get("text"))
    role = raw.get("role")
    return said(_ROLES[role], contents) if isinstance(role, str) and role in _ROLES else None
