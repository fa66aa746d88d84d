"""An event as a person reads it: who, what, in one line and in full."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from durable_sessions.rendering import lenses, markup, result_markup, tools, work_events
from durable_sessions.rendering.content import Part, Preformatted, Prose, parts_of, text_of
from durable_sessions.rendering.events import (
    CALLS,
    Event,
    call_of,
    happened_ms,
    number,
    position,
    text_member,
)
from durable_sessions.rendering.text import one_line, pretty
from durable_sessions.rendering.usage import cost_of
from durable_sessions.server_members import SERVER_MEMBERS


class EntryRole(StrEnum):
    """Whose event it is, for the eye."""

    USER = "user"
    AGENT = "agent"
    THINKING = "thinking"
    TOOL = "tool"
    RESULT = "result"
    SYSTEM = "system"
    ERROR = "error"
    STATUS = "status"
    OTHER = "other"


@dataclass(slots=True)
class TranscriptEntry:
    """An event to be shown; all its texts are clean."""

    role: EntryRole
    title: str
    line: str = ""
    parts: tuple[Part, ...] = ()
    failed: bool = False
    quiet: bool = False
    """Bookkeeping: of use to programs, in the way of a reader."""
    id: str = ""
    type: str = ""
    position: int | None = None
    at_ms: int | None = None
    thread: str = ""
    nested: bool = False
    """Whether it is in another thread than the primary one."""
    call: str | None = None
    """The id of the call that this is the result of."""
    call_id: str = ""
    """The id that the result of this call names: the event's own, or that of a framework."""
    after_ms: int | None = None
    """How long after its call a result came."""
    result: "TranscriptEntry | None" = field(default=None, repr=False)
    """The result of this call."""

    @property
    def text(self) -> str:
        """All its readable text."""
        return text_of(self.parts)

    @property
    def took_ms(self) -> int | None:
        """How long a call took until its result."""
        return None if self.result is None else self.result.after_ms


def entry_of(event: Event) -> TranscriptEntry:
    """Return an event as it is shown; every event can be. One of an adapter is shown as what it means."""
    # What a framework's adapter stored is shown as the message or call that it means, but under the type it
    # has in the log, by which readers search for it.
    stored, event = event, lenses.seen(event) or event
    kind = text_member(event, "type")
    make = _MAKERS.get(kind)
    if make is None:
        make = next((one for prefix, one in _FAMILIES if kind.startswith(prefix)), _other)
    entry = make(event)
    # After the entry was made: role and title still say what the event was, only its words are gone.
    if (erased := _erased(event)) is not None:
        entry.parts, entry.line = (Prose(erased),), ""
    entry.id = one_line(text_member(event, "id"), 200)
    entry.type = one_line(text_member(stored, "type"), 128)
    entry.call_id = one_line(text_member(event, "call_id"), 200) or entry.id
    entry.position = position(event)
    entry.at_ms = happened_ms(event)
    entry.thread = one_line(text_member(event, "session_thread_id"), 80)
    if not entry.line:
        entry.line = one_line(entry.text)
    return entry


def _erased(event: Event) -> str | None:
    """Return what is said in place of an event's body that was erased; None if it was not."""
    redacted, dropped = event.get("redacted"), event.get("dropped")
    # All members are asked for: a program may use a member of this name for something of its own.
    if isinstance(redacted, dict) and {"at", "reason", "sha256", "bytes"} <= redacted.keys():
        return f"(redacted: {one_line(str(redacted['reason']))})"
    if isinstance(dropped, dict) and {"by", "sha256", "bytes"} <= dropped.keys():
        return "(dropped with its slot)"
    return None


def _message(role: EntryRole, title: str) -> Callable[[Event], TranscriptEntry]:
    def make(event: Event) -> TranscriptEntry:
        return TranscriptEntry(role, title, parts=tuple(_said(event.get("content"))))

    return make


def _user(event: Event) -> TranscriptEntry:
    """Return what the user said; a command that was typed is called one."""
    plain = tuple(parts_of(event.get("content"), prose=True))
    typed = markup.command(plain[0].text) if len(plain) == 1 and isinstance(plain[0], Prose) else None
    parts = tuple(_said(event.get("content")))
    if typed is None:
        return TranscriptEntry(EntryRole.USER, "User", parts=parts)
    return TranscriptEntry(EntryRole.USER, typed.title, one_line(typed.line), parts)


def _said(content: object) -> Iterator[Part]:
    """Yield what somebody said, with the markup of tools read as what it is."""
    for part in parts_of(content, prose=True):
        if isinstance(part, Prose):
            yield from markup.parts(part)
        else:
            yield part


