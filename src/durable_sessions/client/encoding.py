"""JSON on the wire: msgspec, and the standard library for the JSON that msgspec refuses."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec

DIGITS_MAX = 4_300
_DECODER = msgspec.json.Decoder()


def encode(value: object) -> bytes:
    """Return a value as JSON; any Mapping becomes an object, lone surrogates are escaped."""
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value, enc_hook=_plain)).encode()


def decode(data: bytes) -> Any:
    """Return the value of a JSON text, or raise ValueError."""
    try:
        return _DECODER.decode(data)
    except msgspec.DecodeError:  # lone surrogates and numbers without bounds are JSON, too
        return json.loads(data.decode(), parse_int=_whole, parse_constant=_no_number)


def _whole(digits: str) -> float:
    """Return an integer; with more digits than Python parses it becomes the infinite float, as 1e999 does."""
    return int(digits) if len(digits) <= DIGITS_MAX else float(digits)


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON; give mappings, lists, texts and numbers.")
