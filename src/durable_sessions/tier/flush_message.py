"""What the server and its flush process say to each other: parts of bytes, with their lengths in front.

Large parts are never put together with others: writing and reading one holds no lock of the interpreter.
"""

import struct
from collections.abc import Sequence
from typing import IO

import msgspec

from durable_sessions.tier.flush_contents import FlushContents

_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")


class Wanted(msgspec.Struct, frozen=True):
    """What to fold the batches that follow onto: a catalog, and the number of the next stream.

    ``urgent`` asks for the priority of the server; else everything else on the machine comes first.
    """

    catalog: str
    next_stream: int
    urgent: bool


_encode = msgspec.msgpack.Encoder().encode
_wanted = msgspec.msgpack.Decoder(Wanted).decode
_contents = msgspec.msgpack.Decoder(FlushContents).decode


def send(file: IO[bytes], parts: Sequence[bytes]) -> None:
    """Write one message, and wait until it is taken."""
    lengths = b"".join(_LENGTH.pack(len(part)) for part in parts)
    file.write(_COUNT.pack(len(parts)) + lengths)
    for part in parts:
        file.write(part)
    file.flush()


def receive(file: IO[bytes]) -> list[bytes]:
    """Wait for one message and return its parts; EOFError if the other side has ended."""
    (count,) = _COUNT.unpack(_exactly(file, _COUNT.size))
    lengths = [length for (length,) in _LENGTH.iter_unpack(_exactly(file, count * _LENGTH.size))]
    return [_exactly(file, length) for length in lengths]


def _exactly(file: IO[bytes], length: int) -> bytes:
    data = file.read(length)
    if len(data) < length:
        raise EOFError("it ended")
    return data


def request(wanted: Wanted, batches: Sequence[bytes]) -> list[bytes]:
    """Return the parts of a request."""
    return [_encode(wanted), *batches]


def requested(parts: Sequence[bytes]) -> tuple[Wanted, Sequence[bytes]]:
    """Return what :func:`request` was given."""
    return _wanted(parts[0]), parts[1:]


def answer(contents: FlushContents) -> list[bytes]:
    """Return the parts of an answer: the objects are parts of their own."""
    bare = msgspec.structs.replace(
        contents,
        segments=[msgspec.structs.replace(one, data=b"") for one in contents.segments],
        checkpoint=msgspec.structs.replace(contents.checkpoint, data=b""),
    )
    return [_encode(bare), contents.checkpoint.data, *(one.data for one in contents.segments)]


def answered(parts: Sequence[bytes]) -> FlushContents:
    """Return what :func:`answer` was given."""
    bare, checkpoint, *segments = parts
    contents = _contents(bare)
    return msgspec.structs.replace(
        contents,
        segments=[
            msgspec.structs.replace(one, data=data)
            for one, data in zip(contents.segments, segments, strict=True)
        ],
        checkpoint=msgspec.structs.replace(contents.checkpoint, data=checkpoint),
    )
