"""Recovers the salt of a segment whose header is damaged from the segment's frames.

Every frame begins with the low half of the salt. The high half follows from the checksums: a CRC32 is linear,
so the 32 bits that give a stated checksum can be computed. A salt is accepted only if something else confirms
it: the header's own checksum, or a second frame.

Storing the salt a second time, after the header or in another file, would not be simpler. Segments of version
1 have it once and must stay repairable, so the computation would remain, beside a second format.
"""

import struct
from collections.abc import Callable
from itertools import islice

import google_crc32c

from durable_sessions.log.disk import File
from durable_sessions.log.frame import FRAME_BYTES, HEADER_BYTES, FrameCodec, SegmentHeader

SEARCHED_BYTES = 64 * 1024 * 1024
"""How much of a segment is searched for frames that reveal the salt."""
FRAMES_TRIED_MAX = 16
"""How many frames are tried before the salt counts as lost."""

_HALF = struct.Struct("<I")
_SALT = struct.Struct("<Q")
_CHECKSUM_BYTE = 12
_SALT_BYTE = 24
_extend: Callable[[int, bytes], int] = google_crc32c.extend


def find_salt(file: File, base: int, size: int) -> int | None:
    """Return the salt of the segment that begins at the address ``base``; None if it cannot be recovered."""
    head = file.read(HEADER_BYTES + _HALF.size, 0)
    if len(head) < HEADER_BYTES + _HALF.size:
        return None
    data = file.read(min(size - HEADER_BYTES, SEARCHED_BYTES), HEADER_BYTES)
    (stated,) = _SALT.unpack_from(head, _SALT_BYTE)
    if _verified(data, base, stated) > 0:  # the header is damaged elsewhere
        return int(stated)
    # The low half is in the header and at the start of every frame; the damage may have hit either copy.
    for low in {_HALF.unpack_from(head, _SALT_BYTE)[0], _HALF.unpack_from(head, HEADER_BYTES)[0]}:
        for index in islice(FrameCodec(low).candidates(data, base), FRAMES_TRIED_MAX):
            high = _high_half(_frame(data, index), low)
            if high is None:
                continue
            salt = high << 32 | low
            header = SegmentHeader(base, salt).encode()
            confirmed = header[_CHECKSUM_BYTE:][:4] == head[_CHECKSUM_BYTE:][:4]
            if confirmed or _verified(data, base, salt) > 1:
                return int(salt)
    return None


def _verified(data: bytes, base: int, salt: int) -> int:
    """Return how many frames are valid with this salt; counting stops at two, which is proof enough."""
    codec = FrameCodec(salt)
    count = 0
    for index in codec.candidates(data, base):
        count += len(codec.decode(_frame(data, index), base + index)[0])
        if count > 1:
            break
    return count


def _frame(data: bytes, index: int) -> bytes:
    """Return the bytes of the frame whose header lies at ``index``, fewer if it is not whole."""
    (length,) = _HALF.unpack_from(data, index + _HALF.size)
    return data[index : index + FRAME_BYTES + length]


def _high_half(frame: bytes, low: int) -> int | None:
    """Return the high half of the salt with which a frame is valid."""
    _, length, _, checksum = struct.unpack_from("<IIQI", frame)
    if len(frame) != FRAME_BYTES + length:
        return None
    summed = frame[4:16] + frame[FRAME_BYTES:]

    def checksum_with(high: int) -> int:
        return _extend(_extend(0, _SALT.pack(high << 32 | low)), summed)

    return _solved(checksum, checksum_with)


def _solved(wanted: int, value: Callable[[int], int]) -> int | None:
    """Return the 32 bits for which an affine function has a value, by elimination."""
    # value(x) ^ value(0) is linear over GF(2): it is the XOR of the vectors of the bits that are set in x. So
    # Gaussian elimination on 32 vectors finds x, where trying all would take four billion checksums.
    zero = value(0)
    pivots: dict[int, tuple[int, int]] = {}
    for bit in range(32):
        vector, bits = _reduced(value(1 << bit) ^ zero, 1 << bit, pivots)
        if vector:
            pivots[vector.bit_length()] = vector, bits
    vector, bits = _reduced(wanted ^ zero, 0, pivots)
    return None if vector else bits


def _reduced(vector: int, bits: int, pivots: dict[int, tuple[int, int]]) -> tuple[int, int]:
    while vector.bit_length() in pivots:
        of, with_bits = pivots[vector.bit_length()]
        vector, bits = vector ^ of, bits ^ with_bits
    return vector, bits
