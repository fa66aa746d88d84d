"""Assistant records: a response has one line per block, all with the same usage."""

from typing import Any

from durable_sessions.importers.claude_code.context import (
    ClaudeContext,
    CurrentClaudeRecord,
    add_detail,
    flush_boundary,
)
from durable_sessions.importers.claude_code.thread import ModelRequest, ToolCall
from durable_sessions.importers.claude_code.tree import RecordTree
from durable_sessions.importers.events import (
    Event,
    blocks,
    failure,
    members,
    plain_text,
    text,
    text_block,
    without,
)

SPAWNING_TOOLS = ("Task", "Agent")
_SYNTHETIC = "<synthetic>"


def assistant(context: ClaudeContext, tree: RecordTree, now: CurrentClaudeRecord) -> list[Event]:
    """Return the events of an assistant record."""
    events = tree.enter(now) + flush_boundary(now.thread)
    if now.value.get("isApiErrorMessage") is True:
        return events + now.thread.close_request(context.make) + _failed(context, now)
    if now.message.get("model") == _SYNTHETIC:
        return [*events, context.keep(now, "synthetic answer", kind="synthetic")]
    context.about.note(model=now.message.get("model"))
    events += _request(context, now)
    made: list[Event] = []
    for number, block in enumerate(blocks(now.message.get("content"))):
        made += _block(context, tree, now, str(number), block)
    if not made:
        made = [context.keep(now, "answer without content")]
    add_detail(made, now)
    return events + made


def _request(context: ClaudeContext, now: CurrentClaudeRecord) -> list[Event]:
    """Begin a model request, or continue the one that the record belongs to."""
    thread, used = now.thread, now.message.get("usage")
    name = text(now.message.get("id")) or text(now.value.get("requestId")) or now.key
    events: list[Event] = []
    if thread.request is not None and thread.request.key != name:
        events += thread.close_request(context.make)
    if not isinstance(used, dict):
        return events
    if thread.request is None:
        thread.request = thread.closed.pop(name, None)  # its lines were interrupted, by a tool's result
    if thread.request is None:
        model = text(now.message.get("model")) or None
        start = context.make.make(
            "span.model_request_start",
            name,
            "start",
            at=now.at,
            line=now.line,
            thread=thread.id,
            branch=thread.branch,
            model=model,
        )
        events.append(start)
        thread.request = ModelRequest(name, start["id"], model, now.line, now.at, used)
    request = thread.request
    request.usage, request.line, request.at = used, now.line, now.at
    request.is_complete = now.message.get("stop_reason") is not None
    return events


def _block(
    context: ClaudeContext, tree: RecordTree, now: CurrentClaudeRecord, part: str, block: dict[str, Any]
) -> list[Event]:
    kind = block.get("type")
    if kind == "text":
        if not text(block.get("text")).strip():
            context.tally.skipped["blank text"] += 1
            return []
        return [context.event("agent.message", now, part, content=[block])]
    if kind in ("thinking", "redacted_thinking"):
        thought = text(block.get("thinking"))
        return [
            context.event(
                "agent.thinking",
                now,
                part,
                content=[text_block(thought)] if thought else [],
                encrypted=None if thought else True,
                signature=block.get("signature"),
                data=block.get("data"),
            )
        ]
    if kind in ("tool_use", "server_tool_use"):
        return _tool_use(context, tree, now, part, block)
    context.tally.kept[f"block {text(kind)}"] += 1
    return [context.event("import.record", now, part, source_record=block)]


def _tool_use(
    context: ClaudeContext, tree: RecordTree, now: CurrentClaudeRecord, part: str, block: dict[str, Any]
) -> list[Event]:
    call_id, name = text(block.get("id")), text(block.get("name"))
    server, tool = _mcp_name(name)
    given = block.get("input")
    event = context.event(
        "agent.mcp_tool_use" if server else "agent.tool_use",
        now,
        part,
        call_id=call_id or None,
        name=tool,
        mcp_server_name=server,
        input=given if isinstance(given, dict) else {"_raw": given},
        source_block=without(block, "type", "id", "name", "input") or None,
    )
    spawns = name in SPAWNING_TOOLS
    prompt = text(members(given).get("prompt")) if spawns else None
    now.thread.calls[call_id] = ToolCall(event["id"], name, server is not None, prompt)
    return [event, *(tree.sent_to(now, call_id) if spawns else [])]


def _mcp_name(name: str) -> tuple[str | None, str]:
    if name.startswith("mcp__"):
        server, _, tool = name[5:].partition("__")
        if server and tool:
            return server, tool
    return None, name


def _failed(context: ClaudeContext, now: CurrentClaudeRecord) -> list[Event]:
    """Return the error of a request that failed finally, which the program shows as an answer."""
    start = context.event("span.model_request_start", now, "start")
    error = failure(plain_text(now.message.get("content")), text(now.value.get("error")))
    return [
        start,
        context.event(
            "span.model_request_end",
            now,
            "end",
            model_request_start_id=start["id"],
            is_error=True,
            model_usage={},
        ),
        context.event("session.error", now, "error", error=error, source_record=now.value),
    ]
