"""Counts of events, as the index of the samples states them."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

Event = dict[str, Any]
USAGE = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def count(events: Iterable[Event]) -> dict[str, Any]:
    found: Counter[str] = Counter()
    used: Counter[str] = Counter()
    uses: set[str] = set()
    results: set[str] = set()
    failed: set[str] = set()
    for event in events:
        kind = event["type"]
        call = event["source"].get("call_id") or event["id"]
        if kind == "user.message":
            found["user_commands" if event.get("command") else "user_messages"] += 1
        elif kind == "user.interrupt":
            found["interrupts"] += 1
        elif kind == "agent.message":
            found["agent_messages"] += 1
        elif kind == "agent.thinking":
            found["thinking"] += 1
            found["thinking_opaque"] += not event["content"]
            found["thinking_encrypted"] += event.get("encrypted") is True
        elif kind in ("agent.tool_use", "agent.mcp_tool_use"):
            uses.add(call)
        elif kind in ("agent.tool_result", "agent.mcp_tool_result"):
            results.add(call)
            if event["is_error"]:
                failed.add(call)
        elif kind == "agent.thread_context_compacted":
            found["microcompactions" if event.get("kind") == "micro" else "compactions"] += 1
            found["compact_summaries"] += bool(event.get("summary"))
        elif kind == "agent.thread_message_received":
            found[_received(event)] += 1
        elif kind == "session.error":
            retried = event["error"]["retry_status"]["type"] == "retrying"
            found["api_retries" if retried else "errors"] += 1
        elif kind == "import.record":
            found["command_outputs"] += event.get("kind") == "command_output"
            found["synthetic_agent_records"] += event.get("kind") == "synthetic"
        elif kind == "system.message":
            found["meta_user_records"] += event.get("meta") is True
        elif kind == "span.model_request_end" and not event["is_error"]:
            found["model_requests"] += "continues" not in event
            used.update({name: event["model_usage"].get(name, 0) for name in USAGE})
        found["images"] += _images(event.get("content"))
    found.update(tool_uses=len(uses), tool_results=len(results), tool_errors=len(failed))
    return {**{name: value for name, value in found.items() if value}, "usage": dict(used)}


def _received(event: Event) -> str:
    if event.get("notification"):
        return "notifications"
    return "teammate_messages" if event.get("teammate") else "subagent_prompts"


def _images(content: object) -> int:
    return sum(
        isinstance(block, dict) and block.get("type") == "image"
        for block in (content if isinstance(content, list) else [])
    )


def differences(found: dict[str, Any], expected: dict[str, Any], ignored: Iterable[str] = ()) -> list[str]:
    return [
        f"{name}: {found.get(name, 0)} instead of {value}"
        for name, value in expected.items()
        if name not in ignored and found.get(name, 0 if value is not None else None) != value
    ]
