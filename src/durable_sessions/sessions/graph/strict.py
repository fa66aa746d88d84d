"""Checks the shape of strict events: what one event can say about itself, before any state is looked at."""

from difflib import get_close_matches
from functools import cache
from typing import Any

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import InvalidEventError, UnknownEventTypeError
from durable_sessions.json_problems import path, problem, unknown_member
from durable_sessions.limits import Limits
from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.graph.schemas import StrictEvent

ERASED_TEXT = "[redacted]"
"""What views show in place of a text that was erased."""
_TEXTS = frozenset({"text", "question", "reason", "note", "summary", "instructions", "next", "command"})
_VALUES = ("value", "state", "payload", "spec")
"""Members that may be any JSON, bounded in bytes."""
_OPTIONAL = frozenset({"metadata", "done", "description", "query", "image", "workdir", "network", "host"})
_ERASED = _TEXTS | frozenset(_VALUES) | _OPTIONAL


def is_strict(kind: str) -> bool:
    """Say whether a type is one of this layer's, which are checked."""
    return kind.startswith(schemas.PREFIX)


def erased_members(kind: str) -> frozenset[str]:
    """Return the members of a type that are null when an event is erased; the others folds count by."""
    return _ERASED - {"value"} if kind == "ds.budget.tripped" else _ERASED


def parse(kind: str, body: bytes, index: int | None, limits: Limits) -> StrictEvent:
    """Return a strict event that a client sent, or refuse it and name the member that is wrong."""
    shape = schemas.TYPES.get(kind)
    if shape is None:
        raise UnknownEventTypeError(kind=kind, advice=_nearest(kind), index=index)
    if shape.is_servers:
        raise _wrong(index, "type", f"only the server writes {kind}")
    try:
        event = lenient.decode(_decoder(kind), body)
    except msgspec.MsgspecError as error:
        said = f"{kind}: {problem(error, shape)}{_advice(shape, error)}"
        raise _wrong(index, path(error), said) from None
    _require_bounds(kind, event, body, index, limits)
    _require_sense(kind, event, index)
    return event


def read(kind: str, body: bytes) -> StrictEvent | None:
    """Return a stored strict event, None if it has not the shape of its type: older logs hold any.

    The server's own members stand in front of the stored event; they are not looked at.
    """
    if kind not in schemas.TYPES:
        return None
    try:
        return lenient.decode(_reader(kind), body)
    except (msgspec.MsgspecError, RecursionError):
        return _read_erased(kind, body) if b'"redacted"' in body else None


def _read_erased(kind: str, body: bytes) -> StrictEvent | None:
    """Return what is left of an erased event, which has null for each of its texts and values."""
    try:
        event = lenient.loads(body)
        return _reader(kind).decode(msgspec.json.encode(_told_erased(event)))
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _told_erased(value: object) -> object:
    if isinstance(value, dict):
        return {
            name: ERASED_TEXT if one is None and name in _TEXTS else _told_erased(one)
            for name, one in value.items()
            if one is not None or name not in _OPTIONAL
        }
    return [_told_erased(one) for one in value] if isinstance(value, list) else value


@cache
def _decoder(kind: str) -> "msgspec.json.Decoder[StrictEvent]":
    return msgspec.json.Decoder(schemas.TYPES[kind])


@cache
def _reader(kind: str) -> "msgspec.json.Decoder[StrictEvent]":
    """Return a decoder of stored events, which have more members than clients may send."""
    shape = schemas.TYPES[kind]
    # The same members without the ban on others: the decoder skips what the server has put in front.
    stored: Any = msgspec.defstruct(
        shape.__name__, [], bases=(shape,), forbid_unknown_fields=False, kw_only=True
    )
    return msgspec.json.Decoder(stored)


