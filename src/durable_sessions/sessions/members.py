"""The members of a JSON object, cut byte for byte.

For events that carry members which the server sets itself: those are taken out or renamed, and
all else stays as it came, duplicate keys and the spelling of numbers included.
"""

import json
import re
from collections.abc import Iterator
from typing import NamedTuple

_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_SPACE = re.compile(rb"[ \t\n\r]*")
_SCALAR = re.compile(rb"[^,\]} \t\n\r]+")
_STRUCTURE = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class Member(NamedTuple):
    """One member: its key as text, and the bytes of key and value as they stand in the object."""

    key: str
    raw_key: bytes
    value: bytes


def members(body: bytes) -> Iterator[Member]:
    """Yield the members of an object, in order. The object must be valid JSON."""
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
