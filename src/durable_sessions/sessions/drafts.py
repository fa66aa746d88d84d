"""Events as clients send them: validated, and prepared for the server's members to be put in front."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import EventTooLargeError, InvalidEventError
from durable_sessions.json_problems import problem
from durable_sessions.limits import Limits
from durable_sessions.sessions import digests, originals
from durable_sessions.sessions.json_members import Member, members
from durable_sessions.sessions.originals import RESERVED
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
    source: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET

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

    def stored(self, front: str) -> bytes:
        """Return the event as it is stored; ``front`` are the server's members, each with a comma."""
        return b"{%b%b" % (front.encode(), self.rest)


def parse(body: bytes, limits: Limits, *, wrapped_only: bool = False) -> list[Draft]:
    """Return the events of a request: ``{"events":[…]}``, ``[…]`` or one ``{…}``."""
    alone = body.lstrip(_SPACE)[:1] == b"{"
    may_wrap = alone and b'"events"' in body
    if alone and not may_wrap and not wrapped_only and (plain := _plain(body, limits)) is not None:
        return [plain]
    values = messages.split(body, limits, levels=WRAPPING_LEVELS if may_wrap else 0)
    wrapped = _unwrap(values[0], tolerant=wrapped_only) if may_wrap else None
    if wrapped is not None:
        alone, values = False, messages.split(wrapped, limits)
    elif wrapped_only:
        raise InvalidEventError(problem='Send {"events":[…]}, a list also for one event.')
    elif may_wrap:
        messages.check_depth(values[0], limits)
    if not values:
        raise InvalidEventError(problem=NO_EVENT)
    if len(values) > limits.events_per_request_max:
        raise InvalidEventError(
            problem=f"The request holds {len(values)} events; send at most {limits.events_per_request_max}."
        )
    return [_draft(value, None if alone else index, limits) for index, value in enumerate(values)]


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
    return _drafted(envelope, value, "", None, limits)


def _unwrap(value: bytes, *, tolerant: bool) -> bytes | None:
    """Return the list of events in an object that is not an event itself, None if there is none.

    Other members of that object are refused, unless this is ``tolerant``.
    """
    sent = list(members(value))
    found = {member.key: member.value for member in sent}
    if "type" in found or "events" not in found:
        return None
    if len(sent) > 1 and not tolerant:
        raise InvalidEventError(problem=_beside(found))
    if found["events"][:1] != b"[":
        raise InvalidEventError(problem='"events" must be a list of objects, each with a "type".')
    return found["events"]


def _beside(found: Mapping[str, object]) -> str:
    """Return the error message for other members beside ``events``."""
    others = [name for name in found if name != "events"]
    if not others:
        return '"events" is there twice; send one list.'
    near = get_close_matches(others[0], ("events",), n=1)
    advice = "Did you mean events?" if near else "Send it inside of an event, or leave it out."
    return f'There is no member "{others[0][:80]}" beside "events". {advice}'


def _draft(value: bytes, index: int | None, limits: Limits) -> Draft:
    where = "" if index is None else f"Event {index}: "
    if len(value) > limits.event_bytes_max:
        raise EventTooLargeError(
            where=where, size=len(value), event_bytes_max=limits.event_bytes_max, index=index
        )
    if value[:1] != b"{":
        raise InvalidEventError(
            problem=where + 'an event is an object such as {"type":"user.message"}.', index=index
        )
    try:
        envelope = lenient.decode(_ENVELOPE, value)
    except msgspec.ValidationError as error:
        raise InvalidEventError(problem=f"{where}{problem(error)}.", index=index) from None
    return _drafted(envelope, value, where, index, limits)


