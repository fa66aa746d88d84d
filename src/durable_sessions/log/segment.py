"""One segment file: what is known of it, reading its frames, and appending to a new one."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from durable_sessions.log.disk import Disk, File, write_all
from durable_sessions.log.frame import (
    FRAME_BYTES,
    HEADER_BYTES,
    Batch,
    FrameCodec,
    SegmentHeader,
    stated_checksum,
)

PIECE_BYTES = 4 * 1024 * 1024
"""How much is read and decoded at a time; a larger frame is read whole."""


SEGMENT_NAME = re.compile(r"\d{20}\.log")


@dataclass(slots=True)
class Segment:
    """A segment file and its durable size.

    An address counts the bytes of all segments after their headers, since the first ever
    written; it never repeats. A frame's position is the address of its payload.
    """

    path: Path
    base: int
    salt: int
    size: int
    codec: FrameCodec = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        self.codec = FrameCodec(self.salt)

    @property
    def end(self) -> int:
        """The address after the last durable byte."""
        return self.address(self.size)

    def address(self, offset: int) -> int:
        """Return the address of the byte at ``offset`` in the file."""
        return self.base + offset - HEADER_BYTES

    def offset(self, address: int) -> int:
        """Return where in the file the byte with this address is."""
        return address - self.base + HEADER_BYTES


def segment_name(base: int) -> str:
    """Return the file name of the segment that begins at ``base``; names sort like bases."""
    return f"{base:020d}.log"


def read_batches(file: File, segment: Segment, offset: int) -> tuple[list[Batch], int]:
    """Return some of the batches from ``offset`` on, verified, and the offset after them.

    No batches mean that there is no whole, valid frame at ``offset``.
    """
    address, left = segment.address(offset), segment.size - offset
    data = file.read(min(PIECE_BYTES, left), offset)
    batches, used = segment.codec.decode(data, address)
    if not batches:
        # The piece may hold only a part of a large frame. Its length is believed only if the frame would fit
        # into the file, so that a damaged length does not cause a huge read.
        length = segment.codec.payload_length(data, address)
        if length is not None and len(data) < FRAME_BYTES + length <= left:
            batches, used = segment.codec.decode(file.read(FRAME_BYTES + length, offset), address)
    return batches, offset + used


def read_header(file: File) -> SegmentHeader:
    """Return the header of a segment; BadHeaderError if it is broken."""
    return SegmentHeader.decode(file.read(HEADER_BYTES, 0))


def frame_checksum(file: File, segment: Segment, position: int) -> int | None:
    """Return the checksum of the valid frame at a position, None if there is none."""
    offset = segment.offset(position) - FRAME_BYTES
    if offset < HEADER_BYTES or segment.offset(position) > segment.size:
        return None
    batches, _ = read_batches(file, segment, offset)
    return stated_checksum(file.read(FRAME_BYTES, offset)) if batches else None


class ActiveSegment:
    """The segment that is being written; each frame is durable before the next is begun."""

    def __init__(self, segment: Segment, file: File) -> None:
        self.segment = segment
        self._file = file

    @classmethod
    def create(cls, disk: Disk, directory: Path, base: int, salt: int) -> "ActiveSegment":
        """Create a segment without frames and make it durable."""
        path = directory / segment_name(base)
        file = disk.create(path)
        try:
            # The header is synced before any frame is written. So a file that is longer than its
            # header once had a good one, and a bad one in it is damage, not a torn creation.
            write_all(file, SegmentHeader(base, salt).encode(), 0)
            file.sync()
            disk.sync_directory(directory)
        except BaseException:
            file.close()
            raise
        return cls(Segment(path, base, salt, HEADER_BYTES), file)

    def append(self, payload: bytes) -> int:
        """Make ``payload`` durable and return its position: one write, one sync."""
        segment = self.segment
        frame = segment.codec.encode(segment.end, payload)
        write_all(self._file, frame, segment.size)
        self._file.sync()
        # Only after the sync: readers in other threads take the size for what is durable.
        segment.size += len(frame)
        return segment.end - len(payload)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
