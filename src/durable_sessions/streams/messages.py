"""JSON bodies cut into messages, byte for byte as they came.

On the wire and in the log a run of messages is ``value,value,``: a read is ``[``, a slice of
that without its last comma, and ``]``. Nothing is ever decoded and encoded again.
"""

import re
from dataclasses import dataclass

import msgspec

from durable_sessions.errors import EmptyBodyError, InvalidJsonError, InvalidRequestError
from durable_sessions.limits import Limits

_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_VALUE = msgspec.json.Decoder(msgspec.Raw)
_SPACE = b" \t\n\r"
_STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_ESCAPE = re.compile(rb"\\(?:u[dD][89a-fA-F][0-9a-fA-F]{2}|.)", re.DOTALL)


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


def parse(body: bytes, *, json: bool, limits: Limits) -> Payload:
    """Return the payload of a body; an empty JSON array gives an empty payload."""
    if not json:
        return Payload(body)
    values = _values(body, limits)
    if len(values) == 1:
        return Payload(values[0] + b",", (len(values[0]) + 1,))
    if not values:
        return EMPTY
    return Payload(b",".join(values) + b",", tuple([len(value) + 1 for value in values]))


def require_some(payload: Payload) -> Payload:
    """Return the payload, or refuse it if it would append nothing."""
    if not payload.data:
        raise EmptyBodyError
    return payload


def _values(body: bytes, limits: Limits) -> list[bytes]:
    _check_utf8(body)
    is_array = body.lstrip(_SPACE)[:1] == b"["
    try:
        found = _ARRAY.decode(body) if is_array else [_VALUE.decode(body)]
        values = [bytes(value) for value in found]
    except RecursionError:
        raise _too_deep(limits) from None
    except msgspec.DecodeError as error:
        values = _values_with_lone_surrogates(body, is_array=is_array, error=error)
    if len(values) > limits.append_messages_max:
        raise InvalidRequestError(
            problem=f"The body holds {len(values)} messages; send at most {limits.append_messages_max}."
        )
    for value in values:
        if value.count(b"[") + value.count(b"{") > limits.json_depth_max:
            _check_depth(value, limits)
    return values


def _check_utf8(body: bytes) -> None:
    try:
        body.isascii() or body.decode()
    except UnicodeDecodeError as error:
        raise InvalidJsonError(problem=f"byte {error.start} is not UTF-8") from None


def _values_with_lone_surrogates(body: bytes, *, is_array: bool, error: msgspec.DecodeError) -> list[bytes]:
    r"""Cut a body again whose only fault may be an escape such as ``\ud800`` without its partner.

    RFC 8259 allows those and we keep them, but the decoder refuses them. So a copy is cut in
    which each surrogate escape is replaced by another escape of the same length.
    """
    shadow = _ESCAPE.sub(lambda m: m[0] if len(m[0]) == 2 else b"\\u0020", body)
    if shadow == body:
        raise InvalidJsonError(problem=str(error)) from None
    try:
        found = _ARRAY.decode(shadow) if is_array else [_VALUE.decode(shadow)]
    except msgspec.DecodeError as second:
        raise InvalidJsonError(problem=str(second)) from None
    except RecursionError:
        raise InvalidJsonError(problem="it nests too deeply") from None
    values = []
    at = body.index(b"[") + 1 if is_array else 0
    for raw in found:
        while body[at] in b" \t\n\r,":
            at += 1
        length = len(bytes(raw))
        values.append(body[at : at + length])
        at += length
    return values


def _check_depth(value: bytes, limits: Limits) -> None:
    depth = 0
    for bracket in _BRACKET.findall(_STRING.sub(b"", value)):
        depth += 1 if bracket in b"[{" else -1
        if depth > limits.json_depth_max:
            raise _too_deep(limits)


def _too_deep(limits: Limits) -> InvalidJsonError:
    return InvalidJsonError(problem=f"it nests deeper than {limits.json_depth_max} levels")