def _drafted(envelope: _Envelope, value: bytes, where: str, index: int | None, limits: Limits) -> Draft:
    kind = envelope.type
    if not isinstance(kind, str) or not 0 < len(kind) <= limits.event_type_max or _CONTROL.search(kind):
        raise InvalidEventError(
            problem=f'{where or "The event: "}send a "type": 1 to {limits.event_type_max} characters, no '
            "control characters.",
            index=index,
        )
    draft = Draft(kind, value, value[1:], thread=_thread(envelope.session_thread_id))
    if envelope.reserved:
        draft.id = _client_id(envelope.id, where, index, limits)
        sent = list(members(value))
        kept = _without_reserved(sent, where, index)
        draft.rest = _joined(kept)
        draft.happened_ms = originals.happened_ms(kept)
        if draft.id is not None:
            draft.digest = digests.of_sent(sent)
    elif b'"original_' in value or _may_repeat(value, kind):
        sent = list(members(value))
        _require_once(sent, where, index)
        kept = originals.once(sent)
        if len(kept) < len(sent):
            draft.rest = _joined(kept)
        draft.happened_ms = originals.happened_ms(kept)
    if isinstance(envelope.source, msgspec.Raw):
        draft.is_live = bytes(envelope.source)[:1] != b"{"
        draft.is_import = not draft.is_live and originals.is_import(envelope.source)
    elif kind == UPDATED:
        draft.is_live = False
    if kind == DEFINES:
        draft.rest = _without_unusable_outcome(draft.rest)
    return draft


def _thread(raw: msgspec.Raw) -> str | None:
    value = lenient.text(raw)
    return value if value and "\0" not in value else None


def _client_id(
    value: str | msgspec.UnsetType | None, where: str, index: int | None, limits: Limits
) -> str | None:
    if value is None or value is msgspec.UNSET:
        return None
    assert isinstance(value, str)
    # Stored ids are found by comparing bytes, so an id must be one that JSON writes without escapes.
    if not 0 < len(value) <= limits.event_id_max or _CONTROL.search(value) or '"' in value or "\\" in value:
        raise InvalidEventError(
            problem=f'{where}an "id" has 1 to {limits.event_id_max} characters, none of them a quote, a '
            "backslash or a control character; leave it out to get one.",
            index=index,
        )
    return value


def _without_reserved(sent: list[Member], where: str, index: int | None) -> list[Member]:
    """Return the members to store: those that the server sets itself are renamed or left out."""
    _require_once(sent, where, index)
    _require_times(sent, where, index)
    kept: list[Member] = []
    for member in originals.once(sent):
        if member.key in RESERVED:
            name = f"original_{member.key}"
            kept.append(Member(name, f'"{name}"'.encode(), member.value))
        elif member.key != "id" and not _is_request_key(member):
            kept.append(member)
    return kept


def _is_request_key(member: Member) -> bool:
    """Say whether this is the mark that a server put on the first event of a request."""
    return member.key == "request_key" and _REQUEST_KEY.fullmatch(member.value) is not None


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
    if value.count(b'"type"') > 1:
        spellings = (b'"type":"%b"' % kind.encode(), b'"type": "%b"' % kind.encode())
        if not value.startswith(spellings, value.index(b'"type"')) or sum(map(value.count, spellings)) > 1:
            return True
    return b"\\u00" in value and _ESCAPED_LETTER.search(value) is not None


def _require_once(sent: list[Member], where: str, index: int | None) -> None:
    # JSON parsers differ in which of two equal members they take; what the server sets must be unambiguous.
    seen: set[str] = set()
    for member in sent:
        if member.key in _ONCE:
            if member.key in seen:
                raise InvalidEventError(
                    problem=f'{where}"{member.key}" is there twice; send it once.', index=index
                )
            seen.add(member.key)


def _require_times(sent: list[Member], where: str, index: int | None) -> None:
    for member in sent:
        if member.key in _TIMES and member.value != b"null" and originals.instant_ms(member.value) is None:
            raise InvalidEventError(
                problem=f'{where}"{member.key}" is no time; send one such as "2026-11-15T12:00:00Z".',
                index=index,
            )
