"""The format of a segment file, as specified in ``docs/formats/log.md``; no I/O."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import google_crc32c

Batch = tuple[int, bytes]
"""A position and the payload that begins there."""

MAGIC = b"DSESSLOG"
VERSION = 1
HEADER_BYTES = 32
FRAME_BYTES = 20
PAYLOAD_BYTES_MAX = 2**32 - 1

_HEADER = struct.Struct("<8sIIQQ")  # magic, version, checksum, base, salt
_FRAME = struct.Struct("<IIQI")  # marker, payload length, position, checksum
_SUMMED = struct.Struct("<IQ")  # what the frame's checksum covers of its header
_SALT = struct.Struct("<Q")

_extend: Callable[[int, bytes], int] = google_crc32c.extend


class BadHeaderError(Exception):
    """These bytes are not a segment header."""


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """The first bytes of a segment: the address of its first frame, and its random salt."""

    base: int
    salt: int
    version: int = VERSION

    def encode(self) -> bytes:
        """Return the header's bytes."""
        return _HEADER.pack(MAGIC, self.version, self._checksum(), self.base, self.salt)

    def problem_with_name(self, base: int) -> str | None:
        """Say that the segment does not begin where its file name says; None if it does."""
        if self.base == base:
            return None
        return f"the header says that the segment begins at {self.base}, its name says {base}"

    def _checksum(self) -> int:
        summed = _HEADER.pack(MAGIC, self.version, 0, self.base, self.salt)
        return _extend(0, summed[:12] + summed[16:])

    @classmethod
    def decode(cls, data: bytes) -> "SegmentHeader":
        """Decode a header; its version may be one that this program does not read."""
        if len(data) != HEADER_BYTES:
            raise BadHeaderError
        magic, version, checksum, base, salt = _HEADER.unpack(data)
        header = cls(base, salt, version)
        if magic != MAGIC or checksum != header._checksum():
            raise BadHeaderError
        return header


def stated_checksum(header: bytes) -> int:
    """Return the checksum that a frame's header states."""
    checksum = _FRAME.unpack(header)[3]
    assert isinstance(checksum, int)
    return checksum


class FrameCodec:
    """Encodes and decodes the frames of the segment that has this salt.

    A frame states its own position, and its marker and checksum depend on the salt, which clients never see.
    So neither a payload nor a copied frame can be mistaken for a frame at its place.
    """

    def __init__(self, salt: int) -> None:
        self._marker = salt & 0xFFFFFFFF
        self._seed = _extend(0, _SALT.pack(salt))

    def encode(self, address: int, payload: bytes) -> bytes:
        """Return the frame that carries ``payload`` and lies at ``address``."""
        assert len(payload) <= PAYLOAD_BYTES_MAX
        position = address + FRAME_BYTES
        summed = _SUMMED.pack(len(payload), position)
        checksum = _extend(_extend(self._seed, summed), payload)
        return _FRAME.pack(self._marker, len(payload), position, checksum) + payload

    def decode(self, data: bytes, address: int) -> tuple[list[Batch], int]:
        """Return the whole, valid frames that ``data`` (at ``address``) begins with, and their length."""
        batches: list[Batch] = []
        index, size, marker, seed = 0, len(data), self._marker, self._seed
        unpack_from, extend = _FRAME.unpack_from, _extend
        while index + FRAME_BYTES <= size:
            found, length, position, checksum = unpack_from(data, index)
            start = index + FRAME_BYTES
            stop = start + length
            if found != marker or position != address + start or stop > size:
                break
            payload = data[start:stop]
            if extend(extend(seed, data[index + 4 : index + 16]), payload) != checksum:
                break
            batches.append((position, payload))
            index = stop
        return batches, index

    def payload_length(self, data: bytes, address: int) -> int | None:
        """Return the payload length that the frame header ``data`` states, or None if it is not one."""
        if len(data) < FRAME_BYTES:
            return None
        marker, length, position, _ = _FRAME.unpack_from(data)
        if marker != self._marker or position != address + FRAME_BYTES:
            return None
        assert isinstance(length, int)
        return length

    def candidates(self, data: bytes, address: int) -> Iterator[int]:
        """Yield each index of ``data`` (at ``address``) where a frame header seems to be."""
        marker = self._marker.to_bytes(4, "little")
        index = data.find(marker)
        while index >= 0:
            if self.payload_length(data[index : index + FRAME_BYTES], address + index) is not None:
                yield index
            index = data.find(marker, index + 1)
