"""Names of limits in the description: ``{event_id_max}`` stands for that limit of the server."""

import re
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar

from durable_sessions.limits import Limits

T = TypeVar("T")

_ALONE = re.compile(r"\{([a-z_]+)(//2)?\}")
_IN_TEXT = re.compile(r"\{([a-z_]+)(?::([,g]))?\}")


def filled(value: T, limits: Limits) -> T:
    """Return a description with the names of limits replaced; other words in braces stay.

    A text that is only a name becomes a number, as bounds in schemas are, or with ``//2`` half of it. In
    longer texts a format may follow the name: ``{event_bytes_max:,}``. Both must name a limit.
    """
    filled_in: T = _filled(value, asdict(limits))
    return filled_in


def _filled(value: Any, limits: dict[str, Any]) -> Any:
    if isinstance(value, str):
        if "{" not in value:
            return value
        alone = _ALONE.fullmatch(value)
        if alone is not None:
            return limits[alone[1]] // 2 if alone[2] else limits[alone[1]]
        return _IN_TEXT.sub(partial(_shown, limits), value)
    if isinstance(value, dict):
        return {name: _filled(one, limits) for name, one in value.items()}
    if isinstance(value, list):
        return [_filled(one, limits) for one in value]
    return value


def _shown(limits: dict[str, Any], found: re.Match[str]) -> str:
    if found[2] is None and found[1] not in limits:
        return found[0]
    return format(limits[found[1]], found[2] or "")