def _returned(content: object) -> Iterator[Part]:
    """Yield what a tool returned, likewise."""
    for part in parts_of(content, prose=False):
        # A part that says what it is needs no guess; only plain output may contain the markup of a tool.
        if isinstance(part, Preformatted) and not part.label and not part.language:
            yield from result_markup.parts(part.text)
        else:
            yield part


def _system(event: Event) -> TranscriptEntry:
    return TranscriptEntry(
        EntryRole.SYSTEM,
        "System",
        parts=tuple(_said(event.get("content"))),
        quiet=event.get("injected") is True,
    )


def _thinking(event: Event) -> TranscriptEntry:
    content = event.get("content") or event.get("thinking") or event.get("text")
    return TranscriptEntry(
        EntryRole.THINKING, "Thinking", parts=tuple(parts_of(content, prose=True)), quiet=not content
    )


def _call(event: Event) -> TranscriptEntry:
    server = text_member(event, "mcp_server_name")
    name = text_member(event, "name") or "tool"
    tool_input = event.get("input")
    return TranscriptEntry(
        EntryRole.TOOL,
        one_line(f"{server}: {name}" if server else name, 80),
        tools.headline(tool_input),
        tuple(tools.input_parts(tool_input)),
    )


def _result(event: Event) -> TranscriptEntry:
    parts = tuple(_returned(event.get("content")))
    return TranscriptEntry(
        EntryRole.RESULT,
        "Result",
        one_line(text_of(parts)),
        parts,
        failed=event.get("is_error") is True,
        call=call_of(event),
    )


def _confirmation(event: Event) -> TranscriptEntry:
    verdict = "denied" if event.get("result") == "deny" else "allowed"
    said = one_line(text_member(event, "deny_message"), 500)
    return TranscriptEntry(EntryRole.USER, "User", f"{verdict} a tool call" + (f": {said}" if said else ""))


def _outcome(event: Event) -> TranscriptEntry:
    described = text_member(event, "description")
    return TranscriptEntry(
        EntryRole.USER, "Outcome wanted", one_line(described), tuple(parts_of(described, prose=True))
    )


def _thread_message(event: Event) -> TranscriptEntry:
    sent = event.get("type") == "agent.thread_message_sent"
    who = text_member(event, "to_agent_name" if sent else "from_agent_name") or text_member(
        event, "to_session_thread_id" if sent else "from_session_thread_id"
    )
    title = one_line(f"Agent {'to' if sent else 'from'} {who or 'a thread'}", 80)
    return TranscriptEntry(EntryRole.AGENT, title, parts=tuple(_said(event.get("content"))))


def _error(event: Event) -> TranscriptEntry:
    error = event.get("error")
    error = error if isinstance(error, dict) else {"message": error} if isinstance(error, str) else {}
    kind = one_line(text_member(error, "type"), 80)
    message = text_member(error, "message") or text_member(event, "message")
    retry = error.get("retry_status")
    retrying = isinstance(retry, dict) and retry.get("type") == "retrying"
    line = ": ".join(filter(None, (kind, one_line(message, 300)))) or "an error"
    parts = tuple(parts_of(message, prose=False)) if len(message) > 300 or "\n" in message else ()
    attempt = event.get("retry_attempt")
    again = f" (retrying, attempt {attempt})" if isinstance(attempt, int) else " (retrying)"
    return TranscriptEntry(EntryRole.ERROR, "Error", line + (again if retrying else ""), parts, failed=True)


def _status(event: Event) -> TranscriptEntry:
    kind = text_member(event, "type")
    reason = event.get("stop_reason")
    why = text_member(reason, "type") if isinstance(reason, dict) else ""
    who = text_member(event, "agent_name")
    family, _, what = kind.partition(".")
    line = what.removeprefix("status_").replace("_", " ")
    extra = ", ".join(one_line(text, 80) for text in (who, why.replace("_", " ")) if text)
    return TranscriptEntry(
        EntryRole.STATUS,
        family.replace("_", " ").capitalize(),
        one_line(f"{line} ({extra})" if extra else line),
        quiet=why not in _TELLING_REASONS and kind not in _TELLING_STATUSES,
    )


def _updated(event: Event) -> TranscriptEntry:
    title = text_member(event, "title")
    return TranscriptEntry(
        EntryRole.STATUS, "Session", one_line(f"now called {title}" if title else "updated"), quiet=True
    )


def _compacted(event: Event) -> TranscriptEntry:
    content = event.get("content") or event.get("summary")
    if event.get("kind") == "micro":
        cleared = event.get("cleared")
        count = f" ({len(cleared)} tool results)" if isinstance(cleared, list) and cleared else ""
        return TranscriptEntry(EntryRole.STATUS, "Context", f"old tool results cleared{count}", quiet=True)
    return TranscriptEntry(EntryRole.STATUS, "Context", "compacted", tuple(_said(content)))


