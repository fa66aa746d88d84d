"""Events as clients send them: validated, and prepared for the server's members to be put in front."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple, get_args

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import DurableSessionsError, EventTooLargeError, InvalidEventError
from durable_sessions.json_problems import problem
from durable_sessions.limits import Limits
from durable_sessions.server_members import RESERVED
from durable_sessions.sessions import digests, original_members, slots
from durable_sessions.sessions.graph import strict
from durable_sessions.sessions.graph.schemas import Imported, StrictEvent
from durable_sessions.sessions.json_members import Member, members
from durable_sessions.sessions.memory.recording import MemoryIntent
from durable_sessions.sessions.slots import SlotWish
from durable_sessions.streams import messages

NO_EVENT = 'There is no event in the request; send {"events":[{"type":"…"}]}.'
DEFINES = "user.define_outcome"
UPDATED = "session.updated"
_REQUEST_KEY = re.compile(rb'"_[\w-]{22}[0-9a-f]{8}"', re.ASCII)
_ESCAPED_LETTER = re.compile(rb"\\u00[4-7]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


_ONCE = frozenset({"id", "type", *RESERVED})
_TIMES = frozenset({"created_at", "processed_at"})


class _Envelope(msgspec.Struct):
    """The members that the server interprets."""

    type: str | msgspec.UnsetType = msgspec.UNSET
    id: str | msgspec.UnsetType | None = msgspec.UNSET
    session_thread_id: msgspec.Raw = lenient.NULL
    offset: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    created_at: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    processed_at: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    actor: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    imported: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    source: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    slot: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    slot_prefix: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    slot_empty: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

    @property
    def reserved(self) -> bool:
        """Whether a member has to be renamed or left out."""
        unset = msgspec.UNSET
        return not (
            self.id is unset
            and self.created_at is unset
            and self.processed_at is unset
            and self.offset is unset
            and self.actor is unset
            and self.imported is unset
        )


_SPACE = b" \t\n\r"
_ENVELOPE = msgspec.json.Decoder(_Envelope)
WRAPPING_LEVELS = 2
"""The nesting levels that ``{"events":[…]}`` adds to those of the events."""


@dataclass(slots=True)
class Draft:
    """One event before it has a position.

    ``body`` is the event as it was sent; ``rest`` are the members to store, with the closing brace.
    ``digest`` tells it from other events under the same id.
    """

    type: str
    body: bytes
    rest: bytes
    id: str | None = None
    thread: str | None = None
    happened_ms: int | None = None
    """When it happened, if the sender states it."""
    is_live: bool = True
    """Whether an event without a time happens now: imported events, which name their source, do not, nor do
    those by which a server recorded a change of the session."""
    is_import: bool = False
    """Whether it names the record of another tool that it was made from."""
    digest: int = 0
    strict: StrictEvent | None = None
    """What it says, if its type is one of those that are checked."""
    imported: Imported | None = None
    """Whether it is imported, and if so, whether an administrator vouches for it."""
    slots: SlotWish | None = None
    """What it does with slots, if it is stored."""
    dropped_by: int | None = None
    """Which later event of the same append drops it, if one does; known before the append is decided."""
    remains: bytes | None = None
    """What stays of it then."""
    memory: MemoryIntent | None = None
    """Which memory scope it is recorded in; known once what it names was looked up."""

    def stored(self, front: str) -> bytes:
        """Return the event as it is stored; ``front`` are the server's members, each with a comma."""
        return b"{%b%b" % (front.encode(), self.rest)


class Sent(NamedTuple):
    """The events of an append, and what stands beside them: conditions, and what a new session is to be."""

    drafts: list[Draft]
    conditions: bytes | None = None
    session: bytes | None = None


CONDITIONS, SESSION = "if", "session"
_BESIDE = (CONDITIONS, SESSION)
_MEMORY = "ds.memory."


def parse(
    body: bytes, limits: Limits, *, wrapped_only: bool = False, imported: Imported | None = None
) -> list[Draft]:
    """Return the events of a request: ``{"events":[…]}``, ``[…]`` or one ``{…}``.

    Events that are ``imported`` are marked so. Of others, those of strict types are checked.
    """
    return _checked(_parsed(body, limits, wrapped_only=wrapped_only, beside=()), imported, limits).drafts


