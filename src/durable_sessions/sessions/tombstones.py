"""What is left of an event that was erased: who, when and which type, and what others count by.

A tombstone is an event with the member ``redacted`` behind its type. It keeps what pairs, folds and a rebuilt
catalog need, where that fits the meaning that the server gives it; everything else is gone.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from durable_sessions import lenient
from durable_sessions.rendering import lenses
from durable_sessions.sessions import slots
from durable_sessions.sessions.graph import strict
from durable_sessions.sessions.slots import SlotWish

_FRONT = ("id", "request_key", "offset", "created_at", "processed_at", "actor", "type")
_ERASED = re.compile(
    rb'\{"id":"[^"\\]+",(?:"request_key":"[^"]*",)?"offset":"[0-9_]+","created_at":"[^"]+",'
    rb'"processed_at":"[^"]+","actor":"(?:[^"\\]|\\.)*","type":"(?:[^"\\]|\\.)*","(?:redacted":\{"event"|dropped":\{"by"):'
)
_OF_RESULTS = ("tool_use_id", "mcp_tool_use_id", "custom_tool_use_id")
_RESULTS = frozenset(
    ("agent.tool_result", "agent.mcp_tool_result", "user.tool_result", "user.custom_tool_result")
)
_CONFIRMATION = "user.tool_confirmation"
_CALLS = frozenset(("agent.tool_use", "agent.mcp_tool_use", "agent.custom_tool_use"))
_OUTCOMES = {
    "user.define_outcome": frozenset[str](),
    "span.outcome_evaluation_end": frozenset(
        ("satisfied", "needs_revision", "max_iterations_reached", "failed", "interrupted")
    ),
}
"""What asks for an outcome or evaluates one, with the results that it can have."""
_EFFECTS = frozenset(("none", "read_only", "idempotent", "non_idempotent"))
_PERMISSIONS = frozenset(("allow", "ask", "deny"))
_REFERS = "because about evaluates answers uses reads undoes supersedes result_of adopts"
_RELATIONS = frozenset(_REFERS.split())
_REFS_MAX = 64
_ID_MAX = 512
_STRUCTURE = """
    outcome epoch worker seconds exclusive to needs see key kind features id check verdict feature score
    metrics exit_code files sandbox model units git from checkpoint options blocking request decision tokens
    usd tool_calls consecutive_errors repeated_calls limit max value backend status image_digest retry_of
    scope why confidence at returned influence workflow write session sha256 name role bytes media_type
    position facts verdicts artifacts ref_incarnations
