"""JSON on the wire: msgspec, and the standard library for the JSON that msgspec refuses."""

import json
import math
from collections.abc import Mapping
from typing import Any

import msgspec

DIGITS_MAX = 4_300
"""Python itself parses no longer integers, since the time grows with the square of their length."""
_DECODER = msgspec.json.Decoder()


def encode(value: object) -> bytes:
    """Return a value as JSON; any Mapping becomes an object, lone surrogates are escaped.

    Raises ValueError for numbers that JSON does not have, and TypeError for what is no value of JSON.
    """
    _require_json(value)
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
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _whole(digits: str) -> float:
    """Return an integer; with more digits than Python parses it becomes the infinite float, as 1e999 does."""
    return int(digits) if len(digits) <= DIGITS_MAX else float(digits)


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is not JSON")


def _require_json(value: object, place: str = "") -> None:
    """Refuse what the encoder would change without a word: NaN to null, a set to a list, bytes to base64."""
    if isinstance(value, str | int | None):
        return
    where = f" at {place[1:]}" if place else ""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value}{where} is not JSON; give a finite number, None, or a text.")
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            if not isinstance(inner, str):
                _require_json(inner, f"{place}.{name}")
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            if not isinstance(inner, str):
                _require_json(inner, f"{place}.{number}")
    elif isinstance(value, set | frozenset):
        raise TypeError(f"A set{where} is not JSON; give a list, such as sorted(…).")
    elif isinstance(value, bytes | bytearray | memoryview):
        raise TypeError(f"Bytes{where} are not JSON; give a text, or put them into an artifact.")


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON; give mappings, lists, texts and numbers.")