def plain(body: bytes, limits: Limits) -> Draft | None:
    """Return what :func:`parse_append` does for a body that is one plain event, else None, valid or not.

    If it is of a strict type it was not checked.
    """
    # A look at the bytes is enough: a body that merely mentions "events" takes the longer way.
    if not body.startswith(b"{") or b'"events"' in body:
        return None
    try:
        draft = _plain(body, limits)
    except DurableSessionsError:
        return None
    return draft if draft is not None and draft.slots is None and draft.id is None else None


def parse_append(
    body: bytes, limits: Limits, *, wrapped_only: bool = False, imported: Imported | None = None
) -> Sent:
    """Return the events of an append in the same way, perhaps with ``if`` and ``session`` beside them."""
    return _checked(_parsed(body, limits, wrapped_only=wrapped_only, beside=_BESIDE), imported, limits)


def _checked(sent: Sent, imported: Imported | None, limits: Limits) -> Sent:
    refs = memories = 0
    for index, draft in enumerate(sent.drafts):
        if imported is not None:
            _mark(draft, imported)
        elif strict.is_strict(draft.type):
            try:
                draft.strict = strict.parse(draft.type, draft.body, index, limits)
            except DurableSessionsError as error:
                raise error.among(len(sent.drafts)) from None
            refs += len(draft.strict.refs)
            memories += draft.type.startswith(_MEMORY)
    if memories > limits.memory_events_per_request_max:
        raise InvalidEventError(
            problem=f"The request holds {memories} memory events; send at most "
            f"{limits.memory_events_per_request_max}."
        )
    if refs > limits.refs_per_request_max:
        raise InvalidEventError(
            problem=f"The request holds {refs} refs; send at most {limits.refs_per_request_max}."
        )
    return sent


def _parsed(body: bytes, limits: Limits, *, wrapped_only: bool, beside: tuple[str, ...]) -> Sent:
    # One object is either an event or what stands around a list of them; which one, only its members say.
    alone = body.lstrip(_SPACE)[:1] == b"{"
    may_wrap = alone and b'"events"' in body
    if alone and not may_wrap and not wrapped_only and (plain := _plain(body, limits)) is not None:
        return Sent([plain])
    values = messages.split(body, limits, levels=WRAPPING_LEVELS if may_wrap else 0)
    wrapped = _unwrap(values[0], tolerant=wrapped_only, beside=beside) if may_wrap else None
    conditions = session = None
    if wrapped is not None:
        conditions, session = wrapped.get(CONDITIONS), wrapped.get(SESSION)
        values = messages.split(wrapped["events"], limits)
    elif wrapped_only:
        raise InvalidEventError(problem='Send {"events":[…]}, a list also for one event.')
    elif may_wrap:
        messages.check_depth(values[0], limits)
    if not values and conditions is None:
        raise InvalidEventError(problem=NO_EVENT)
    if len(values) > limits.events_per_request_max:
        raise InvalidEventError(
            problem=f"The request holds {len(values)} events; send at most {limits.events_per_request_max}."
        )
    try:
        drafts = [_draft(value, index, limits) for index, value in enumerate(values)]
    except DurableSessionsError as error:
        raise error.among(len(values)) from None
    return Sent(drafts, conditions, session)


def _mark(draft: Draft, imported: Imported) -> None:
    """Put the member ``imported`` in front of the others; one that the event came with is left out."""
    # A name may be written with escapes of its letters; then the bytes do not show it.
    if b"imported" in draft.rest or b"\\u00" in draft.rest:
        draft.rest = _joined(one for one in members(b"{" + draft.rest) if one.key != "imported")
    draft.rest = b'"imported":"%b",%b' % (imported.encode(), draft.rest)
    draft.imported = imported


def _plain(body: bytes, limits: Limits) -> Draft | None:
    """Return the event of a request with one simple event, a fast path for most; None if it needs more."""
    # The decoder skips over members that it does not need without checking their UTF-8; ASCII needs no check.
    if len(body) > limits.event_bytes_max or not body.isascii():
        return None
    try:
        envelope = _ENVELOPE.decode(body)
    except (msgspec.MsgspecError, RecursionError):
        return None
    value = body.strip(_SPACE)
    messages.check_depth(value, limits)
    try:
        return _drafted(envelope, value, 0, limits)
    except DurableSessionsError as error:
        raise error.among(1) from None


