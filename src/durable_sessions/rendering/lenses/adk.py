"""Events of Google's ADK."""

from collections.abc import Mapping
from typing import Any

from durable_sessions.rendering.lenses.meaning import Meaning, called, returned, said, thought


def event(raw: Mapping[str, Any]) -> Meaning | None:
    """Return what an event means: what its only part does, or the texts of its parts."""
    parts = [part for part in raw["content"]["parts"] if isinstance(part, Mapping)]
    if len(parts) == 1:
        [one] = parts
        if isinstance(call := one.get("functionCall"), Mapping):
            return called(call.get("id"), call.get("name"), call.get("args"))
        if isinstance(result := one.get("functionResponse"), Mapping):
            response = result.get("response")
            is_error = isinstance(response, Mapping) and bool(response.get("error"))
            return returned(result.get("id"), response, is_error=is_error)
        if one.get("thought") is True:
            return thought(one.get("text"))
    return said("user" if raw.get("author") == "user" else "agent", parts)
