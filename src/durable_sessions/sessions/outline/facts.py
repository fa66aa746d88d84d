"""What an outline keeps of one event: its role, size, time, thread and what it is paired with.

Roles, failures and what is quiet are the same as in ``rendering``, which shows events to people; a test holds
the two together. This is the lean way: an outline looks at thousands of events for one page.
"""

import re
import zlib
from dataclasses import dataclass

import msgspec

from durable_sessions import lenient
from durable_sessions.lenient import count
from durable_sessions.rendering import events, lenses
from durable_sessions.sessions.event_times import EventTimes

ROLES = ("user", "agent", "thinking", "tool", "result", "system", "error", "status", "other")
USER, AGENT, THINKING, TOOL, RESULT, SYSTEM, ERROR, STATUS, OTHER = range(9)
FAILED, QUIET, HAS_RESULT, COMPACTION, IMAGE, REDACTED, INHERITED, HIDDEN = (1, 2, 4, 8, 16, 32, 64, 128)
"""The flags of an event. A call whose result failed is ``FAILED``, too."""
NAME_CHARACTERS_MAX = 80
THREAD_CHARACTERS_MAX = 200
_COST_MICROS_MAX = 2**53

_ROLE_BY_TYPE = {
    "user.message": USER,
    "user.interrupt": USER,
    "user.tool_confirmation": USER,
    "user.define_outcome": USER,
    "system.message": SYSTEM,
    "agent.message": AGENT,
    "agent.thread_message_sent": AGENT,
    "agent.thread_message_received": AGENT,
    "agent.thinking": THINKING,
    "agent.tool_use": TOOL,
    "agent.mcp_tool_use": TOOL,
    "agent.custom_tool_use": TOOL,
    "agent.tool_result": RESULT,
    "agent.mcp_tool_result": RESULT,
    "user.tool_result": RESULT,
    "user.custom_tool_result": RESULT,
    "session.error": ERROR,
    "workflow_run.error": ERROR,
    "agent.thread_context_compacted": STATUS,
}
_STATUS_FAMILIES = ("session.", "span.", "workflow_run.")
_REQUEST_END = "span.model_request_end"
_COMPACTED = "agent.thread_context_compacted"
_TELLING_REASONS = frozenset({"requires_action", "retries_exhausted", "budget_reached", "refusal"})
_TELLING_STATUSES = frozenset(
    {"session.status_terminated", "session.thread_created", "session.deleted", "workflow_run.created"}
)
# Zero-width characters, controls of direction, and the tags that can smuggle text past a reader's eyes.
_HIDDEN = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff\U000e0000-\U000e007f]")
_EMPTY = (b"", b"null", b'""', b"[]", b"{}", b"0", b"false")


class _Event(EventTimes):
    """The members that an outline looks at, not decoded yet: clients may send anything."""

    id: str = ""
    type: str = ""
    session_thread_id: msgspec.Raw = lenient.NULL
    name: msgspec.Raw = lenient.NULL
    mcp_server_name: msgspec.Raw = lenient.NULL
    input: msgspec.Raw = lenient.NULL
    content: msgspec.Raw = lenient.NULL
    thinking: msgspec.Raw = lenient.NULL
    text: msgspec.Raw = lenient.NULL
    message: msgspec.Raw = lenient.NULL
    summary: msgspec.Raw = lenient.NULL
    description: msgspec.Raw = lenient.NULL
    explanation: msgspec.Raw = lenient.NULL
    tool_use_id: msgspec.Raw = lenient.NULL
    mcp_tool_use_id: msgspec.Raw = lenient.NULL
    custom_tool_use_id: msgspec.Raw = lenient.NULL
    is_error: msgspec.Raw = lenient.NULL
    injected: msgspec.Raw = lenient.NULL
    kind: msgspec.Raw = lenient.NULL
    stop_reason: msgspec.Raw = lenient.NULL
    model_usage: msgspec.Raw = lenient.NULL
    cost_usd: msgspec.Raw = lenient.NULL
    redacted: msgspec.Raw = lenient.NULL
    dropped: msgspec.Raw = lenient.NULL


