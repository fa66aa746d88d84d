"""The members of a JSON object as slices of its bytes.

For events that carry members which the server sets itself: those are removed or renamed, and all else stays
byte for byte, including duplicate keys and the spelling of numbers.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SPACE = re.compile(rb"[ \t\n\r]*")
_SCALAR = re.compile(rb"[^,\]} \t\n\r]+")
_STRUCTURE = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)


class Member(NamedTuple):
    """One member: its key as text, and the bytes of its key and value in the object."""

    key: str
    raw_key: bytes
    value: bytes


_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def members(body: bytes) -> Iterable[Member]:
    """Return the members of an object, in order. The object must be valid JSON."""
    found = _found(body)
    return _walked(body) if found is None else found


def _found(body: bytes) -> list[Member] | None:
    """Return the members with the help of the decoder, which is far quicker; None if it may hide something.

    The decoder drops earlier members with the same key, and does not show how a key was escaped. So it is
    checked that every member begins where the one before it ends.
    """
    try:
        decoded = _OBJECT.decode(body)
    except msgspec.MsgspecError:
        return None
    found: list[Member] = []
    at = body.index(b"{") + 1
    for key, raw in decoded.items():
        raw_key, value = b'"%b"' % key.encode(), bytes(raw)
        at = _skip_space(body, at)
        if not body.startswith(raw_key, at):
            return None
        at = _skip_space(body, _skip_space(body, at + len(raw_key)) + 1)  # the colon
        if not body.startswith(value, at):
            return None
        found.append(Member(key, raw_key, value))
        at = _skip_space(body, at + len(value))
        if body[at : at + 1] == b",":
            at += 1
    return found if body[at : at + 1] == b"}" else None


def _walked(body: bytes) -> Iterator[Member]:
    at = _skip_space(body, 0) + 1  # the opening brace
    while True:
        at = _skip_space(body, at)
        if body[at : at + 1] == b"}":
            return
        key = _STRING.match(body, at)
        assert key is not None, "the object is valid"
        begin = _skip_space(body, _skip_space(body, key.end()) + 1)  # the colon
        end = _value_end(body, begin)
        yield Member(_text(key[0]), key[0], body[begin:end])
        at = _skip_space(body, end)
        if body[at : at + 1] == b",":
            at += 1


def _text(raw_key: bytes) -> str:
    return raw_key[1:-1].decode() if b"\\" not in raw_key else str(json.loads(raw_key))


def _skip_space(body: bytes, at: int) -> int:
    space = _SPACE.match(body, at)
    assert space is not None
    return space.end()


def _value_end(body: bytes, begin: int) -> int:
    first = body[begin : begin + 1]
    if first in (b"{", b"["):
        depth = 0
        for token in _STRUCTURE.finditer(body, begin):
            depth += token[0] in b"[{"
            depth -= token[0] in b"]}"
            if depth == 0:
                return token.end()
    found = (_STRING if first == b'"' else _SCALAR).match(body, begin)
    assert found is not None, "the object is valid"
    return found.end()
