"""The few members of an event that get columns of their own."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from durable_sessions import lenient


class _Envelope(msgspec.Struct, gc=False):
    """The members that are looked for, all strings as they nearly always are."""

    id: str | None = None
    type: str | None = None
    name: str | None = None
    actor: str | None = None


class _OddEnvelope(msgspec.Struct):
    """The same members, of any type, not looked into."""

    id: msgspec.Raw = lenient.NULL
    type: msgspec.Raw = lenient.NULL
    name: msgspec.Raw = lenient.NULL
    actor: msgspec.Raw = lenient.NULL


class EnvelopeColumns(NamedTuple):
    """One value per message, None where the message has no such member, or one that is not a string."""

    id: list[str | None]
    type: list[str | None]
    name: list[str | None]
    actor: list[str | None]


_decode_list = msgspec.json.Decoder(list[_Envelope]).decode
_decode_odd = msgspec.json.Decoder(_OddEnvelope).decode


def envelope_columns(wire: bytes, lengths: Iterable[int]) -> EnvelopeColumns:
    """Return the columns of the messages in ``value,value,``; never fails, whatever they are."""
    # All messages at once is many times faster than one by one, and only a few are ever odd.
    try:
        found = _decode_list(b"".join((b"[", memoryview(wire)[:-1], b"]")))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        found = []
        begin = 0
        for length in lengths:
            found.append(_envelope(wire[begin : begin + length - 1]))
            begin += length
    return EnvelopeColumns(
        [e.id for e in found], [e.type for e in found], [e.name for e in found], [e.actor for e in found]
    )


def _envelope(message: bytes) -> _Envelope:
    r"""Look at one message of which something is odd.

    An escape such as ``\ud800`` without its partner is allowed in JSON, but the fast decoder refuses
    it, so that such a message is given to one that does not. A member with such text cannot be
    stored and counts as absent.
    """
    try:
        odd = _decode_odd(message)
        return _Envelope(*map(lenient.text, (odd.id, odd.type, odd.name, odd.actor)))
    except (msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return _Envelope()
    except msgspec.DecodeError:
        return _decode_slowly(message)


def _decode_slowly(message: bytes) -> _Envelope:
    try:
        found = lenient.loads(message)
    except (ValueError, RecursionError):
        return _Envelope()
    if not isinstance(found, dict):
        return _Envelope()
    return _Envelope(*(_text(found.get(name)) for name in ("id", "type", "name", "actor")))


def _text(value: object) -> str | None:
    if not isinstance(value, str):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value