def _unwrap(value: bytes, *, tolerant: bool, beside: tuple[str, ...]) -> dict[str, bytes] | None:
    """Return the members of an object with a list of events that is not an event itself, None if it is none.

    Other members of that object than those that may stand ``beside`` are refused, unless this is
    ``tolerant``.
    """
    sent = list(members(value))
    found = {member.key: member.value for member in sent}
    if "type" in found or "events" not in found:
        return None
    if len(sent) > len(found) and not tolerant:
        twice = next(member.key for index, member in enumerate(sent) if member.key in _keys(sent[:index]))
        raise InvalidEventError(problem=f'"{twice[:80]}" is there twice; send it once.')
    others = [name for name in found if name != "events" and name not in beside]
    if others and not tolerant:
        raise InvalidEventError(problem=_beside(others[0], beside))
    if found["events"][:1] != b"[":
        raise InvalidEventError(problem='"events" must be a list of objects, each with a "type".')
    return {name: found[name] for name in ("events", *beside) if name in found}


def _keys(sent: Iterable[Member]) -> set[str]:
    return {member.key for member in sent}


def _beside(other: str, beside: tuple[str, ...]) -> str:
    """Return the error message for another member beside ``events``."""
    near = get_close_matches(other, ("events", *beside), n=1)
    advice = f"Did you mean {near[0]}?" if near else "Send it inside of an event, or leave it out."
    return f'There is no member "{other[:80]}" beside "events". {advice}'


def _draft(value: bytes, index: int, limits: Limits) -> Draft:
    if len(value) > limits.event_bytes_max:
        raise EventTooLargeError(size=len(value), event_bytes_max=limits.event_bytes_max, index=index)
    if value[:1] != b"{":
        raise InvalidEventError(problem='An event is an object such as {"type":"user.message"}.', index=index)
    try:
        envelope = lenient.decode(_ENVELOPE, value)
    except msgspec.ValidationError as error:
        raise InvalidEventError(problem=f"{problem(error, _Envelope)}.", index=index) from None
    return _drafted(envelope, value, index, limits)


def _misspelt_type(value: bytes) -> str:
    """Return which member of an event without a type was probably meant to be it, as a sentence."""
    names = [member.key for member in members(value)]
    near = [] if "type" in names else get_close_matches("type", names, n=1, cutoff=0.7)
    return f' Did you mean "type" in place of "{near[0][:80]}"?' if near else ""


def _drafted(envelope: _Envelope, value: bytes, index: int, limits: Limits) -> Draft:
    kind = envelope.type
    if not isinstance(kind, str) or not 0 < len(kind) <= limits.event_type_max or _has_control(kind):
        raise InvalidEventError(
            problem=f'Send a "type": 1 to {limits.event_type_max} characters, no '
            f"control characters.{_misspelt_type(value)}",
            index=index,
        )
    draft = Draft(kind, value, value[1:], thread=_thread(envelope.session_thread_id))
    if envelope.reserved:
        draft.id = _client_id(envelope.id, index, limits)
        sent = list(members(value))
        kept = _without_reserved(sent, index)
        draft.rest = _joined(kept)
        draft.happened_ms = original_members.happened_ms(kept)
        if draft.id is not None:
            draft.digest = digests.of_sent(sent)
    elif b'"original_' in value or _may_repeat(value, kind):
        sent = list(members(value))
        _require_once(sent, index)
        kept = original_members.once(sent)
        if len(kept) < len(sent):
            draft.rest = _joined(kept)
        draft.happened_ms = original_members.happened_ms(kept)
    if isinstance(envelope.source, msgspec.Raw):
        draft.is_live = bytes(envelope.source)[:1] != b"{"
        draft.is_import = not draft.is_live and original_members.is_import(envelope.source)
    elif kind == UPDATED:
        draft.is_live = False
    if kind == DEFINES:
        draft.rest = _without_unusable_outcome(draft.rest)
    if envelope.slot is not msgspec.UNSET or envelope.slot_prefix is not msgspec.UNSET:
        draft.slots = slots.of_members(kind, envelope.slot, envelope.slot_prefix, envelope.slot_empty)
    return draft


