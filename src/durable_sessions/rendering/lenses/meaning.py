"""The members that an object has in our words."""

import json
from typing import Any

Meaning = dict[str, Any]
"""``type``, and what events of that type have: ``content``, or ``name`` and ``input``, …"""
Usage = dict[str, int]
"""What a model request used, as ``model_usage`` says it: input without what came from a cache."""

_DEPTH_MAX = 128
"""How deep arguments may nest that are a text of JSON: as deep as an event, which is checked as it comes."""


def said(role: str, content: Any) -> Meaning:
    """Return a message of the user, the agent or the system."""
    return {"type": f"{role}.message", "content": content}


def called(call_id: Any, name: Any, arguments: Any) -> Meaning:
    """Return a tool call; ``call_id`` is what its result names."""
    return {"type": "agent.tool_use", "name": name, "input": arguments, "call_id": call_id}


def returned(call_id: Any, content: Any, *, is_error: bool = False) -> Meaning:
    """Return the result of a tool call."""
    made = {"type": "agent.tool_result", "tool_use_id": call_id, "content": content}
    return {**made, "is_error": True} if is_error else made


def thought(content: Any) -> Meaning:
    """Return what the agent has thought."""
    return {"type": "agent.thinking", "content": content}


def model_usage(asked: int, output: int, cache_read: int, cache_created: int) -> Usage:
    """Return what a model request used."""
    return {
        "input_tokens": max(asked, 0),
        "output_tokens": output,
        "cache_read_input_tokens": cache_read,
        "cache_creation_input_tokens": cache_created,
    }


def number(value: Any) -> int:
    """Return a count that a framework states; zero if it states none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def decoded(arguments: Any) -> Any:
    """Return the arguments that a text of JSON has; anything else, and what nests too deeply, as it is."""
    if not isinstance(arguments, str):
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    return arguments if _is_deep(value) else value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(_DEPTH_MAX):
        level = [
            inner
            for one in level
            if isinstance(one, dict | list)
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True
