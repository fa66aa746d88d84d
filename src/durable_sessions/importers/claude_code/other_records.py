"""Records other than messages: system notices, attachments, progress, titles and costs."""

from typing import Any

from durable_sessions.importers.claude_code import synthetic_text
from durable_sessions.importers.claude_code.context import ClaudeContext, CurrentClaudeRecord, flush_boundary
from durable_sessions.importers.claude_code.tree import RecordTree
from durable_sessions.importers.claude_code.user import from_teammate, notification, received
from durable_sessions.importers.events import (
    Event,
    blocks,
    failure,
    members,
    objects,
    plain_text,
    text,
    without,
)

_TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle", "summary": "summary"}


def system(context: ClaudeContext, tree: RecordTree, now: CurrentClaudeRecord) -> list[Event]:
    """Return the events of a system record."""
    events = tree.enter(now) + flush_boundary(now.thread)
    subtype = text(now.value.get("subtype"))
    if subtype == "compact_boundary":
        events += now.thread.close_request(context.make)
        now.thread.boundary = _compacted(context, now, members(now.value.get("compactMetadata")))
        return events
    if subtype == "microcompact_boundary":
        meta = members(now.value.get("microcompactMetadata")) or members(now.value.get("compactMetadata"))
        cleared = meta.get("compactedToolIds")
        return [*events, _compacted(context, now, meta, kind="micro", cleared=cleared)]
    if subtype in ("api_error", "error", "api_refusal"):
        return [*events, _error(context, now, retrying=subtype == "api_error")]
    return [*events, context.keep(now, f"system {subtype}".strip())]


def _compacted(context: ClaudeContext, now: CurrentClaudeRecord, meta: dict[str, Any], **more: Any) -> Event:
    return context.event(
        "agent.thread_context_compacted",
        now,
        **more,
        trigger=meta.get("trigger"),
        pre_tokens=meta.get("preTokens"),
        preserved=meta.get("preservedMessages") or meta.get("preservedSegment"),
        source_detail=without(now.value, "uuid", "timestamp"),
    )


def _error(context: ClaudeContext, now: CurrentClaudeRecord, *, retrying: bool) -> Event:
    error = members(now.value.get("error"))
    inner = members(members(error.get("error")).get("error"))
    message = (
        text(error.get("message"))
        or text(inner.get("message"))
        or text(now.value.get("apiRefusalExplanation"))
        or text(now.value.get("content"))
    )
    failed = failure(message, text(error.get("type")), retrying=retrying)
    attempt = now.value.get("retryAttempt") if retrying else None
    return context.event("session.error", now, error=failed, retry_attempt=attempt, source_record=now.value)


def attachment(context: ClaudeContext, tree: RecordTree, now: CurrentClaudeRecord) -> list[Event]:
    """Return the events of an attachment: a queued prompt, or context for the model."""
    events = tree.enter(now)
    attached = members(now.value.get("attachment"))
    kind = text(attached.get("type"))
    detail = without(now.value, "uuid", "timestamp", "rendered")
    if kind == "queued_command":
        prompt, mode = blocks(attached.get("prompt")), attached.get("commandMode", "prompt")
        words = plain_text(prompt)
        if mode == "task-notification" or synthetic_text.is_notification(now.value, words):
            return [*events, received(context, now, prompt, "", **notification(words), source_detail=detail)]
        if synthetic_text.is_from_teammate(now.value, words):
            return [*events, received(context, now, prompt, "", **from_teammate(words), source_detail=detail)]
        if mode == "prompt":
            context.about.suggest(words)
            return [
                *events,
                context.event("user.message", now, queued=True, content=prompt, source_detail=detail),
            ]
    if "rendered" in now.value:
        shown = [block for one in objects(now.value["rendered"]) for block in blocks(one.get("content"))]
        return [
            *events,
            context.event("system.message", now, injected=True, content=shown, source_detail=detail),
        ]
    return [*events, context.keep(now, f"attachment {kind}")]


def progress(context: ClaudeContext, tree: RecordTree, now: CurrentClaudeRecord) -> list[Event]:
    """Return the events of a progress record, which may identify the subagent that a call started."""
    events = tree.enter(now)
    data = members(now.value.get("data"))
    agent = text(data.get("agentId"))
    if data.get("type") == "agent_progress" and agent:
        events += tree.sent_to(now, text(now.value.get("parentToolUseID")), agent)
    return [*events, context.keep(now, "progress")]


def saved_context(context: ClaudeContext, tree: RecordTree, now: CurrentClaudeRecord) -> list[Event]:
    """Return a chained record that has no event of its own."""
    return [*tree.enter(now), context.keep(now, text(now.value.get("type")))]


def title(context: ClaudeContext, tree: RecordTree, now: CurrentClaudeRecord) -> list[Event]:
    """Return a title, unless it is that of another conversation."""
    kind, about = text(now.value.get("type")), context.about
    words = text(now.value.get(_TITLES[kind]))
    # A file may have titles of other conversations of the project too: such a title names their last record.
    if kind == "summary" and not tree.knows(now.value.get("leafUuid")):
        return [context.keep(now, "title of another conversation")]
    # A title that a person has typed stays, although the program goes on suggesting titles.
    if not (kind == "ai-title" and about.metadata.get("named_by") == "user"):
        about.name(words)
    if kind == "custom-title":
        about.metadata["named_by"] = "user"
    return [context.event("session.updated", now, title=words, source_record=now.value)]


def cost(context: ClaudeContext, tree: RecordTree, now: CurrentClaudeRecord) -> list[Event]:
    """Return the costs that the program itself has counted."""
    return [
        context.event(
            "session.usage",
            now,
            total_cost_usd=now.value.get("totalCostUSD"),
            model_usage=now.value.get("modelUsage"),
            source_record=without(now.value, "modelUsage"),
        )
    ]
