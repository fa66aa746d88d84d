r"""JSON that clients may send and the decoder refuses: numbers out of range, halves such as ``\ud800``.

Both are kept in the log as they came. Whoever looks into such a value takes what it can from it: a number
that no machine type holds counts as null, half of a surrogate pair as NUL.
"""

import json
import re
from math import isinf
from typing import Any, NoReturn, TypeVar

import msgspec

T = TypeVar("T")

NULL = msgspec.Raw(b"null")
"""A JSON value that was not given."""
COUNT_MAX = 2**53 - 1
"""The largest count that is believed, and the largest sum of them: what every reader of JSON can hold."""

_DIGITS_MAX = 4_300
"""Digits of a whole number that Python reads."""
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
# Possessive, so that a value is gone over once. First all that cannot be out of range: no number, texts, and
# numbers of less than 200 digits with an exponent of less than three. Then one number that may be.
_LARGE = rb"-?(?:[0-9.]{200}|[0-9.]++[eE]\+?[0-9]{3})"
_NUMBERS = re.compile(
    rb'((?:[^"0-9-]++|"(?:[^"\\]++|\\.)*+"|(?!%b)-?[0-9.eE+-]++)*+)(-?[0-9.eE+-]++|\Z)' % _LARGE, re.DOTALL
)
_COUNT = re.compile(rb"[0-9]{1,16}")


def decode(decoder: "msgspec.json.Decoder[T]", data: bytes) -> T:
    """Return what a decoder makes of JSON, with what it refuses taken leniently."""
    try:
        return _decode(decoder, data)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        lenient = _without_lone_surrogates(data)
        if lenient == data:
            raise
        return _decode(decoder, lenient)


def loads(data: bytes | str) -> Any:
    """Return any JSON value; a number out of range is a ``msgspec.Raw``, which is encoded as it came."""
    return json.loads(data, parse_int=_whole, parse_float=_fraction, parse_constant=_refuse)


def scanner() -> json.JSONDecoder:
    """Return a decoder that takes values out of a text one by one, as :func:`loads` does."""
    return json.JSONDecoder(parse_int=_whole, parse_float=_fraction, parse_constant=_refuse)


def text(raw: msgspec.Raw | None) -> str | None:
    """Return a value that should be a text; None if it is something else."""
    data = b"" if raw is None else bytes(raw)
    return decode(_TEXT, data) if data[:1] == b'"' else None


def count(raw: msgspec.Raw | None) -> int:
    """Return a value that should be a count; zero if it is something else, or beyond belief."""
    data = b"" if raw is None else bytes(raw)
    return int(data) if _COUNT.fullmatch(data) and int(data) <= COUNT_MAX else 0


def is_in_range(number: str) -> bool:
    """Say whether a machine type holds a JSON number."""
    if number.lstrip("-").isdigit():
        return len(number) <= _DIGITS_MAX
    return not isinf(float(number))


_TEXT = msgspec.json.Decoder(str)


def _decode(decoder: "msgspec.json.Decoder[T]", data: bytes) -> T:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        if "out of range" not in str(error):
            raise
    return decoder.decode(_within_range(data))


def _whole(number: str) -> int | msgspec.Raw:
    return int(number) if is_in_range(number) else msgspec.Raw(number.encode())


def _fraction(number: str) -> float | msgspec.Raw:
    return float(number) if is_in_range(number) else msgspec.Raw(number.encode())


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _without_lone_surrogates(data: bytes) -> bytes:
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    return _ESCAPE.sub(lambda match: b"\\u0000" if match[1] else match[0], data)


def _within_range(data: bytes) -> bytes:
    return _NUMBERS.sub(lambda match: match[1] + _null_unless_in_range(match[2]), data)


def _null_unless_in_range(number: bytes) -> bytes:
    return b"null" if number and not is_in_range(number.decode()) else number
