"""The context for the next turn: what a session's server assembled, and the same as messages for a model."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import httpx2

from durable_sessions.client import encoding
from durable_sessions.client.call import ApiCall
from durable_sessions.client.calls import json_of, offset_text, session_path
from durable_sessions.server_members import SERVER_MEMBERS

CALLS = frozenset({"agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use"})
RESULTS = frozenset(
    {"agent.tool_result", "agent.mcp_tool_result", "user.tool_result", "user.custom_tool_result"}
)
CALL_IDS = ("tool_use_id", "mcp_tool_use_id", "custom_tool_use_id")
"""The members in which a result names its call."""
Block = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Context:
    """What a model should see next; ``tokens`` are estimated as bytes divided by 4.

    ``preamble`` has the goal, facts, outcome, pending approvals and handoff, always whole. ``items`` are
    events, hits of a query, and summaries of compacted ranges, in order. ``omitted`` events lie before what
    fitted; ``open_calls`` have no result yet, and are in no item.
    """

    session: str
    offset: str
    budget_tokens: int
    tokens: int
    preamble: dict[str, Any]
    items: list[dict[str, Any]]
    event_ids: list[str]
    omitted: int
    open_calls: list[str]

    def messages(self) -> list[dict[str, Any]]:
        """Return it as messages with a ``role`` (system, user, assistant) and blocks as ``content``.

        Blocks are of the type text, tool_use or tool_result; blocks of messages are as they were sent. Every
        tool_use has its tool_result.
        """
        known = _text(preamble_text(self.preamble))
        messages: list[dict[str, Any]] = [{"role": "system", "content": [known]}]
        for item in self.items:
            role, blocks = _said(item)
            # Models want turns: two messages of one role in a row are refused by some of them.
            if messages[-1]["role"] == role:
                messages[-1]["content"] += blocks
            else:
                messages.append({"role": role, "content": blocks})
        return messages


def context(
    session: str,
    *,
    budget_tokens: int | None,
    q: str | None,
    at: str | int | None,
    types: str | Iterable[str] | None,
    see_all: bool,
) -> ApiCall[Context]:
    """Ask for the context of a session."""
    given: list[tuple[str, str]] = []
    if budget_tokens is not None:
        given.append(("budget_tokens", str(budget_tokens)))
    if q is not None:
        given.append(("q", q))
    if at is not None:
        given.append(("at", offset_text(at)))
    if types is not None:
        given += [("types", kind) for kind in ([types] if isinstance(types, str) else types)]
    if see_all:
        given.append(("see", "all"))
    return ApiCall("GET", session_path(session, "context"), _context, parameters=tuple(given))


def preamble_text(preamble: dict[str, Any]) -> str:
    """Return what must be known, for a model to read."""
    parts = []
    if preamble["goal"] is not None:
        parts.append(f"Goal: {preamble['goal']['text']}")
    facts = [f"- {key}: {_plain(fact['value'])}" for key, fact in sorted(preamble["facts"].items())]
    if facts:
        parts.append("Known:\n" + "\n".join(facts))
    if preamble["outcome"] is not None:
        features = [
            f"- [{'x' if one['passing'] else ' '}] {one['id']}: {one['text']}"
            for one in preamble["outcome"]["features"]
        ]
        parts.append("To be done:\n" + "\n".join(features))
    pending = [f"- {one['question']} ({one['id']})" for one in preamble["approvals"]]
    if pending:
        parts.append("Waiting for a decision:\n" + "\n".join(pending))
    if preamble["handoff"] is not None:
        parts.append(f"Handed over: {preamble['handoff']['instructions']}")
    return "\n\n".join(parts)


def _context(answer: httpx2.Response) -> Context:
    said = json_of(answer)
    return Context(
        said["session"],
        said["offset"],
        said["budget_tokens"],
        said["tokens"],
        said["preamble"],
        said["items"],
        said["event_ids"],
        said["omitted"],
        said["open_calls"],
    )


def _said(item: dict[str, Any]) -> tuple[str, list[Block]]:
    if item["kind"] == "summary":
        return "user", [_text(f"What happened before, in short: {item['text']}")]
    event = item["event"]
    if isinstance(meant := event.get("lens"), dict) and "raw_format" in event:
        event = {**meant, "id": meant.get("call_id", event["id"])}
    kind = str(event["type"])
    if kind in CALLS:
        call = {"id": event["id"], "name": event.get("name", ""), "input": event.get("input", {})}
        return "assistant", [{"type": "tool_use", **call}]
    if kind in RESULTS:
        named = next((event[name] for name in CALL_IDS if isinstance(event.get(name), str)), "")
        result = {"tool_use_id": named, "content": _blocks(event.get("content", []))}
        return "user", [{"type": "tool_result", **result, "is_error": event.get("is_error") is True}]
    role = "assistant" if kind.startswith("agent.") else "user"
    if kind in ("user.message", "agent.message"):
        return role, _blocks(event.get("content", []))
    own = {name: value for name, value in event.items() if name not in SERVER_MEMBERS}
    return role, [_text(_plain(own))]


def _blocks(content: Any) -> list[Block]:
    """Return content as blocks: those that were sent, or a text."""
    if isinstance(content, list) and all(isinstance(block, dict) for block in content):
        return [dict(block) for block in content]
    return [_text(_plain(content))]


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else encoding.encode(value).decode()
