"""Stored events, as lines of JSON, and what is in them."""

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from durable_sessions import lenient
from durable_sessions.rendering.human_times import moment
from durable_sessions.rendering.text import whole

Event = Mapping[str, Any]
"""A stored event, decoded."""

CALLS = frozenset({"agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use"})
RESULTS = {
    "agent.tool_result": "tool_use_id",
    "user.tool_result": "tool_use_id",
    "agent.mcp_tool_result": "mcp_tool_use_id",
    "user.custom_tool_result": "custom_tool_use_id",
}
"""Results of tool calls, and the member that names the event of the call."""

_DECODER = msgspec.json.Decoder()
_OFFSET = re.compile(r"[0-9]{16}_([0-9]{16})", re.ASCII)


def decode(line: bytes) -> Event:
    """Return the event in a stored line; anything but an object becomes an event that contains it."""
    try:
        value = _DECODER.decode(line)
    except msgspec.DecodeError:  # halves of surrogate pairs and numbers out of range, kept as they came
        try:
            value = _plain(lenient.loads(line))
        except ValueError:
            value = line.decode(errors="replace")
    return value if isinstance(value, dict) else {"type": "unknown", "value": value}


def encode(value: object) -> bytes:
    """Return a decoded JSON value as JSON; halves of surrogate pairs stay escapes, as they came."""
    try:
        return msgspec.json.encode(value)
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value, separators=(",", ":")).encode()


def encode_whole(value: object) -> bytes:
    """Return a decoded JSON value as JSON that every reader takes: without halves of surrogate pairs."""
    encoded = encode(value)
    if b"\\ud" not in encoded:
        return encoded
    return whole(json.dumps(value, ensure_ascii=False, separators=(",", ":"))).encode()


def text_member(event: Event, name: str) -> str:
    """Return a member that should be a text; empty if it is not."""
    value = event.get(name)
    return value if isinstance(value, str) else ""


def position(event: Event) -> int | None:
    """Return where in its session an event is, if it says so."""
    match = _OFFSET.fullmatch(text_member(event, "offset"))
    return int(match[1]) if match else None


def happened_ms(event: Event) -> int | None:
    """Return when something happened, if that is known.

    An imported event happened before it was stored; without a time of its own nobody knows when.
    """
    for name in ("original_created_at", "original_processed_at"):
        if (at_ms := moment(event.get(name))) is not None:
            return at_ms
    source = event.get("source")
    if "original_created_at" in event or (isinstance(source, dict) and "record_id" in source):
        return None
    return moment(event.get("created_at"))


def call_of(event: Event) -> str | None:
    """Return the id of the call that an event is the result of."""
    member = RESULTS.get(text_member(event, "type"))
    return None if member is None else text_member(event, member) or None


def number(value: object) -> int:
    """Return a count that an event states; zero if it states none."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= lenient.COUNT_MAX:
        return 0
    return value


def _plain(value: Any) -> Any:
    """Return a value in which a number out of range is the text of it, for people to read."""
    if isinstance(value, dict):
        return {name: _plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return bytes(value).decode() if isinstance(value, msgspec.Raw) else value
