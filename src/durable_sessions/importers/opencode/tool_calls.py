"""Tool calls: the call, its result, and the message to a subagent that a task is."""

import re
from collections.abc import Iterator

from durable_sessions.importers.events import Event, members, objects, text, text_block, without
from durable_sessions.importers.opencode.context import Fields, OpenCodeContext, file_block

_TASK_OUTPUT = re.compile(r"(?:task_id: |<task id=\")(ses_[A-Za-z0-9]{1,100})")


def tool_call(context: OpenCodeContext, part: Fields, key: str, message_at: object) -> Iterator[Event]:
    """Yield a tool call and, if there is one, its result."""
    state = members(part.get("state"))
    status, time = state.get("status"), members(state.get("time"))
    call_id, name = text(part.get("callID")), text(part.get("tool"))
    given = state.get("input")
    answered = status in ("completed", "error")
    call = context.event(
        "agent.tool_use",
        key,
        "",
        time.get("start", message_at),
        call_id=call_id or None,
        name=name,
        input=given if isinstance(given, dict) else {"_raw": given},
        unanswered=None if answered else True,
        source_detail=without(part, "state"),
    )
    yield call
    metadata = members(state.get("metadata"))
    found = _TASK_OUTPUT.search(text(state.get("output")))
    child = text(metadata.get("sessionId")) or (found.group(1) if found else "")
    if name == "task" and child:
        yield context.event(
            "agent.thread_message_sent",
            key,
            "sent",
            time.get("start", message_at),
            call_id=call_id or None,
            to_session_thread_id=child,
            to_agent_name=members(given).get("subagent_type"),
            tool_use_id=call["id"],
            content=[text_block(text(members(given).get("prompt")))],
        )
    if not answered:
        context.tally.notes["calls without a result"] += 1
        return
    output = state.get("output") if status == "completed" else state.get("error")
    content = [text_block(text(output))] if text(output) else []
    content += [file_block(one) for one in objects(state.get("attachments"))]
    yield context.event(
        "agent.tool_result",
        key,
        "result",
        time.get("end"),
        call_id=call_id or None,
        tool_use_id=call["id"],
        name=name,
        content=content,
        is_error=status == "error",
        source_detail=without(state, "input", "output", "error", "attachments"),
    )