"""
_DS_STRUCTURE = frozenset(_STRUCTURE.split())
"""The members of strict types that stay when an event is erased, unless they hold a text in their type."""
_NOT_ERASED = ("ds.redacted", "ds.lease.")


class Mark(msgspec.Struct, frozen=True):
    """The member ``redacted``: by which event, when, why, and what was there."""

    event: str | None
    at: str
    reason: str
    sha256: str | None
    bytes: int


class DropMark(msgspec.Struct, frozen=True):
    """The member ``dropped``: by which event, and what was there."""

    by: str
    bytes: int
    sha256: str


class Remains(NamedTuple):
    """What stays of an event, and the texts that it had; made before it is known which event erases it."""

    id: str
    offset: str
    type: str
    front: bytes
    kept: bytes
    sha256: str
    size: int
    texts: tuple[str, ...]
    earlier: Mark | None

    def tombstone(self, mark: Mark) -> bytes:
        """Return the event that stands in place of the erased one."""
        return b'%b,"redacted":%b%b}' % (self.front, msgspec.json.encode(mark), self.kept)

    def dropped(self, mark: DropMark) -> bytes:
        """Return the event that stands in place of one whose slots were dropped."""
        return b'%b,"dropped":%b%b}' % (self.front, msgspec.json.encode(mark), self.kept)


def dropped_at_once(event: bytes, front: bytes, kind: str, kept: bytes, by: str) -> bytes:
    """Return what is stored in place of a new event that is dropped by the append that brings it.

    ``front`` are the server's members, with the brace and commas; ``kept`` is what :func:`counted` returned.
    """
    mark = DropMark(by, len(event), hashlib.sha256(event).hexdigest())
    return b'%b"type":%b,"dropped":%b%b}' % (
        front,
        msgspec.json.encode(kind),
        msgspec.json.encode(mark),
        kept,
    )


def is_tombstone(stored: bytes) -> bool:
    """Say whether a stored event is what was left of an erased one."""
    return (b'"redacted"' in stored or b'"dropped"' in stored) and _ERASED.match(stored) is not None


def can_be_erased(kind: str) -> bool:
    """Say whether events of a type can be redacted: what says who acted, and what was erased, cannot."""
    return not kind.startswith(_NOT_ERASED)


def counted(event: bytes, kind: str) -> bytes:
    """Return the members that others count by, as they stand behind the mark; slow for a large event."""
    return _behind(dict(_kept(lenient.loads(event), kind, slots.of_event(event))))


def remains(stored: bytes) -> Remains:
    """Return what stays of a stored event; slow for a large one, so not for the event loop."""
    event: dict[str, Any] = lenient.loads(stored)
    earlier = _mark(event) if is_tombstone(stored) else None
    front = {name: event[name] for name in _FRONT if name in event}
    kind = str(event["type"])
    kept = dict(_kept(event, kind, slots.of_event(stored)))
    # Folds pass over what was imported by anybody, and over what has not the shape of its type.
    if event.get("imported") != "untrusted" and strict.read(kind, stored) is not None:
        kept |= _structure({name: one for name, one in event.items() if name not in front}, kind)
    return Remains(
        str(event["id"]),
        str(event["offset"]),
        kind,
        _encoded(front)[:-1],
        _behind(kept),
        hashlib.sha256(stored).hexdigest(),
        len(stored),
        tuple(_texts(event)),
        earlier,
    )


def _behind(kept: dict[str, object]) -> bytes:
    return b"," + _encoded(kept)[1:-1] if kept else b""


def _encoded(value: object) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_escaped(value))


def _escaped(value: object) -> object:
    """Return a value whose texts can be encoded: lone surrogates, which UTF-8 cannot hold, stay escapes.

    Anything in their place would be another thread or id, found when these are made again from events.
    """
    if isinstance(value, str):
        return value if _is_unicode(value) else msgspec.Raw(json.dumps(value).encode())
    if isinstance(value, dict):
        return {name.encode(errors="replace").decode(): _escaped(one) for name, one in value.items()}
    return [_escaped(one) for one in value] if isinstance(value, list) else value


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _mark(event: dict[str, Any]) -> Mark | None:
    try:
        return msgspec.convert(event["redacted"], Mark)
    except KeyError:
        return None  # it was dropped, not redacted
    except msgspec.ValidationError:
        return None


def _kept(event: dict[str, Any], kind: str, wish: SlotWish | None) -> Iterator[tuple[str, object]]:
    """Yield the members that others count by, where they have the form that is counted."""
    if _is_text(event.get("session_thread_id")):
        yield "session_thread_id", event["session_thread_id"]
    if wish is not None:
        yield from ((name, event[name]) for name in _slot_members(wish))
    if event.get("imported") in ("trusted", "untrusted"):
        yield "imported", event["imported"]
    refs = event.get("refs")
    if isinstance(refs, list) and len(refs) <= _REFS_MAX and all(map(_is_ref, refs)):
        yield "refs", refs
    if "raw_format" in event:
        yield from lenses.left_of(event).items()
    if kind in _RESULTS or kind == _CONFIRMATION:
        yield from ((name, event[name]) for name in _OF_RESULTS if _is_text(event.get(name)))
    if kind in _RESULTS and isinstance(event.get("is_error"), bool):
        yield "is_error", event["is_error"]
    if kind in _CALLS:
        if _is_one_of(event.get("effect"), _EFFECTS):
            yield "effect", event["effect"]
        if _is_one_of(event.get("evaluated_permission"), _PERMISSIONS):
            yield "evaluated_permission", event["evaluated_permission"]
    if kind in _OUTCOMES:
        if _is_text(event.get("outcome_id")):
            yield "outcome_id", event["outcome_id"]
        if _is_one_of(event.get("result"), _OUTCOMES[kind]):
            yield "result", event["result"]
    if kind == "span.model_request_end":
        if isinstance(event.get("model_usage"), dict):
            yield "model_usage", _numbers(event["model_usage"])
        if _is_number(event.get("cost_usd")):
            yield "cost_usd", event["cost_usd"]


def _slot_members(wish: SlotWish) -> Iterator[str]:
    """Yield the members by which an event does something with slots; any other is plain payload."""
    if wish.names:
        yield "slot"
    if wish.prefix is not None:  # an empty one is the beginning of every name
        yield "slot_prefix"
    if wish.empties:
        yield "slot_empty"


def _is_text(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _ID_MAX


def _is_one_of(value: object, words: frozenset[str]) -> bool:
    # Lists and objects, which strangers may send instead, cannot be looked up.
    return isinstance(value, str) and value in words


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_ref(value: object) -> bool:
    if not isinstance(value, dict) or not {"rel", "id"} <= value.keys() <= {"rel", "id", "session"}:
        return False
    return (
        _is_one_of(value["rel"], _RELATIONS) and _is_text(value["id"]) and _is_text(value.get("session", "-"))
    )


def _numbers(usage: dict[str, Any]) -> dict[str, object]:
    """Return the counts of an object; texts are left out."""
    found: dict[str, object] = {}
    for name, value in usage.items():
        if _is_number(value):
            found[name] = value
        elif isinstance(value, dict):
            found[name] = _numbers(value)
    return found


def _structure(event: dict[str, Any], kind: str) -> dict[str, object]:
    """Return the members of a strict event as they stay: what people and models said is null."""
    erased = strict.erased_members(kind)
    known = (name for name in event if name in erased or name in _DS_STRUCTURE)
    return {name: _without_texts(name, event[name], erased) for name in known}


def _without_texts(name: str, value: object, erased: frozenset[str]) -> object:
    if name in erased:
        return None
    # Metrics are numbers, under names of the judge's choice.
    if isinstance(value, dict) and name != "metrics":
        return {key: _without_texts(key, one, erased) for key, one in value.items()}
    return [_without_texts("", one, erased) for one in value] if isinstance(value, list) else value


def _texts(value: object) -> Iterable[str]:
    """Yield all texts in an event."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
