"""Reads stored events for folds: total, so that no log, however old or odd, makes a fold fail."""

import msgspec

from durable_sessions import lenient
from durable_sessions.sessions.graph import strict
from durable_sessions.sessions.graph.happened import Happened
from durable_sessions.sessions.graph.schemas import Imported
from durable_sessions.times import parse_rfc3339


class _Envelope(msgspec.Struct):
    """The members that the server has put in front, and what an import keeps of the original."""

    type: str = ""
    id: str = ""
    actor: str = ""
    created_at: str = ""
    imported: msgspec.Raw = lenient.NULL
    original_actor: msgspec.Raw = lenient.NULL


_ENVELOPE = msgspec.json.Decoder(_Envelope)
_UNREADABLE = _Envelope()


def happened(event: bytes, position: int, checked_from: int | None) -> Happened:
    """Return a stored event; ``checked_from`` is the position of the first checked one, None without any.

    Strict events below it were stored by a server that took any type, and count like untrusted imports. A
    trusted import counts as sent by who sent the original.
    """
    try:
        envelope = lenient.decode(_ENVELOPE, event)
    except (msgspec.MsgspecError, RecursionError):
        envelope = _UNREADABLE
    imported = _import(envelope)
    actor = envelope.actor
    trusted = imported != "untrusted"
    if strict.is_strict(envelope.type):
        if checked_from is None or position < checked_from:
            trusted = False
        if imported == "trusted":
            actor = lenient.text(envelope.original_actor) or actor
    at_ms = parse_rfc3339(envelope.created_at) or 0
    return Happened(envelope.type, envelope.id, position, actor, at_ms, event, imported, trusted)


def _import(envelope: _Envelope) -> Imported | None:
    said = lenient.text(envelope.imported)
    if said == "trusted":
        return "trusted"
    return "untrusted" if said == "untrusted" else None