class _Usage(msgspec.Struct):
    input_tokens: msgspec.Raw = lenient.NULL
    output_tokens: msgspec.Raw = lenient.NULL
    cache_read_input_tokens: msgspec.Raw = lenient.NULL
    cache_creation_input_tokens: msgspec.Raw = lenient.NULL
    cost_usd: msgspec.Raw = lenient.NULL


class _Reason(msgspec.Struct):
    type: msgspec.Raw = lenient.NULL


class _Content(msgspec.Struct):
    text: msgspec.Raw = lenient.NULL
    thinking: msgspec.Raw = lenient.NULL


_EVENT = msgspec.json.Decoder(_Event)
_USAGE = msgspec.json.Decoder(_Usage)
_REASON = msgspec.json.Decoder(_Reason)
_CONTENT = msgspec.json.Decoder(list[_Content])
_ONE = msgspec.json.Decoder(_Content)
_CALL_IDS = {
    "agent.tool_result": "tool_use_id",
    "user.tool_result": "tool_use_id",
    "agent.mcp_tool_result": "mcp_tool_use_id",
    "user.custom_tool_result": "custom_tool_use_id",
}


class OutlinedRequest(msgspec.Struct, array_like=True, frozen=True):
    """A model request: which event of the block it is, and what it used."""

    index: int
    input: int
    cache_read: int
    cache_write: int
    output: int
    cost_micros: int | None

    @property
    def context(self) -> int:
        """All tokens that went in."""
        return self.input + self.cache_read + self.cache_write


@dataclass(slots=True)
class Facts:
    """What an outline keeps of one event; ``call`` is the id of the call that it is the result of."""

    id: str
    role: int
    flags: int
    at_ms: int | None
    key: int
    characters: int
    name: str = ""
    thread: str = ""
    call: str | None = None
    request: OutlinedRequest | None = None


def facts_of(stored: bytes, index: int) -> Facts:
    """Return the facts of a stored event, the so-many-th of its block; every event has some."""
    # The bytes are asked first: few events are of adapters, and reading one as what it means is slow.
    if b'"raw_format"' in stored:
        stored = _meant(stored)
    try:
        event = lenient.decode(_EVENT, stored)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return Facts("", OTHER, 0, None, zlib.crc32(stored), len(stored))
    kind = event.type
    role = _ROLE_BY_TYPE.get(kind)
    if role is None:
        role = STATUS if kind.startswith(_STATUS_FAMILIES) else OTHER
    flags = 0
    if bytes(event.redacted)[:1] == b"{" or bytes(event.dropped)[:1] == b"{":
        flags |= REDACTED
    # A guess from the bytes: a text that quotes such a block counts, too.
    if b"image" in stored and b'"image"' in bytes(event.content):
        flags |= IMAGE
    facts = Facts(event.id, role, flags, event.happened_ms, 0, 0)
    if event.session_thread_id is not lenient.NULL:
        facts.thread = (lenient.text(event.session_thread_id) or "")[:THREAD_CHARACTERS_MAX]
    if role == TOOL:
        _call(event, facts)
    elif role == RESULT:
        _result(event, facts)
    elif role in (STATUS, ERROR):
        _status(event, facts, index)
    else:
        _message(event, facts, stored)
    return facts


def _meant(stored: bytes) -> bytes:
    """Return an event of an adapter as what it means."""
    event = events.decode(stored)
    meant = lenses.as_meant(event)
    return stored if meant is event else events.encode(meant)


def _call(event: _Event, facts: Facts) -> None:
    name = (lenient.text(event.name) or "") or "tool"
    if event.mcp_server_name is not lenient.NULL and (server := lenient.text(event.mcp_server_name)):
        name = f"{server}: {name}"
    facts.name = name[:NAME_CHARACTERS_MAX]
    given = bytes(event.input)
    # Equal keys tell calls that were repeated with the same input; the input itself would take too much
    # memory.
    facts.key = zlib.crc32(given, zlib.crc32(bytes(event.name)))
    facts.characters = len(given)
    # Characters that a reader cannot see are never ASCII; in JSON they may also be written as \u escapes.
    if not given.isascii() or b"\\u" in given:
        _look_for_hidden(facts, given.decode(errors="replace"))


