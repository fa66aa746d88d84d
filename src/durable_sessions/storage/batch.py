"""The payload of one log frame: effects in order, each with its length in front."""

import struct
from collections.abc import Iterator

import msgspec

from durable_sessions.errors import LogEffectUnknownError
from durable_sessions.streams import effects
from durable_sessions.streams.effects import Effect

_LENGTH = struct.Struct("<I")


def encode(effect: Effect) -> bytes:
    """Return an effect as encoded in a batch, including its length prefix."""
    body = effects.encode(effect)
    return _LENGTH.pack(len(body)) + body


def decode_one(encoded: bytes) -> Effect:
    """Return the effect that :func:`encode` was given."""
    return _decoded(memoryview(encoded)[_LENGTH.size :])


def effects_of(batch: bytes) -> Iterator[Effect]:
    """Yield each effect of a batch."""
    view = memoryview(batch)
    size, prefix, length_at, decoded = len(batch), _LENGTH.size, _LENGTH.unpack_from, effects.decode
    at = 0
    try:
        while at < size:
            begin = at + prefix
            at = begin + length_at(batch, at)[0]
            yield decoded(view[begin:at])
    except msgspec.ValidationError as error:
        raise LogEffectUnknownError(problem=str(error)) from error


def decode(batch: bytes) -> Iterator[tuple[Effect, int, bytes]]:
    """Yield each effect of a batch with the offset and the bytes of its encoding."""
    at = 0
    while at < len(batch):
        (length,) = _LENGTH.unpack_from(batch, at)
        encoded = batch[at : at + _LENGTH.size + length]
        yield decode_one(encoded), at, encoded
        at += len(encoded)


def _decoded(encoded: memoryview) -> Effect:
    """Return an effect; one of a kind that only newer programs know is refused, never passed over."""
    try:
        effect: Effect = effects.decode(encoded)
    except msgspec.ValidationError as error:
        raise LogEffectUnknownError(problem=str(error)) from error
    return effect
