"""Messages of the assistant: text, reasoning, model requests, summaries and errors."""

import re
from collections.abc import Iterator

from durable_sessions.importers.events import Event, count, failure, members, text, text_block, usage, without
from durable_sessions.importers.opencode.context import Fields, OpenCodeContext
from durable_sessions.importers.opencode.tool_calls import tool_call

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def assistant(context: OpenCodeContext, message: Fields, parts: list[Fields]) -> Iterator[Event]:
    """Yield the events of a message of the assistant."""
    key, at = text(message.get("id")), members(message.get("time")).get("created")
    context.about.note(model=message.get("modelID"), model_provider=message.get("providerID"))
    start: Event | None = None
    summary: list[str] = []
    first = True
    for part in parts:
        made: list[Event] = []
        kind = part.get("type")
        if kind == "step-start":
            start = context.event(
                "span.model_request_start",
                text(part.get("id")),
                "",
                at,
                model=message.get("modelID"),
                source_detail=part,
            )
            made = [start]
        elif kind == "step-finish":
            made = [_step_finish(context, message, part, start)]
            start = None
        elif kind == "text" and message.get("summary") is True:
            summary.append(text(part.get("text")))
            first = False
            context.tally.merged["summary into its compaction"] += 1
        else:
            made = list(_part(context, part, at))
        if first and made:
            made[0]["source_message"] = without(message, "id")
            first = False
        yield from made
    if message.get("summary") is True:
        yield _summarised(context, message, key, at, "\n".join(summary))
    if error := members(message.get("error")):
        yield _failed(context, message, key, error)
    elif first:
        yield context.keep(key, "message without parts", message, at)


def _summarised(context: OpenCodeContext, message: Fields, key: str, at: object, summary: str) -> Event:
    event, context.compacting = context.compacting, None
    if event is None:
        event = context.event("agent.thread_context_compacted", key, "summary", at)
    event["summary"] = summary
    return event


def _step_finish(context: OpenCodeContext, message: Fields, part: Fields, start: Event | None) -> Event:
    tokens = members(part.get("tokens"))
    cache = members(tokens.get("cache"))
    read, written = count(cache.get("read")), count(cache.get("write"))
    version = _version(context.info.get("version"))
    # What the counts include has changed: until 1.0.62 the input included the cache, except with
    # Anthropic; since 1.3.16 the output does not include the reasoning.
    given, made = count(tokens.get("input")), count(tokens.get("output"))
    if version < (1, 0, 62) and message.get("providerID") != "anthropic":
        given = max(0, given - read - written)
    if version >= (1, 3, 16):
        made += count(tokens.get("reasoning"))
    return context.event(
        "span.model_request_end",
        text(part.get("id")),
        "",
        members(message.get("time")).get("completed"),
        model_request_start_id=start["id"] if start else None,
        is_error=False,
        model=message.get("modelID"),
        model_usage=usage(given, made, read, written),
        source_usage=tokens,
        source_detail=without(part, "tokens"),
    )


def _part(context: OpenCodeContext, part: Fields, message_at: object) -> Iterator[Event]:
    kind, key = part.get("type"), text(part.get("id"))
    at = members(part.get("time")).get("start", message_at)
    if kind == "text":
        if not text(part.get("text")).strip():
            context.tally.skipped["blank text"] += 1
            return
        yield context.event(
            "agent.message",
            key,
            "",
            at,
            content=[text_block(text(part.get("text")))],
            source_detail=without(part, "text"),
        )
    elif kind == "reasoning":
        words = text(part.get("text"))
        yield context.event(
            "agent.thinking",
            key,
            "",
            at,
            content=[text_block(words)] if words.strip() else [],
            encrypted=None if words.strip() else True,
            source_detail=without(part, "text"),
        )
    elif kind == "tool":
        yield from tool_call(context, part, key, at)
    elif kind == "retry":
        error = members(part.get("error"))
        message = text(members(error.get("data")).get("message")) or "The request was tried again."
        shown = {
            "type": text(error.get("name")),
            "message": message,
            "retry_status": {"type": "retrying"},
        }
        yield context.event("session.error", key, "", at, error=shown, source_record=part)
    else:
        reason = text(kind) if kind in ("patch", "snapshot") else f"part {text(kind)}"
        yield context.keep(key, reason, part, at)


def _failed(context: OpenCodeContext, message: Fields, key: str, error: Fields) -> Event:
    at = members(message.get("time")).get("completed") or members(message.get("time")).get("created")
    name = text(error.get("name"))
    if name == "MessageAbortedError":
        return context.event("user.interrupt", key, "interrupt", at, source_detail=error)
    words = text(members(error.get("data")).get("message")) or text(error.get("message"))
    detail = {"error": error, "message": message}
    return context.event("session.error", key, "error", at, error=failure(words, name), source_detail=detail)


def _version(value: object) -> tuple[int, int, int]:
    found = _VERSION.match(text(value))
    return (int(found[1]), int(found[2]), int(found[3])) if found else (0, 0, 0)
