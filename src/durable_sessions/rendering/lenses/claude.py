"""Entries of transcripts of the Claude Agent SDK."""

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


def steps(raw: Mapping[str, Any]) -> list[Meaning]:
    """Return what the blocks of a message do; a text does nothing."""
    content = raw["message"]["content"]
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    return [found for one in blocks if (found := _block(one)) is not None]


def usage(raw: Mapping[str, Any]) -> tuple[Any, Usage] | None:
    """Return what a model request used, and its id: every entry of an answer repeats the usage."""
    message = raw["message"]
    used = message.get("usage")
    if raw.get("type") != "assistant" or not isinstance(used, Mapping):
        return None
    made = model_usage(
        number(used.get("input_tokens")),
        number(used.get("output_tokens")),
        number(used.get("cache_read_input_tokens")),
        number(used.get("cache_creation_input_tokens")),
    )
    return message.get("id"), made


def _block(block: Mapping[str, Any]) -> Meaning | None:
    """Return what a block does; Claude Code writes most of them as an entry with nothing else."""
    match block.get("type"):
        case "tool_use":
            return called(block.get("id"), block.get("name"), block.get("input"))
        case "tool_result":
            is_error = block.get("is_error") is True
            return returned(block.get("tool_use_id"), block.get("content"), is_error=is_error)
        case "thinking":
            return thought(block.get("thinking"))
    return None
