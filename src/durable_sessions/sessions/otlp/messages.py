"""Messages of a model as the conventions for generative AI and OpenInference have them, as events.

Each model request repeats the history. A part of a message gets an id from what it says and from how often
that was said before in the same history, so that what is there already is not stored again.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from durable_sessions.sessions.otlp.naming import event_id

Event = dict[str, Any]
_MESSAGES_MAX = 10_000
_OPENINFERENCE = 500
"""So many numbered messages of OpenInference are looked for."""


class History:
    """The messages of one model request, in order; makes each event once."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._seen: Counter[str] = Counter()

    def events(self, messages: Any) -> Iterator[Event]:
        """Yield the events of messages: a list, or its JSON text."""
        for message in _parsed(messages)[:_MESSAGES_MAX]:
            if not isinstance(message, dict):
                continue
            role = message.get("role")
            for part in _parts(message):
                yield from self._of_part(role if isinstance(role, str) else "user", part)

    def _of_part(self, role: str, part: Mapping[str, Any]) -> Iterator[Event]:
        kind, call = part.get("type"), part.get("id")
        if kind == "tool_call":
            yield tool_use(self._session, call, part.get("name"), part.get("arguments"))
        elif kind == "tool_call_response":
            yield tool_result(self._session, call, part.get("response", part.get("result")))
        else:
            said = part.get("content", part.get("text"))
            text = said if isinstance(said, str) else json.dumps(said if said is not None else part)
            if text.strip():
                yield self._message(role, "agent.thinking" if kind in ("reasoning", "thinking") else "", text)

    def _message(self, role: str, kind: str, text: str) -> Event:
        kind = kind or {"assistant": "agent.message", "system": "system.message"}.get(role, "user.message")
        key = f"{kind}\n{text}"
        number = self._seen[key]
        self._seen[key] += 1
        event: Event = {"id": event_id(self._session, "said", kind, number, text), "type": kind}
        if kind == "agent.thinking":
            return {**event, "thinking": text}
        return {**event, "content": [{"type": "text", "text": text}]}


def call_id(session: str, call: object) -> str:
    """Return the id of the event of a tool call."""
    return event_id(session, "call", call)


def tool_use(session: str, call: object, name: object, given: object) -> Event:
    """Return the event of a tool call."""
    parsed = _json(given)
    wrapped = parsed if isinstance(parsed, dict) else {} if parsed is None else {"value": parsed}
    return {
        "id": call_id(session, call),
        "type": "agent.tool_use",
        "name": name if isinstance(name, str) and name else "unknown",
        "input": wrapped,
    }


def tool_result(session: str, call: object, result: object, *, failed: bool = False) -> Event:
    """Return the event of a tool's result."""
    event: Event = {
        "id": event_id(session, "result", call),
        "type": "agent.tool_result",
        "tool_use_id": call_id(session, call),
        "is_error": failed,
    }
    if result is not None:
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        event["content"] = [{"type": "text", "text": text}]
    return event


def openinference(attributes: Mapping[str, Any], prefix: str) -> list[Event]:
    """Return the messages that OpenInference spreads over attributes, in the shape of the conventions."""
    found: list[Event] = []
    for number in range(_OPENINFERENCE):
        start = f"{prefix}.{number}.message."
        role = attributes.get(start + "role")
        if role is None:
            break
        parts: list[Event] = []
        if isinstance(text := attributes.get(start + "content"), str) and text:
            answered = attributes.get(start + "tool_call_id")
            parts.append(
                {"type": "text", "content": text}
                if answered is None
                else {"type": "tool_call_response", "id": answered, "response": text}
            )
        for index in range(_OPENINFERENCE):
            call = f"{start}tool_calls.{index}.tool_call."
            name = attributes.get(call + "function.name")
            if name is None:
                break
            arguments = attributes.get(call + "function.arguments")
            parts.append(
                {"type": "tool_call", "id": attributes.get(call + "id"), "name": name, "arguments": arguments}
            )
        found.append({"role": role, "parts": parts})
    return found


def _parsed(messages: Any) -> list[Any]:
    found = _json(messages)
    return found if isinstance(found, list) else []


def _json(value: Any) -> Any:
    """Return what a text of JSON says; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        # What an event could not hold, such as NaN or half a surrogate pair, is no JSON here, either.
        return value


def _parts(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    parts = message.get("parts")
    if isinstance(parts, list):
        return [one for one in parts if isinstance(one, dict)]
    content = message.get("content")
    return [{"type": "text", "content": content}] if isinstance(content, str) else []
