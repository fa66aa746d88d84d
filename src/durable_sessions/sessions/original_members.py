"""Members that the server sets, if an imported event brings its own: kept as ``original_<name>``.

An event that is copied a second time has both ``created_at`` and ``original_created_at``. The original is
kept, and the value that the last server set on its copy is dropped, so that no member occurs twice. The times
of a copy are dropped as well if an original time is known by another name, or if nobody knows one: an
imported event without a time did not happen when it was imported.
"""

from collections.abc import Iterable, Sequence

import msgspec

from durable_sessions import lenient
from durable_sessions.server_members import ORIGINALS
from durable_sessions.sessions.json_members import Member
from durable_sessions.times import parse_rfc3339

_TIMES = ("original_created_at", "original_processed_at")
_COPIED_TIMES = {"created_at", "processed_at"}


def once(sent: Sequence[Member]) -> list[Member]:
    """Return an event's members without those whose original it brings, and each original once.

    Older servers could write an original twice, the copy first. Of several times the earliest is the
    original, of all other members the last.
    """
    found: dict[str, list[Member]] = {}
    for member in sent:
        if member.key in ORIGINALS:
            found.setdefault(member.key, []).append(member)
    copies = {key.removeprefix("original_") for key in found}
    if any(key in found for key in _TIMES) or _is_copy_without_time(sent):
        copies |= _COPIED_TIMES
    if not copies:
        return list(sent)
    chosen = {key: _first(several) if key in _TIMES else several[-1] for key, several in found.items()}
    return [
        member
        for member in sent
        if member.key not in copies and (member.key not in chosen or member is chosen[member.key])
    ]


def _is_copy_without_time(sent: Sequence[Member]) -> bool:
    """Say whether a server has stored this import; the importer itself sends no offset."""
    by_key = {member.key: member.value for member in sent}
    return "offset" in by_key and is_import(by_key.get("source", b"null"))


def _first(times: Sequence[Member]) -> Member:
    """Return the earliest of several times; the last one if none of them can be read."""
    known = [(at_ms, member) for member in times if (at_ms := instant_ms(member.value)) is not None]
    return min(known, key=lambda pair: pair[0])[1] if known else times[-1]


class _Source(msgspec.Struct):
    record_id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_SOURCE = msgspec.json.Decoder(_Source)


def is_import(source: bytes | msgspec.Raw) -> bool:
    """Say whether an event's ``source`` names the record of another tool that it was made from."""
    written = bytes(source)
    if written[:1] != b"{":
        return False
    try:
        return lenient.decode(_SOURCE, written).record_id is not msgspec.UNSET
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return False


def instant_ms(raw: bytes | msgspec.Raw) -> int | None:
    """Return the milliseconds of a time in JSON, None if it is not one."""
    text = bytes(raw)
    if text[:1] != b'"':
        return None
    try:
        return parse_rfc3339(msgspec.json.decode(text, type=str))
    except msgspec.MsgspecError:
        return None


def happened_ms(stored: Iterable[Member]) -> int | None:
    """Return when an event happened according to its original members, None if they do not say.

    Events of Managed Agents have no ``created_at``, only a ``processed_at``.
    """
    found: dict[str, int] = {}
    for member in stored:
        if member.key in _TIMES and (at_ms := instant_ms(member.value)) is not None:
            found[member.key] = min(at_ms, found.get(member.key, at_ms))
    return next((found[name] for name in _TIMES if name in found), None)