def _require_bounds(kind: str, event: StrictEvent, body: bytes, index: int | None, limits: Limits) -> None:
    """Refuse what is too large; the decoder bounds texts and lists, these are bounded in bytes."""
    if len(msgspec.json.encode(event.metadata)) > limits.graph_metadata_bytes_max:
        raise _wrong(
            index, "metadata", f"{kind}: metadata is larger than {limits.graph_metadata_bytes_max} bytes"
        )
    for member in _VALUES:
        value = getattr(event, member, msgspec.UNSET)
        if isinstance(value, msgspec.Raw) and len(bytes(value)) > limits.graph_value_bytes_max:
            raise _wrong(
                index,
                member,
                f"{kind}: {member} is larger than {limits.graph_value_bytes_max} bytes; put it into an "
                "artifact",
            )
    if isinstance(event, schemas.OutcomeDefined) and len(body) > limits.outcome_bytes_max:
        raise _wrong(index, "features", f"{kind}: it is larger than {limits.outcome_bytes_max} bytes")


def _require_sense(kind: str, event: StrictEvent, index: int | None) -> None:
    """Refuse members that contradict each other, or that must not be empty together."""
    if isinstance(event, schemas.OutcomeDefined):
        seen: set[str] = set()
        for at, feature in enumerate(event.features):
            if feature.id in seen:
                raise _wrong(index, f"features[{at}].id", f"{kind}: the feature {feature.id} is there twice")
            seen.add(feature.id)
    elif isinstance(event, schemas.Evaluation):
        if not any(ref.rel in ("evaluates", "because") for ref in event.refs):
            raise _wrong(index, "refs", f"{kind}: name the evidence with a ref evaluates or because")
    elif isinstance(event, schemas.Routed):
        if not event.to.isprintable() or event.to != event.to.strip():
            raise _wrong(
                index,
                "to",
                f"{kind}: to is no principal; send a printable name without space around it, or * for anyone",
            )
    elif isinstance(event, schemas.MemoryWritten):
        if not any(ref.rel == "because" for ref in event.refs):
            raise _wrong(index, "refs", f"{kind}: name the evidence with a ref because")
    elif isinstance(event, schemas.BudgetSet):
        if not event.limits():
            raise _wrong(
                index, schemas.MEASURES[0], f"{kind}: set at least one of {', '.join(schemas.MEASURES)}"
            )
    elif isinstance(event, schemas.ContextCompacted):
        if event.from_ >= event.to:
            raise _wrong(index, "from", f"{kind}: from must be less than to")
    elif isinstance(event, schemas.Fact):
        if event.kind == "goal" and not lenient.text(event.value):
            raise _wrong(index, "value", f"{kind}: the value of a goal is a text")
    elif isinstance(event, schemas.ApprovalRequested) and len(set(event.options)) < len(event.options):
        raise _wrong(index, "options", f"{kind}: an option is there twice")


def _advice(shape: type[StrictEvent], error: Exception) -> str:
    """Return what to send instead of a member that is not known, as the end of a sentence."""
    if unknown_member(error) is not None and "." not in path(error):
        return f"; it has {', '.join(_members(shape))}"
    if unknown_member(error) is not None and path(error).startswith("refs["):
        return "; a ref has rel, id and perhaps session"
    return ""


def _members(shape: type[StrictEvent]) -> list[str]:
    """Return the members of a type as they are sent, its own before those of every type."""
    names = [field.encode_name for field in msgspec.structs.fields(shape) if field.name != "type"]
    common = {field.encode_name for field in msgspec.structs.fields(StrictEvent)}
    return sorted(names, key=lambda name: name in common)


def _nearest(kind: str) -> str:
    known = [name for name, shape in schemas.TYPES.items() if not shape.is_servers]
    # Without what they all begin with, which would make everything look alike.
    names = [name.removeprefix(schemas.PREFIX) for name in known]
    near = get_close_matches(kind.removeprefix(schemas.PREFIX), names, n=1)
    return f"Did you mean {schemas.PREFIX}{near[0]}?" if near else f"Send one of {', '.join(sorted(known))}."


def _wrong(index: int | None, member: str, what: str) -> InvalidEventError:
    return InvalidEventError(problem=f"{what}.", index=index, member=member)