def _result(event: _Event, facts: Facts) -> None:
    facts.call = lenient.text(getattr(event, _CALL_IDS[event.type])) or None
    if bytes(event.is_error) == b"true":
        facts.flags |= FAILED
    _take_text(facts, _text(event.content))


def _message(event: _Event, facts: Facts, stored: bytes) -> None:
    kind = event.type
    content = event.content
    if facts.role == THINKING:
        content = next(
            (one for one in (event.content, event.thinking, event.text) if bytes(one) not in _EMPTY), content
        )
        if bytes(content) in _EMPTY:
            facts.flags |= QUIET
    elif facts.role == SYSTEM and bytes(event.injected) == b"true":
        facts.flags |= QUIET
    elif facts.role == OTHER:
        if kind == "import.record" or kind.startswith(lenses.BOOKKEEPING):
            facts.flags |= QUIET
        for one in (event.content, event.text, event.message, event.summary):
            if bytes(one) not in _EMPTY:
                content = one
                break
        else:
            facts.key, facts.characters = zlib.crc32(stored), len(stored)
            return
    elif kind == "user.define_outcome":
        content = event.description
    _take_text(facts, _text(content))


def _status(event: _Event, facts: Facts, index: int) -> None:
    kind = event.type
    if facts.role == ERROR:
        facts.flags |= FAILED
        _take_text(facts, _text(event.message))
    elif kind == _REQUEST_END:
        facts.flags |= FAILED if bytes(event.is_error) == b"true" else QUIET
        facts.request = _request(event, index)
    elif kind == _COMPACTED:
        facts.flags |= QUIET if bytes(event.kind) == b'"micro"' else COMPACTION
        content = event.summary if bytes(event.content) in _EMPTY else event.content
        _take_text(facts, _text(content))
    elif kind == "session.updated":
        facts.flags |= QUIET
    elif kind.startswith("span.") or kind == "session.usage":
        text = lenient.text(event.explanation) or ""
        _take_text(facts, text)
        if not text:
            facts.flags |= QUIET
    elif kind not in _TELLING_STATUSES and _reason(event) not in _TELLING_REASONS:
        facts.flags |= QUIET


def _reason(event: _Event) -> str | None:
    raw = bytes(event.stop_reason)
    if raw[:1] != b"{":
        return None
    return lenient.text(lenient.decode(_REASON, raw).type)


def _request(event: _Event, index: int) -> OutlinedRequest:
    raw = bytes(event.model_usage)
    used = lenient.decode(_USAGE, raw) if raw[:1] == b"{" else _Usage()
    cost = _micros(event.cost_usd)
    return OutlinedRequest(
        index,
        count(used.input_tokens),
        count(used.cache_read_input_tokens),
        count(used.cache_creation_input_tokens),
        count(used.output_tokens),
        _micros(used.cost_usd) if cost is None else cost,
    )


def _micros(raw: msgspec.Raw) -> int | None:
    """Return a number of dollars in millionths, None if it is none."""
    try:
        micros = float(bytes(raw)) * 1e6
    except ValueError:
        return None
    return round(micros) if 0 <= micros <= _COST_MICROS_MAX else None


def _text(raw: msgspec.Raw) -> str:
    """Return the text of a content member: a text, a block, or a list of blocks."""
    data = bytes(raw)
    try:
        if data[:1] == b'"':
            return lenient.text(raw) or ""
        if data[:1] == b"[":
            blocks: list[_Content] = lenient.decode(_CONTENT, data)
            return "\n".join(map(_block_text, blocks))
        if data[:1] == b"{":
            return _block_text(lenient.decode(_ONE, data))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        pass
    return "" if data == b"null" else data.decode(errors="replace")


def _block_text(block: _Content) -> str:
    return lenient.text(block.text) or lenient.text(block.thinking) or ""


def _take_text(facts: Facts, text: str) -> None:
    facts.key = zlib.crc32(text.encode(errors="replace"))
    facts.characters = len(text)
    _look_for_hidden(facts, text)


def _look_for_hidden(facts: Facts, text: str) -> None:
    if not text.isascii() and _HIDDEN.search(text):
        facts.flags |= HIDDEN
