"""OpenTelemetry's OTLP/JSON: a session as a trace, with a span for each model request and each tool call.

Spans follow the conventions for generative AI of the schema version that the file states. What was said,
called and returned is left out unless it is asked for: traces go to places where few expect it.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from durable_sessions.exporters.options import ExportOptions, Session
from durable_sessions.exporters.plain import plain_text
from durable_sessions.rendering.events import (
    CALLS,
    Event,
    call_of,
    decode,
    encode,
    encode_whole,
    happened_ms,
    text_member,
)
from durable_sessions.rendering.human_times import moment
from durable_sessions.rendering.lenses import as_meant
from durable_sessions.rendering.text import one_line, whole
from durable_sessions.rendering.usage import UsageTotals

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"
SCOPE = {"name": "durable-sessions", "version": "1"}
HELD_SPANS_MAX = 1_000
"""How many calls may wait for their results; older ones are written without."""
EVALUATIONS_MAX = 1_000
CONTENT_CHARACTERS_MAX = 1_000_000
"""What is kept of the messages of one model request, about."""
_INTERNAL, _CLIENT = 1, 3
_ERROR = 2
_PROVIDERS = {
    "claude": "anthropic",
    "gpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "codex": "openai",
    "gemini": "gcp.gemini",
    "mistral": "mistral_ai",
    "deepseek": "deepseek",
    "grok": "x_ai",
    "command": "cohere",
}
_UNKNOWN = "unknown"


@dataclass(slots=True)
class _OpenSpan:
    """A span that has begun."""

    id: str
    name: str
    start_ms: int
    attributes: dict[str, Any]


@dataclass(slots=True)
class _Messages:
    """What went into a model request, and what came out, as far as it is kept."""

    given: list[dict[str, Any]] = field(default_factory=list)
    made: list[dict[str, Any]] = field(default_factory=list)
    characters: int = 0

    def has_room(self, part: dict[str, Any]) -> bool:
        """Count a part of a message, and say whether it is kept."""
        self.characters += len(encode(part))
        return self.characters <= CONTENT_CHARACTERS_MAX


class _Trace:
    """Makes spans of events, each as soon as it has ended."""

    def __init__(self, session: Session, options: ExportOptions) -> None:
        self._session = one_line(str(session.get("id") or ""), 200)
        self._agent, self._model = _agent(session)
        self._content = options.content
        self._trace = _digest("trace", self._session, 16)
        self._root = _digest("session", self._session, 8)
        self._start_ms: int | None = moment(session.get("created_at"))
        self._last_ms = self._start_ms or 0
        self._request: _OpenSpan | None = None
        self._messages = _Messages()
        self._calls: OrderedDict[str, _OpenSpan] = OrderedDict()
        self._evaluations: list[dict[str, Any]] = []
        self._usage = UsageTotals()

    def take(self, event: Event) -> Iterator[dict[str, Any]]:
        """Yield the spans that end with an event."""
        at_ms = happened_ms(event)
        self._last_ms = self._last_ms if at_ms is None else at_ms
        if at_ms is not None and (self._start_ms is None or at_ms < self._start_ms):
            self._start_ms = at_ms  # imported: it happened before the session was made here
        kind = text_member(event, "type")
        if kind == "span.model_request_start":
            self._request = self._begun(event, "chat", {})
        elif kind == "span.model_request_end":
            yield self._answered(event)
        elif kind in CALLS:
            yield from self._called(event)
        elif (call := call_of(event)) is not None:
            self._keep_result(event, call)
            if (span := self._calls.pop(call, None)) is not None:
                yield self._returned(span, event)
        elif kind in ("user.message", "agent.message"):
            self._keep_message(event, kind)
        elif kind == "ds.evaluation" and len(self._evaluations) < EVALUATIONS_MAX:
            self._evaluations.append(self._evaluated(event))

    def rest(self) -> Iterator[dict[str, Any]]:
        """Yield the spans that are still open, and that of the whole session."""
        if self._request is not None:
            yield self._ended(self._request, _CLIENT)
        for span in self._calls.values():
            yield self._ended(span, _INTERNAL)
        start_ms = self._last_ms if self._start_ms is None else self._start_ms
        attributes = self._common("invoke_agent") | {"gen_ai.agent.name": self._agent}
        if self._usage.requests:
            attributes |= _usage(self._usage)
        span = _OpenSpan(self._root, f"invoke_agent {self._agent}", start_ms, attributes)
        # Last, since its end and its sums are known only now; readers of traces put spans together by their
        # ids.
        whole_session = self._ended(span, _INTERNAL)
        del whole_session["parentSpanId"]
        whole_session["events"] = self._evaluations
        yield whole_session

    # Model requests ---------------------------------------------------------------------

    def _answered(self, event: Event) -> dict[str, Any]:
        self._usage.add(event)
        used = UsageTotals()
        used.add(event)
        span = self._request or self._begun(event, "chat", {})
        self._request = None
        model = one_line(text_member(event, "model"), 200) or self._model
        span.name = f"chat {model}"
        span.attributes |= {"gen_ai.provider.name": _provider(model), "gen_ai.request.model": model}
        span.attributes |= {"gen_ai.response.model": model} | _usage(used)
        if self._content:
            messages, self._messages = self._messages, _Messages()
            if messages.given:
                span.attributes["gen_ai.input.messages"] = _json(messages.given)
            if messages.made:
                said = {"role": "assistant", "parts": messages.made, "finish_reason": "stop"}
                span.attributes["gen_ai.output.messages"] = _json([said])
        return self._ended(span, _CLIENT, failed=event.get("is_error") is True)

    def _keep_message(self, event: Event, kind: str) -> None:
        part = {"type": "text", "content": plain_text(event.get("content"))} if self._content else {}
        if self._content and self._messages.has_room(part):
            if kind == "user.message":
                self._messages.given.append({"role": "user", "parts": [part]})
            else:
                self._messages.made.append(part)

    def _keep_result(self, event: Event, call: str) -> None:
        if self._content:
            text = plain_text(event.get("content"))
            part = {"type": "tool_call_response", "id": call, "response": text}
            if self._messages.has_room(part):
                self._messages.given.append({"role": "tool", "parts": [part]})

    # Tool calls -------------------------------------------------------------------------

    def _called(self, event: Event) -> Iterator[dict[str, Any]]:
        name, call = one_line(text_member(event, "name"), 200) or _UNKNOWN, text_member(event, "id")
        attributes: dict[str, Any] = {
            "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": call,
            "gen_ai.tool.type": "function",
        }
        if self._content:
            attributes["gen_ai.tool.call.arguments"] = _json(event.get("input"))
            part = {"type": "tool_call", "id": call, "name": name, "arguments": event.get("input")}
            if self._messages.has_room(part):
                self._messages.made.append(part)
        self._calls[call] = self._begun(event, "execute_tool", attributes, name)
        while len(self._calls) > HELD_SPANS_MAX:
            yield self._ended(self._calls.popitem(last=False)[1], _INTERNAL)

    def _returned(self, span: _OpenSpan, event: Event) -> dict[str, Any]:
        if self._content:
            span.attributes["gen_ai.tool.call.result"] = plain_text(event.get("content"))
        return self._ended(span, _INTERNAL, failed=event.get("is_error") is True)

    # Shared -----------------------------------------------------------------------------

    def _evaluated(self, event: Event) -> dict[str, Any]:
        said: dict[str, Any] = {
            "gen_ai.evaluation.name": one_line(text_member(event, "feature"), 200) or "session",
            "gen_ai.evaluation.score.label": one_line(text_member(event, "verdict"), 200),
        }
        score = event.get("score")
        if isinstance(score, int | float) and not isinstance(score, bool):
            said["gen_ai.evaluation.score.value"] = float(score)
        if self._content and (note := text_member(event, "note")):
            said["gen_ai.evaluation.explanation"] = whole(note)
        return {
            "timeUnixNano": _nanoseconds(self._last_ms),
            "name": "gen_ai.evaluation.result",
            "attributes": _attributes(said),
        }

    def _common(self, operation: str) -> dict[str, Any]:
        return {"gen_ai.operation.name": operation, "gen_ai.conversation.id": self._session}

    def _begun(self, event: Event, operation: str, attributes: dict[str, Any], what: str = "") -> _OpenSpan:
        said = self._common(operation) | attributes
        if thread := one_line(text_member(event, "session_thread_id"), 200):
            said["durable_sessions.thread.id"] = thread
        event_id = text_member(event, "id")
        return _OpenSpan(
            _digest("event", event_id, 8), f"{operation} {what or self._model}", self._last_ms, said
        )

    def _ended(self, span: _OpenSpan, kind: int, *, failed: bool = False) -> dict[str, Any]:
        if failed:
            span.attributes["error.type"] = "_OTHER"
        made: dict[str, Any] = {
            "traceId": self._trace,
            "spanId": span.id,
            "parentSpanId": self._root,
            "name": span.name,
            "kind": kind,
            "startTimeUnixNano": _nanoseconds(span.start_ms),
            # Clocks of machines that wrote one session differ; a span must not end before it begins.
            "endTimeUnixNano": _nanoseconds(max(span.start_ms, self._last_ms)),
            "attributes": _attributes(span.attributes),
        }
        if failed:
            made["status"] = {"code": _ERROR}
        return made


def export(session: Session, lines: Iterable[bytes], options: ExportOptions) -> Iterator[bytes]:
    """Return one trace."""
    trace = _Trace(session, options)
    resource = {"attributes": _attributes({"service.name": "durable-sessions"})}
    yield b'{"resourceSpans":[{"resource":%b,"scopeSpans":[{"scope":%b,"spans":[' % (
        encode(resource),
        encode(SCOPE),
    )
    separator = b"\n"
    for line in lines:
        for span in trace.take(as_meant(decode(line))):
            yield separator + encode_whole(span)
            separator = b",\n"
        # Nothing to write, but a sign of life: whoever shows progress counts events, not spans.
        yield b""
    for span in trace.rest():
        yield separator + encode_whole(span)
        separator = b",\n"
    url = encode(SCHEMA_URL)
    yield b'\n],"schemaUrl":%b}],"schemaUrl":%b}]}\n' % (url, url)


def _agent(session: Session) -> tuple[str, str]:
    agent = session.get("agent")
    agent = agent if isinstance(agent, dict) else {}
    model = agent.get("model")
    model = model.get("id") if isinstance(model, dict) else model
    name = one_line(str(agent.get("name") or _UNKNOWN), 200)
    return name, one_line(model, 200) if isinstance(model, str) and model else _UNKNOWN


def _provider(model: str) -> str:
    name = model.lower().rpartition("/")[2]
    return next((provider for start, provider in _PROVIDERS.items() if name.startswith(start)), _UNKNOWN)


def _usage(usage: UsageTotals) -> dict[str, Any]:
    said: dict[str, Any] = {
        # All that went in: the conventions count what came from a cache among it.
        "gen_ai.usage.input_tokens": usage.prompt_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
    }
    if usage.cache_read_tokens:
        said["gen_ai.usage.cache_read.input_tokens"] = usage.cache_read_tokens
    if usage.cache_write_tokens:
        said["gen_ai.usage.cache_creation.input_tokens"] = usage.cache_write_tokens
    if usage.cost_usd is not None:
        said["durable_sessions.cost_usd"] = round(usage.cost_usd, 9)
    return said


def _attributes(said: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in said.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, int):
        return {"intValue": str(value)}  # 64 bits are texts in this JSON
    return {"doubleValue": value} if isinstance(value, float) else {"stringValue": whole(value)}


def _json(value: object) -> str:
    return encode_whole(value).decode()


def _nanoseconds(at_ms: int) -> str:
    return str(max(at_ms, 0) * 1_000_000)


def _digest(kind: str, name: str, size: int) -> str:
    """Return an id of this many bytes that is always the same for the same name; it is never zero."""
    made = hashlib.sha256(f"{kind}:{name}".encode(errors="replace")).hexdigest()[: 2 * size]
    return made if made.strip("0") else "1" * (2 * size)
