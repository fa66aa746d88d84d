"""JSON bodies cut into messages, byte for byte as they came.

On the wire and in the log a run of messages is ``value,value,``: a read is ``[``, a slice of
that without its last comma, and ``]``. Nothing is ever decoded and encoded again.
"""

import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import msgspec

from durable_sessions import json_syntax
from durable_sessions.errors import (
    DurableSessionsError,
    EmptyBodyError,
    InvalidJsonError,
    InvalidRequestError,
)
from durable_sessions.limits import Limits

_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_VALUE = msgspec.json.Decoder(msgspec.Raw)
_SPACE = b" \t\n\r"
_WINDOW_BYTES = 64 * 1024
# An opening bracket goes one level down, a closing one goes up.
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# Possessive quantifiers throughout: they never backtrack, so a hostile body is scanned only once.
# The rest of a run of backslashes, and what the last of them escapes.
_BACKSLASHES = re.compile(rb"\\*+.?", re.DOTALL)
# The escape of a surrogate, or the end, after whatever else there is.
_SURROGATE = re.compile(
    rb"((?:[^\\]++|\\(?!u[dD][89a-fA-F]).)*+)(\\u[dD][89a-fA-F][0-9a-fA-F]{2}|\Z)", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class Payload:
    """What an append adds: the bytes, and for JSON the length of each ``value,`` in them."""

    data: bytes
    lengths: tuple[int, ...] = ()

    @property
    def count(self) -> int:
        """How far the payload moves the stream's tail."""
        return len(self.lengths) or len(self.data)


EMPTY = Payload(b"")


def json_array(pieces: Sequence[memoryview]) -> bytes:
    """Return a run of messages, ``value,value,``, as the array that it is read as."""
    return b"".join((b"[", *without_end(pieces), b"]"))


def without_end(pieces: Sequence[memoryview]) -> list[memoryview]:
    """Return a run of messages without the comma behind the last one."""
    return [*pieces[:-1], pieces[-1][:-1]] if pieces else []


def parse(body: bytes, *, json: bool, limits: Limits) -> Payload:
    """Return the payload of a body; an empty JSON array gives an empty payload."""
    if not json:
        return Payload(body)
    values = split(body, limits)
    if len(values) == 1:
        return Payload(values[0] + b",", (len(values[0]) + 1,))
    if not values:
        return EMPTY
    return Payload(b",".join(values) + b",", tuple([len(value) + 1 for value in values]))


def plain(body: bytes, limits: Limits) -> bytes | None:
    """Return a body that is one flat JSON object as a message, None for any other, valid or not."""
    if not body.startswith(b"{") or not body.isascii():
        return None
    if body.count(b"{") + body.count(b"[") > limits.json_depth_max:
        return None
    try:
        return b",".join((_VALUE.decode(body), b""))
    except (msgspec.DecodeError, RecursionError):
        return None


def attempt(body: bytes, limits: Limits) -> Payload | DurableSessionsError:
    """Return the payload of a JSON body, or why there is none."""
    try:
        return parse(body, json=True, limits=limits)
    except DurableSessionsError as error:
        return error


def payload(
    parsed: Payload | DurableSessionsError | None, body: bytes, *, json: bool, limits: Limits
) -> Payload:
    """Return the payload of a body that may have been parsed before as JSON."""
    if parsed is None or not json:
        return parse(body, json=json, limits=limits)
    if isinstance(parsed, DurableSessionsError):
        raise parsed
    return parsed


def require_some(payload: Payload) -> Payload:
    """Return the payload, or refuse it if it would append nothing."""
    if not payload.data:
        raise EmptyBodyError
    return payload


def cut(wire: bytes) -> list[bytes]:
    """Return the messages in a run of them, ``value,value,``, as it is stored."""
    body = json_array([memoryview(wire)])
    try:
        return _cut(body, is_array=True)
    except msgspec.DecodeError as error:
        return _values_with_lone_surrogates(body, is_array=True, error=error)


def split(body: bytes, limits: Limits, *, levels: int = 0) -> list[bytes]:
    """Return the values of a JSON array, or the one value that a body is, byte for byte as they came.

    ``levels`` are those around the messages that do not count when their depth is checked.
    """
    _check_utf8(body)
    is_array = body.lstrip(_SPACE)[:1] == b"["
    # Counting commas is cheap, and only a body with that many can hold too many messages.
    if is_array and body.count(b",") >= limits.append_messages_max:
        _require_few(body, limits.append_messages_max)
    try:
        values = _cut(body, is_array=is_array)
    except RecursionError:
        raise too_deep(limits) from None
    except msgspec.DecodeError as error:
        values = _values_with_lone_surrogates(body, is_array=is_array, error=error)
    for value in values:
        check_depth(value, limits, levels=levels)
    return values


def check_depth(value: bytes, limits: Limits, *, levels: int = 0) -> None:
    """Refuse a message that nests too deeply."""
    depth_max = limits.json_depth_max + levels
    # With no more brackets than allowed levels it cannot nest too deeply. This is the common case.
    if value.count(b"[") + value.count(b"{") <= depth_max:
        return
    depth = 0
    for piece in _outside_of_strings(value):
        steps = array("b", piece.translate(_STEPS, _NO_BRACKETS))
        if max(accumulate(steps, initial=depth)) > depth_max:
            raise too_deep(limits)
        depth += sum(steps)


def _outside_of_strings(value: bytes) -> Iterator[bytes]:
    """Yield what of valid JSON is not in strings, a window at a time, without a step for each token."""
    at = 0
    in_string = False
    while at < len(value):
        end = at + _WINDOW_BYTES
        if value[end - 1 : end] == b"\\":  # not in the middle of an escape
            run = _BACKSLASHES.match(value, end)
            end = end if run is None else run.end()
        window = value[at:end].replace(rb"\\", b"").replace(rb"\"", b"")
        parts = window.split(b'"')
        yield b"".join(parts[in_string::2])
        in_string ^= len(parts) % 2 == 0
        at = end


def _cut(body: bytes, *, is_array: bool) -> list[bytes]:
    found = _ARRAY.decode(body) if is_array else [_VALUE.decode(body)]
    return [bytes(value) for value in found]


def _require_few(body: bytes, messages_max: int) -> None:
    """Refuse an array of too many messages before it becomes a list many times its size in memory."""
    try:
        _few(messages_max).decode(_without_surrogates(body))
    except msgspec.ValidationError:
        raise InvalidRequestError(
            problem=f"The body holds too many messages; send at most {messages_max}."
        ) from None
    except (msgspec.DecodeError, RecursionError):
        pass  # it is not JSON, and the decoder will say so


@lru_cache(maxsize=1)
def _few(messages_max: int) -> msgspec.json.Decoder[msgspec.Struct]:
    """Return a decoder of arrays that stops at the first message too many; a decoder of lists would not."""
    slots = [(f"message_{number}", msgspec.Raw, msgspec.Raw()) for number in range(messages_max)]
    return msgspec.json.Decoder(msgspec.defstruct("Few", slots, array_like=True, forbid_unknown_fields=True))


def _check_utf8(body: bytes) -> None:
    try:
        body.isascii() or body.decode()
    except UnicodeDecodeError:
        raise InvalidJsonError(problem=json_syntax.fault(body)) from None


def _without_surrogates(body: bytes) -> bytes:
    """Return a body in which each surrogate escape is replaced by another escape of the same length."""
    if rb"\u" not in body:
        return body
    return _SURROGATE.sub(lambda m: m[1] + b"\\u0020" if m[2] else m[1], body)


def _values_with_lone_surrogates(body: bytes, *, is_array: bool, error: msgspec.DecodeError) -> list[bytes]:
    r"""Cut a body again whose only fault may be an escape such as ``\ud800`` without its partner.

    RFC 8259 allows those and we keep them, but the decoder refuses them. So a copy is cut that has none.
    """
    shadow = _without_surrogates(body)
    if shadow == body:
        raise InvalidJsonError(problem=json_syntax.fault(body, error)) from None
    try:
        found = _cut(shadow, is_array=is_array)
    except msgspec.DecodeError as second:
        raise InvalidJsonError(problem=json_syntax.fault(shadow, second)) from None
    except RecursionError:
        raise InvalidJsonError(problem="it nests too deeply; send it flatter") from None
    # The copy is as long as the body at every place, so the lengths of its values are those of the body's.
    values = []
    at = body.index(b"[") + 1 if is_array else 0
    for shadowed in found:
        while body[at] in b" \t\n\r,":
            at += 1
        values.append(body[at : at + len(shadowed)])
        at += len(shadowed)
    return values


def too_deep(limits: Limits) -> InvalidJsonError:
    """Return the refusal of what nests too deeply."""
    return InvalidJsonError(problem=f"it nests deeper than {limits.json_depth_max} levels; send it flatter")
