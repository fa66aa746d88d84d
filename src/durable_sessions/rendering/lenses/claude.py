"""Entries of transcripts of the Claude Agent SDK."""

from collections.abc import Mapping
from typing import Any

from durable_sessions.rendering.lenses.meaning import Meaning, called, returned, said, thought

_ROLES = {"user": "user", "assistant": "agent"}


def entry(raw: Mapping[str, Any]) -> Meaning | None:
    """Return what an entry means; those that are no message are shown as they are."""
    kind = raw.get("type")
    if kind == "system" and isinstance(raw.get("content"), str):
        return said("system", raw["content"])
    message = raw.get("message")
    role = _ROLES.get(kind) if isinstance(kind, str) else None
    if role is None or not isinstance(message, Mapping):
        return None
    content = message.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], Mapping):
        found = _block(content[0])
        if found is not None:
            return found
    return said(role, content)


def _block(block: Mapping[str, Any]) -> Meaning | None:
    """Return what an entry with a single block means, as Claude Code writes most of them."""
    match block.get("type"):
        case "tool_use":
            return called(block.get("id"), block.get("name"), block.get("input"))
        case "tool_result":
            is_error = block.get("is_error") is True
            return returned(block.get("tool_use_id"), block.get("content"), is_error=is_error)
        case "thinking":
            return thought(block.get("thinking"))
    return None
