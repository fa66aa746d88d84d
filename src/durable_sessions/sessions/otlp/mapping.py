"""What spans and log records of agents mean, as events of sessions."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from durable_sessions.sessions.otlp import messages, naming, usage
from durable_sessions.sessions.otlp.messages import Event, History
from durable_sessions.sessions.otlp.telemetry import Export, LogRecord, Span
from durable_sessions.times import rfc3339

RAW_SPAN, RAW_LOG = "otlp.span/1", "otlp.log/1"
_AGENT = ("invoke_agent", "invoke_workflow", "create_agent")
_CHAT = ("chat", "generate_content", "text_completion")
_TOOL_OUTPUT = "tool.output"
_KINDS = {"LLM": "chat", "TOOL": "execute_tool", "AGENT": "invoke_agent", "CHAIN": "invoke_workflow"}
"""Kinds of spans of OpenInference, as operations."""
_CLAUDE = {
    "claude_code.interaction": "invoke_agent",
    "claude_code.llm_request": "chat",
    "claude_code.tool": "execute_tool",
}
_LOG_PREFIXES = ("claude_code.", "codex.")


@dataclass(slots=True)
class SessionPart:
    """What a request has for one session: the metadata of a new one, and its events by time."""

    metadata: dict[str, str]
    items: int = 0
    """How many spans and records it is made of."""
    timed: list[tuple[int, Event]] = field(default_factory=list)

    def events(self) -> list[Event]:
        """Return the events in the order in which they happened, each id once."""
        ordered = sorted(self.timed, key=lambda one: one[0])
        once: dict[str, Event] = {}
        for at_ms, event in ordered:
            once.setdefault(event["id"], {**event, "original_created_at": rfc3339(at_ms)})
        return list(once.values())


def parts(export: Export, chosen: str | None, *, unknown: bool) -> dict[str, SessionPart]:
    """Return what an export brings, by session; ``chosen`` is one that takes all of it.

    ``unknown`` says whether spans and records that mean nothing here are kept, as they came.
    """
    spans = {(span.trace, span.id): span for span in export.spans}
    found: dict[str, SessionPart] = {}
    items: list[Span | LogRecord] = [*export.spans, *export.logs]
    for item in items:
        conversation = naming.conversation_of(item, spans)
        session = chosen or naming.session_id(naming.service_of(item.resource), conversation)
        if session not in found:
            found[session] = SessionPart(naming.metadata_of(item))
        made = _of_span(item, session) if isinstance(item, Span) else _of_log(item, session)
        known = list(made)
        if not known and unknown:
            known = [_unknown(item, session)]
        found[session].timed += known
        found[session].items += 1
    return found


# Spans ----------------------------------------------------------------------------------


def _of_span(span: Span, session: str) -> Iterator[tuple[int, Event]]:
    said = span.attributes
    operation = said.get("gen_ai.operation.name") or _CLAUDE.get(span.name)
    operation = operation or _KINDS.get(str(said.get("openinference.span.kind")))
    if operation in _AGENT:
        yield from _agent_run(span, session)
    elif operation in _CHAT:
        yield from _chat(span, session)
    elif operation == "execute_tool":
        yield from _tool(span, session)
    for event in span.events:
        if event.name == "gen_ai.evaluation.result":
            yield event.at_ms, _evaluated(session, span, event.at_ms, event.attributes)


def _agent_run(span: Span, session: str) -> Iterator[tuple[int, Event]]:
    said = span.attributes
    if isinstance(prompt := said.get("user_prompt"), str) and prompt:
        yield span.start_ms, _prompt(session, _run(span), prompt)
    event: Event = {
        "id": naming.event_id(session, span.trace, span.id, "run"),
        "type": "otel.agent_run",
        "name": said.get("gen_ai.agent.name") or span.name,
        "duration_ms": span.end_ms - span.start_ms,
        "is_error": span.failure is not None,
    }
    if usage.has_usage(said):
        event["usage"] = usage.model_request(session, "", 0, said, failed=False)["model_usage"]
    yield span.end_ms, event
    yield from _failure(span, session)


def _chat(span: Span, session: str) -> Iterator[tuple[int, Event]]:
    said, history = span.attributes, History(session)
    given = said.get("gen_ai.input.messages") or messages.openinference(said, "llm.input_messages")
    made = said.get("gen_ai.output.messages") or messages.openinference(said, "llm.output_messages")
    for event in history.events(given):
        yield span.start_ms, event
    for event in history.events(made):
        yield span.end_ms, event
    failed = span.failure is not None
    yield span.end_ms, usage.model_request(session, _run(span), span.start_ms, said, failed=failed)
    yield from _failure(span, session)


def _tool(span: Span, session: str) -> Iterator[tuple[int, Event]]:
    said = span.attributes
    call = said.get("gen_ai.tool.call.id") or said.get("tool_use_id") or span.id
    name = said.get("gen_ai.tool.name") or said.get("tool_name") or said.get("tool.name") or span.name
    given = said.get("gen_ai.tool.call.arguments", said.get("tool_input", said.get("input.value")))
    yield span.start_ms, messages.tool_use(session, call, name, given)
    result = said.get("gen_ai.tool.call.result", said.get("output.value"))
    for event in span.events:
        if event.name == _TOOL_OUTPUT:
            result = event.attributes.get("output", event.attributes.get("content", result))
    if result is None and span.failure:
        result = span.failure
    yield span.end_ms, messages.tool_result(session, call, result, failed=span.failure is not None)


def _failure(span: Span, session: str) -> Iterator[tuple[int, Event]]:
    if span.failure is None:
        return
    said = next((one.attributes for one in span.events if one.name == "exception"), {})
    message = said.get("exception.message") or span.failure or span.attributes.get("error.type")
    yield span.end_ms, _error(session, (span.trace, span.id, "error"), str(message or "It failed."))


def _evaluated(session: str, span: Span, at_ms: int, said: Mapping[str, Any]) -> Event:
    """Return a judgement as its sender tells it; nobody here vouches for it."""
    name = said.get("gen_ai.evaluation.name")
    return {
        "id": naming.event_id(session, span.trace, span.id, "evaluation", at_ms, name),
        "type": "otel.evaluation",
        "name": name,
        "label": said.get("gen_ai.evaluation.score.label"),
        "score": said.get("gen_ai.evaluation.score.value"),
        "explanation": said.get("gen_ai.evaluation.explanation"),
    }


# Log records ----------------------------------------------------------------------------


def _of_log(record: LogRecord, session: str) -> Iterator[tuple[int, Event]]:
    name = record.name
    for prefix in _LOG_PREFIXES:
        name = name.removeprefix(prefix)
    make = _LOGS.get(name)
    if make is not None:
        for event in make(record, session):
            yield record.at_ms, event


def _log_prompt(record: LogRecord, session: str) -> Iterator[Event]:
    if isinstance(prompt := record.attributes.get("prompt"), str) and prompt:
        yield _prompt(session, _run(record), prompt)


def _log_result(record: LogRecord, session: str) -> Iterator[Event]:
    said = record.attributes
    call = said.get("tool_use_id") or said.get("call_id") or _place(record)
    given = said.get("tool_input", said.get("tool_parameters", said.get("arguments")))
    yield messages.tool_use(session, call, said.get("tool_name"), given)
    failed = said.get("success") in (False, "false")
    result = said.get("output", said.get("tool_result", said.get("error") if failed else None))
    yield messages.tool_result(session, call, result, failed=failed)


def _log_request(record: LogRecord, session: str) -> Iterator[Event]:
    said = record.attributes
    if usage.has_usage(said):
        try:
            start_ms = record.at_ms - int(said.get("duration_ms") or 0)
        except (TypeError, ValueError):
            start_ms = record.at_ms
        yield usage.model_request(session, _run(record), start_ms, said, failed=False)


def _log_error(record: LogRecord, session: str) -> Iterator[Event]:
    message = record.attributes.get("error") or record.body or "A model request failed."
    yield _error(session, ("error", *_place(record)), str(message))


def _log_decision(record: LogRecord, session: str) -> Iterator[Event]:
    said = record.attributes
    call = said.get("tool_use_id") or said.get("call_id")
    if call is not None:
        yield {
            "id": naming.event_id(session, "decision", call),
            "type": "user.tool_confirmation",
            "tool_use_id": messages.call_id(session, call),
            "result": "allow" if said.get("decision") in ("accept", "approved", "allow") else "deny",
        }


_LOGS: dict[str, Callable[[LogRecord, str], Iterator[Event]]] = {
    "user_prompt": _log_prompt,
    "tool_result": _log_result,
    "api_request": _log_request,
    "sse_event": _log_request,
    "api_error": _log_error,
    "tool_decision": _log_decision,
}


# Both -----------------------------------------------------------------------------------


def _run(item: Span | LogRecord) -> str:
    """Return what a prompt and its model requests have in common, told by a span or by a log."""
    return item.trace or str(item.attributes.get("prompt.id") or "")


def _place(record: LogRecord) -> tuple[object, ...]:
    """Return what tells a record from all others; sequences begin again with each process."""
    said = record.attributes
    return record.name, said.get("event.timestamp") or record.at_ms, said.get("event.sequence"), record.span


def _prompt(session: str, run: str, text: str) -> Event:
    content = [{"type": "text", "text": text}]
    return {"id": naming.event_id(session, "prompt", run, text), "type": "user.message", "content": content}


def _error(session: str, named: tuple[object, ...], message: str) -> Event:
    error = {"type": "unknown_error", "message": message, "retry_status": {"type": "terminal"}}
    return {"id": naming.event_id(session, *named), "type": "session.error", "error": error}


def _unknown(item: Span | LogRecord, session: str) -> tuple[int, Event]:
    if isinstance(item, Span):
        raw: Event = {"name": item.name, "trace": item.trace, "span": item.id, "parent": item.parent}
        raw |= {"duration_ms": item.end_ms - item.start_ms, "attributes": dict(item.attributes)}
        named, kind, form = (item.trace, item.id, "span"), "otel.span", RAW_SPAN
        return item.start_ms, _raw(session, named, kind, form, raw)
    raw = {"name": item.name, "trace": item.trace, "span": item.span, "body": item.body}
    raw |= {"attributes": dict(item.attributes)}
    return item.at_ms, _raw(session, ("log", *_place(item), str(item.body)), "otel.log", RAW_LOG, raw)


def _raw(session: str, named: tuple[object, ...], kind: str, form: str, raw: Event) -> Event:
    event_id = naming.event_id(session, *named)
    return {"id": event_id, "type": kind, "searchable": False, "raw_format": form, "raw": raw}
