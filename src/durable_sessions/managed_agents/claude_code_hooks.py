"""Maps the payloads of Claude Code hooks to events, as a pure function."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

TOOL = "claude-code"
SESSION_PREFIX = "claude-code-hooks:"

Payload = Mapping[str, Any]
Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Hook:
    """One delivery: its payload and the digest of its bytes."""

    payload: Payload
    digest: str

    @property
    def name(self) -> str:
        """The name of the hook, such as ``PostToolUse``."""
        return _text(self.payload.get("hook_event_name"))

    @property
    def natural_name(self) -> str | None:
        """A name that identifies this delivery; None if the payload has no id, so only its position does."""
        payload = self.payload
        for member in ("tool_use_id", "prompt_id"):
            if value := _text(payload.get(member)):
                return f"{self.name} {_text(payload.get('agent_id'))} {value}"
        if self.name == "SubagentStart" and (agent := _text(payload.get("agent_id"))):
            return f"{self.name} {agent}"
        return None

    def events(self, place: int) -> list[Event]:
        """Return the events of this delivery; ``place`` (the session's end) identifies one without a name."""
        named = self.natural_name or f"{self.name} {self.digest} {place}"
        make = _MAPPINGS.get(self.name, _unknown)
        made = make(self.payload)
        # What the events do not contain is kept, once: a newer Claude Code may send members unknown here.
        detail = {name: value for name, value in self.payload.items() if name not in _taken(made)}
        for number, event in enumerate(made):
            event["id"] = _id(self.payload, named, number)
            if (agent := _text(self.payload.get("agent_id"))) and "session_thread_id" not in event:
                event["session_thread_id"] = agent
            event["source"] = {"tool": TOOL, "hook": self.name, "digest": self.digest}
        made[0]["source_detail"] = detail
        return [_ordered(event) for event in made]


def call_event_id(payload: Payload) -> str | None:
    """Return the id of a tool call's event, which its result refers to."""
    call = _text(payload.get("tool_use_id"))
    return _id(payload, f"PreToolUse {_text(payload.get('agent_id'))} {call}", 0) if call else None


def _id(payload: Payload, named: str, number: int) -> str:
    # Ids are made from what was sent. So a delivery that comes twice makes the same events, which are stored
    # once, and a result finds the id of its call without looking for it.
    words = f"{_text(payload.get('session_id'))}\n{named}\n{number}"
    return "hook_" + blake2b(words.encode(errors="surrogatepass"), digest_size=16).hexdigest()


def _ordered(event: Event) -> Event:
    return {"id": event.pop("id"), "type": event.pop("type"), **event}


def _taken(made: list[Event]) -> set[str]:
    """Return the members of a payload that its events contain; each event lists its own in ``_from``."""
    taken: set[str] = {"hook_event_name"}
    for event in made:
        taken.update(event.pop("_from", ()))
    return taken


def _blocks(value: object) -> list[Any]:
    if isinstance(value, str):
        return [{"type": "text", "text": value}]
    if isinstance(value, list):
        return value
    return [] if value is None else [{"type": "unknown", "value": value}]


def _session_start(payload: Payload) -> list[Event]:
    return [{"type": "session.updated", "reason": payload.get("source")}]


def _prompt(payload: Payload) -> list[Event]:
    said = {"type": "user.message", "content": _blocks(payload.get("prompt")), "_from": ("prompt",)}
    return [said, {"type": "session.status_running"}]


def _call(payload: Payload) -> list[Event]:
    name = _text(payload.get("tool_name"))
    given = payload.get("tool_input")
    event: Event = {"type": "agent.tool_use", "name": name}
    server, _, tool = name.removeprefix("mcp__").partition("__")
    if name.startswith("mcp__") and server and tool:
        event = {"type": "agent.mcp_tool_use", "name": tool, "mcp_server_name": server}
    event["input"] = given if isinstance(given, dict) else {"_raw": given}
    return [event | {"_from": ("tool_name", "tool_input")}]


def _result(payload: Payload, *, failed: bool = False) -> list[Event]:
    is_mcp = _text(payload.get("tool_name")).startswith("mcp__")
    source = "error" if failed else "tool_response"
    return [
        {
            "type": "agent.mcp_tool_result" if is_mcp else "agent.tool_result",
            "mcp_tool_use_id" if is_mcp else "tool_use_id": call_event_id(payload),
            "name": payload.get("tool_name"),
            "content": _blocks(payload.get(source)),
            "is_error": failed,
            "_from": (source, "tool_name", "tool_input"),
        }
    ]


def _failure(payload: Payload) -> list[Event]:
    return _result(payload, failed=True)


def _denied(payload: Payload) -> list[Event]:
    return [{"type": "user.tool_confirmation", "tool_use_id": call_event_id(payload), "result": "deny"}]


def _answer(payload: Payload) -> list[Event]:
    words = _text(payload.get("last_assistant_message"))
    if not words.strip():
        return []
    return [{"type": "agent.message", "content": _blocks(words), "_from": ("last_assistant_message",)}]


def _stop(payload: Payload) -> list[Event]:
    return [*_answer(payload), {"type": "session.status_idle", "stop_reason": {"type": "end_turn"}}]


def _stop_failure(payload: Payload) -> list[Event]:
    error = {
        "type": _text(payload.get("error")) or "unknown_error",
        "message": _text(payload.get("error_details")) or "The turn failed.",
        "retry_status": {"type": "terminal"},
    }
    return [{"type": "session.error", "error": error}, *_stop(payload)]


def _subagent_start(payload: Payload) -> list[Event]:
    return [{"type": "session.thread_created", "agent_name": _text(payload.get("agent_type")) or "subagent"}]


def _subagent_stop(payload: Payload) -> list[Event]:
    return [*_answer(payload), {"type": "session.thread_status_idle", "stop_reason": {"type": "end_turn"}}]


def _compacted(payload: Payload) -> list[Event]:
    return [
        {
            "type": "agent.thread_context_compacted",
            "trigger": payload.get("trigger"),
            "summary": payload.get("compact_summary", payload.get("summary")),
        }
    ]


def _session_end(payload: Payload) -> list[Event]:
    reason = _text(payload.get("reason")) or "session_end"
    return [{"type": "session.status_idle", "stop_reason": {"type": reason}}]


def _unknown(payload: Payload) -> list[Event]:
    """Return the event of an unknown hook: its type is the hook's name in snake case."""
    name = _text(payload.get("hook_event_name"))
    snake = "".join(f"_{one.lower()}" if one.isupper() else one for one in name if one.isalnum()).strip("_")
    return [{"type": f"claude_code.{snake[:100] or 'hook'}"}]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_MAPPINGS: dict[str, Callable[[Payload], list[Event]]] = {
    "SessionStart": _session_start,
    "UserPromptSubmit": _prompt,
    "PreToolUse": _call,
    "PostToolUse": _result,
    "PostToolUseFailure": _failure,
    "PermissionDenied": _denied,
    "Stop": _stop,
    "StopFailure": _stop_failure,
    "SubagentStart": _subagent_start,
    "SubagentStop": _subagent_stop,
    "PostCompact": _compacted,
    "SessionEnd": _session_end,
}
HOOKS = (*_MAPPINGS, "Notification", "PermissionRequest", "PreCompact")
"""The hooks to configure: all that concern a session."""
