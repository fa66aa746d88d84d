"""User records: typed messages, tool results, and text that the program inserted."""

from typing import Any

from durable_sessions.importers.claude_code import synthetic_text
from durable_sessions.importers.claude_code.context import (
    ClaudeContext,
    CurrentClaudeRecord,
    add_detail,
    flush_boundary,
)
from durable_sessions.importers.claude_code.thread import ToolCall
from durable_sessions.importers.claude_code.tree import RecordTree
from durable_sessions.importers.events import Event, blocks, members, plain_text, text, without

_DECISIONS = {"accept": "allow", "allow": "allow", "reject": "deny", "deny": "deny"}
_Numbered = list[tuple[int, dict[str, Any]]]


def user(context: ClaudeContext, tree: RecordTree, now: CurrentClaudeRecord) -> list[Event]:
    """Return the events of a user record."""
    events = tree.enter(now)
    if now.value.get("isCompactSummary") is True:
        return [*events, _summary(context, now)]
    # No summary follows the boundary of a compaction any more: usually it is the very next record.
    events += flush_boundary(now.thread)
    content = list(enumerate(blocks(now.message.get("content"))))
    results = [(number, block) for number, block in content if block.get("type") == "tool_result"]
    others = [(number, block) for number, block in content if block.get("type") != "tool_result"]
    made: list[Event] = []
    if results:
        made += now.thread.close_request(context.make)
    for number, block in results:
        made += _tool_result(context, tree, now, number, block)
    if others or not results:
        made += _said(context, now, others)
    add_detail(made, now)
    return events + made


def _summary(context: ClaudeContext, now: CurrentClaudeRecord) -> Event:
    """Return the compaction that a summary belongs to, with the summary."""
    words = plain_text(now.message.get("content"))
    event, now.thread.boundary = now.thread.boundary, None
    if event is None:
        detail = without(now.value, "message")
        return context.event("agent.thread_context_compacted", now, summary=words, source_detail=detail)
    # Another id than without the summary: an earlier import may have stored it without, when it was settled.
    event["id"] = context.make.id(event["source"]["record_id"], "summary")
    event["summary"] = words
    event["summary_record"] = without(now.value, "message")
    context.tally.merged["summary into its compaction"] += 1
    return event


def _tool_result(
    context: ClaudeContext, tree: RecordTree, now: CurrentClaudeRecord, number: int, block: dict[str, Any]
) -> list[Event]:
    call_id = text(block.get("tool_use_id")) or text(now.value.get("sourceToolUseID"))
    call = now.thread.calls.get(call_id)
    content = blocks(block.get("content"))
    events: list[Event] = []
    refused = now.value.get("toolDenialKind") == "user-rejected"
    if refused or plain_text(content).startswith(synthetic_text.REFUSED):
        named = call.event_id if call else call_id
        events.append(
            context.event(
                "user.tool_confirmation",
                now,
                f"{number} deny",
                call_id=call_id,
                tool_use_id=named,
                result="deny",
            )
        )
    result = context.event(
        "agent.mcp_tool_result" if call and call.is_mcp else "agent.tool_result",
        now,
        str(number),
        call_id=call_id,
        **_link(call, call_id),
        name=call.name if call else None,
        content=content,
        is_error=block.get("is_error") is True,
        evaluated_permission=_permission(now.value.get("permissionDecision")),
        orphan=None if call else True,
        supersedes=call.result_id if call else None,
        source_block=without(block, "type", "tool_use_id", "content", "is_error") or None,
    )
    events.append(result)
    if call is None:
        context.tally.notes["results without a call"] += 1
    elif call.result_id is None:
        call.result_id = result["id"]
    agent = text(members(now.value.get("toolUseResult")).get("agentId"))
    return events + (tree.sent_to(now, call_id, agent) if agent else [])


def _link(call: ToolCall | None, call_id: str) -> dict[str, Any]:
    """Return the member that links a result to its call: the call's event, or the tool's own id for it."""
    if call is None:
        return {"tool_use_id": call_id}
    return {"mcp_tool_use_id" if call.is_mcp else "tool_use_id": call.event_id}


def _permission(decision: object) -> str | None:
    return _DECISIONS.get(text(members(decision).get("decision")))


def _said(context: ClaudeContext, now: CurrentClaudeRecord, numbered: _Numbered) -> list[Event]:
    content = [block for _, block in numbered]
    if now.value.get("isMeta") is True:
        return [context.event("system.message", now, "said", injected=True, meta=True, content=content)]
    injected: list[Event] = []
    from_others: list[Event] = []
    own: list[dict[str, Any]] = []
    for number, block in numbered:
        words = text(block.get("text"))
        if synthetic_text.is_injected(words):
            injected.append(context.event("system.message", now, str(number), injected=True, content=[block]))
        elif len(numbered) > 1 and synthetic_text.is_from_teammate({}, words):
            from_others.append(received(context, now, [block], str(number), **from_teammate(words)))
        else:
            own.append(block)
    # What programs inserted and what teammates sent goes behind the user's own words, which begin the turn.
    injected += from_others
    # An insertion alone is no new turn: the model goes on with its request, unless a teammate has spoken.
    if not own and injected:
        return [*(now.thread.close_request(context.make) if from_others else []), *injected]
    closed = now.thread.close_request(context.make)
    return [*closed, _own_words(context, now, plain_text(own), own), *injected]


def _own_words(
    context: ClaudeContext, now: CurrentClaudeRecord, words: str, content: list[dict[str, Any]]
) -> Event:
    """Return the event for a text: a report, an interrupt, a command, its output, or a message."""
    if synthetic_text.is_notification(now.value, words):
        return received(context, now, content, "said", **notification(words))
    if synthetic_text.is_from_teammate(now.value, words):
        return received(context, now, content, "said", **from_teammate(words))
    if words.startswith(synthetic_text.INTERRUPTED):
        return context.event("user.interrupt", now, "said", content=content)
    # The program writes what a slash command printed as a message of the user, who never said that.
    if synthetic_text.is_command_output(words):
        context.tally.kept["command output"] += 1
        command = now.thread.last_command
        return context.event(
            "import.record", now, "said", kind="command_output", command_event_id=command, content=content
        )
    if synthetic_text.is_command(words):
        event = context.event("user.message", now, "said", command=True, content=content)
        now.thread.last_command = event["id"]
        if now.thread.id is None:
            context.about.suggest_command(synthetic_text.typed_command(words))
        return event
    # In the file of a subagent the user is the agent that started it.
    if now.thread.id is not None:
        return received(context, now, content, "said", from_agent_name="main")
    context.about.suggest(words)
    return context.event("user.message", now, "said", content=content)


def notification(words: str) -> dict[str, Any]:
    """Return what tells the report of a background task from other messages."""
    return {"from_session_thread_id": synthetic_text.task_id(words), "notification": True}


def from_teammate(words: str) -> dict[str, Any]:
    """Return what tells a message of a teammate from other messages, although it is written as a user's."""
    return {"from_agent_name": synthetic_text.teammates(words), "teammate": True}


def received(
    context: ClaudeContext, now: CurrentClaudeRecord, content: list[Event], block: str, **more: Any
) -> Event:
    """Return a message that another agent, or a task, has sent to this one."""
    return context.event("agent.thread_message_received", now, block, **more, content=content)