def _request_end(event: Event) -> TranscriptEntry:
    tokens = event.get("model_usage")
    tokens = tokens if isinstance(tokens, dict) else {}
    read, written = (number(tokens.get(f"cache_{name}_input_tokens")) for name in ("read", "creation"))
    said = [
        text_member(event, "model"),
        # Input tokens exclude the cache, so that the three together are what the model has read.
        f"{number(tokens.get('input_tokens')) + read + written:,} tokens in",
        f"{read:,} cached" if read else "",
        f"{number(tokens.get('output_tokens')):,} out",
    ]
    cost = cost_of(event)
    if cost is not None:
        said.append(f"${cost:.4f}")
    failed = event.get("is_error") is True
    return TranscriptEntry(
        EntryRole.STATUS, "Model", one_line(", ".join(filter(None, said))), failed=failed, quiet=not failed
    )


def _span(event: Event) -> TranscriptEntry:
    kind = text_member(event, "type").removeprefix("span.").removeprefix("session.").replace("_", " ")
    explained = text_member(event, "explanation")
    verdict = text_member(event, "result")
    line = one_line(": ".join(filter(None, (kind, verdict))))
    parts = tuple(parts_of(explained, prose=True))
    return TranscriptEntry(EntryRole.STATUS, "Span", line, parts, quiet=not parts)


def _interrupt(event: Event) -> TranscriptEntry:
    return TranscriptEntry(EntryRole.USER, "User", "interrupted the agent")


def _other(event: Event) -> TranscriptEntry:
    """Show an event of a type of somebody's own: its text if it has one, and then what else it says."""
    return TranscriptEntry(
        EntryRole.OTHER, one_line(text_member(event, "type"), 80) or "event", parts=tuple(_own(event))
    )


_NOT_SHOWN = SERVER_MEMBERS | {"type"}


def _own(event: Event) -> Iterator[Part]:
    rest = {name: value for name, value in event.items() if name not in _NOT_SHOWN}
    for name in ("content", "text", "message", "summary"):
        if isinstance(rest.get(name), str | list) and rest[name]:
            yield from parts_of(rest.pop(name), prose=True)
            break
    if rest:
        # Few short members read best as a list of fields; nesting is kept only by JSON.
        if all(isinstance(value, str | int | float | None) for value in rest.values()) and len(rest) <= 8:
            yield from tools.input_parts(rest)
        else:
            yield Preformatted(pretty(rest), language="json")


def _work(event: Event) -> TranscriptEntry:
    told = work_events.described(event)
    if told is None:
        return _other(event)
    return TranscriptEntry(EntryRole.STATUS, told.title, told.line, told.parts, failed=told.failed)


_TELLING_REASONS = frozenset({"requires_action", "retries_exhausted", "budget_reached", "refusal"})
_TELLING_STATUSES = frozenset(
    {"session.status_terminated", "session.thread_created", "session.deleted", "workflow_run.created"}
)


def _bookkeeping(event: Event) -> TranscriptEntry:
    entry = _other(event)
    entry.quiet = True
    return entry


_MAKERS: dict[str, Callable[[Event], TranscriptEntry]] = {
    "user.message": _user,
    "user.interrupt": _interrupt,
    "user.tool_confirmation": _confirmation,
    "user.custom_tool_result": _result,
    "user.tool_result": _result,
    "user.define_outcome": _outcome,
    "system.message": _system,
    "agent.message": _message(EntryRole.AGENT, "Agent"),
    "agent.thinking": _thinking,
    **dict.fromkeys(CALLS, _call),
    "agent.tool_result": _result,
    "agent.mcp_tool_result": _result,
    "agent.thread_context_compacted": _compacted,
    "agent.thread_message_sent": _thread_message,
    "agent.thread_message_received": _thread_message,
    "session.error": _error,
    "workflow_run.error": _error,
    "session.updated": _updated,
    "session.usage": _span,
    "span.model_request_end": _request_end,
    "import.record": _bookkeeping,
    **dict.fromkeys(work_events.TYPES, _work),
}
KNOWN_TYPES = tuple(_MAKERS)
"""The types of events that are shown as what they mean; any other type is shown by its members."""
_FAMILIES: tuple[tuple[str, Callable[[Event], TranscriptEntry]], ...] = (
    ("session.", _status),
    ("span.", _span),
    ("workflow_run.", _status),
    *((kind, _bookkeeping) for kind in lenses.BOOKKEEPING),
)
