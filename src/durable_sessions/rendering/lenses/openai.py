"""Items of conversations of the OpenAI Agents SDK."""

from collections.abc import Mapping
from typing import Any

from durable_sessions.rendering.lenses.meaning import Meaning, called, decoded, returned, said, thought

_ROLES = {"user": "user", "assistant": "agent", "system": "system", "developer": "system"}


def item(raw: Mapping[str, Any]) -> Meaning | None:
    """Return what an item means."""
    kind, role = raw.get("type", "message"), raw.get("role")
    if kind == "message" and isinstance(role, str) and role in _ROLES:
        return said(_ROLES[role], raw.get("content"))
    if kind in ("function_call", "custom_tool_call"):
        arguments = raw.get("arguments" if kind == "function_call" else "input")
        return called(raw.get("call_id"), raw.get("name"), decoded(arguments))
    if kind in ("function_call_output", "custom_tool_call_output"):
        return returned(raw.get("call_id"), raw.get("output"))
    if kind == "reasoning":
        parts = [*(raw.get("summary") or ()), *(raw.get("content") or ())]
        return thought("\n".join(str(part["text"]) for part in parts if "text" in part))
    return None


def steps(raw: Mapping[str, Any]) -> list[Meaning]:
    """Return what an item does: it is one thing only."""
    meant = item(raw)
    return [] if meant is None else [meant]