# Cached, like the spellings of a type: every event has one, and all events together few.
@lru_cache(maxsize=1_024)
def _has_control(kind: str) -> bool:
    return _CONTROL.search(kind) is not None


@lru_cache(maxsize=1_024)
def _spellings(kind: str) -> tuple[bytes, bytes]:
    """Return how a member with this type is usually written."""
    return b'"type":"%b"' % kind.encode(), b'"type": "%b"' % kind.encode()


def _thread(raw: msgspec.Raw) -> str | None:
    if raw is lenient.NULL:  # not sent, as by most
        return None
    value = lenient.text(raw)
    return value if value and "\0" not in value else None


def _client_id(value: str | msgspec.UnsetType | None, index: int, limits: Limits) -> str | None:
    if value is None or value is msgspec.UNSET:
        return None
    assert isinstance(value, str)
    # Stored ids are found by comparing bytes, so an id must be one that JSON writes without escapes.
    if not 0 < len(value) <= limits.event_id_max or _CONTROL.search(value) or '"' in value or "\\" in value:
        raise InvalidEventError(
            problem=f'An "id" has 1 to {limits.event_id_max} characters, none of them a quote, a '
            "backslash or a control character; leave it out to get one.",
            index=index,
        )
    return value


def _without_reserved(sent: list[Member], index: int) -> list[Member]:
    """Return the members to store: those that the server sets itself are renamed or left out."""
    _require_once(sent, index)
    _require_times(sent, index)
    kept: list[Member] = []
    for member in original_members.once(sent):
        if member.key in RESERVED:
            name = f"original_{member.key}"
            kept.append(Member(name, f'"{name}"'.encode(), member.value))
        elif member.key != "id" and not _is_mark(member):
            kept.append(member)
    return kept


def _is_mark(member: Member) -> bool:
    """Say whether this is a mark that only a server puts on an event: of a request, or of an import."""
    if member.key == "request_key":
        return _REQUEST_KEY.fullmatch(member.value) is not None
    # It may be written with escapes of its letters; folds would read it all the same.
    return member.key == "imported" and lenient.text(msgspec.Raw(member.value)) in get_args(Imported)


def _without_unusable_outcome(rest: bytes) -> bytes:
    """Return the members without an unusable outcome id; the server puts its own in front."""
    sent = list(members(b"{" + rest))
    unusable = [
        one for one in sent if one.key == "outcome_id" and (one.value[:1] != b'"' or one.value == b'""')
    ]
    if not unusable:
        return rest
    return _joined(one for one in sent if one.key != "outcome_id")


def _joined(kept: Iterable[Member]) -> bytes:
    """Return members as an object without its opening brace."""
    return b",".join([member.raw_key + b":" + member.value for member in kept]) + b"}"


def _may_repeat(value: bytes, kind: str) -> bool:
    """Say whether an event may have two types; cheap, because every event is checked.

    The decoder returns the last one. So there is only one if the first occurrence has the decoded type, and
    no other does; inner objects may have types of their own. A key can also be spelled with escapes.
    """
    count = value.count(b'"type"')
    if count > 1:
        spellings = _spellings(kind)
        if not value.startswith(spellings, value.index(b'"type"')):
            return True
        if count == 2:  # as in most: that of the event, and one in its content
            if value.startswith(spellings, value.rindex(b'"type"')):
                return True
        elif sum(map(value.count, spellings)) > 1:
            return True
    return b"\\u00" in value and _ESCAPED_LETTER.search(value) is not None


def _require_once(sent: list[Member], index: int) -> None:
    # JSON parsers differ in which of two equal members they take; what the server sets must be unambiguous.
    seen: set[str] = set()
    for member in sent:
        if member.key in _ONCE:
            if member.key in seen:
                raise InvalidEventError(problem=f'"{member.key}" is there twice; send it once.', index=index)
            seen.add(member.key)


def _require_times(sent: list[Member], index: int) -> None:
    for member in sent:
        if (
            member.key in _TIMES
            and member.value != b"null"
            and original_members.instant_ms(member.value) is None
        ):
            raise InvalidEventError(
                problem=f'"{member.key}" is no time; send one such as "2026-11-15T12:00:00Z".',
                index=index,
            )
