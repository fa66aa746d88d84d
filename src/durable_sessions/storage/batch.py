"""The payload of one log frame: effects in order, each with its length in front."""

import struct
from collections.abc import Iterator

from durable_sessions.streams import effects
from durable_sessions.streams.effects import Effect

_LENGTH = struct.Struct("<I")


def encode(effect: Effect) -> bytes:
    """Return an effect as encoded in a batch, including its length prefix."""
    body = effects.encode(effect)
    return _LENGTH.pack(len(body)) + body


def decode_one(encoded: bytes) -> Effect:
    """Return the effect that :func:`encode` was given."""
    effect: Effect = effects.decode(memoryview(encoded)[_LENGTH.size :])
    return effect


def effects_of(batch: bytes) -> Iterator[Effect]:
    """Yield each effect of a batch."""
    view = memoryview(batch)
    at = 0
    while at < len(batch):
        begin = at + _LENGTH.size
        at = begin + _LENGTH.unpack_from(batch, at)[0]
        yield effects.decode(view[begin:at])


def decode(batch: bytes) -> Iterator[tuple[Effect, int, bytes]]:
    """Yield each effect of a batch with the offset and the bytes of its encoding."""
    at = 0
    while at < len(batch):
        (length,) = _LENGTH.unpack_from(batch, at)
        encoded = batch[at : at + _LENGTH.size + length]
        yield decode_one(encoded), at, encoded
        at += len(encoded)
