"""The frame format of a log that several processes can reach, as in ``docs/formats/shared-log.md``.

Such a log is a sequence of numbered slots, each filled once. A frame states its owner (lineage, partition,
epoch) and its place (the position before it, a checksum over all frames so far), so that a lost, duplicated,
moved or changed frame is noticed. This module does no I/O.
"""

import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import google_crc32c

from durable_sessions.errors import FrameDamagedError
from durable_sessions.log.frame import Batch

MAGIC = b"DSF1"
HEADER_BYTES = 52
PAYLOAD_BYTES_MAX = 1024 * 1024
"""How much of a batch one frame carries; a larger batch is split into parts."""

_HEADER = struct.Struct("<4sBxH16sQQIII")  # magic … length, checksum, chain
_CHECKED_BYTES, _CHAINED_BYTES = 44, 48
_LINEAGE = re.compile(r"log_[0-9a-f]{32}")
_extend: Callable[[int, bytes], int] = google_crc32c.extend


class FrameKind(IntEnum):
    """What a frame is for."""

    BATCH = 1
    PART = 2
    LAST_PART = 3
    CLAIM = 4
    PROOF = 5
    RELEASE = 6


class BadFrameError(Exception):
    """These bytes are not a frame; the message says why."""


@dataclass(frozen=True, slots=True)
class SharedFrame:
    """One frame; ``chain`` is the checksum over all frames of the log up to this one."""

    kind: FrameKind
    lineage: str
    partition: int
    epoch: int
    before: int
    payload: bytes
    chain: int

    @classmethod
    def decode(cls, data: bytes, *, verify: bool = True) -> "SharedFrame":
        """Decode a frame; whether it is in its place is checked by FrameReader."""
        if len(data) < HEADER_BYTES:
            raise BadFrameError("it is shorter than a frame's header")
        magic, kind, partition, lineage, epoch, before, length, checksum, chain = _HEADER.unpack_from(data)
        if magic != MAGIC:
            raise BadFrameError("it does not begin like a frame")
        if len(data) != HEADER_BYTES + length:
            raise BadFrameError(f"it has {len(data) - HEADER_BYTES} bytes of payload instead of {length}")
        payload = data[HEADER_BYTES:]
        if verify and checksum != _extend(_extend(0, data[:_CHECKED_BYTES]), payload):
            raise BadFrameError("its checksum is wrong")
        if kind not in FrameKind.__members__.values():
            raise BadFrameError(f"it is of kind {kind}, which this program does not know")
        return cls(FrameKind(kind), "log_" + lineage.hex(), partition, epoch, before, payload, chain)


def encode(
    kind: FrameKind, lineage: str, partition: int, epoch: int, before: int, payload: bytes, chain: int
) -> bytes:
    """Encode a frame that follows frames with the chained checksum ``chain``."""
    if not _LINEAGE.fullmatch(lineage):
        raise ValueError(f"{lineage!r} is no lineage")
    packed = _HEADER.pack(
        MAGIC, kind, partition, bytes.fromhex(lineage[4:]), epoch, before, len(payload), 0, 0
    )
    checksum = _extend(_extend(0, packed[:_CHECKED_BYTES]), payload)
    chained = packed[:_CHECKED_BYTES] + checksum.to_bytes(4, "little")
    return chained + _extend(chain, chained).to_bytes(4, "little") + payload


def split(batch: bytes, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> list[tuple[FrameKind, bytes]]:
    """Return the kinds and payloads of the frames that carry a batch."""
    if len(batch) <= payload_bytes_max:
        return [(FrameKind.BATCH, batch)]
    parts = [batch[start : start + payload_bytes_max] for start in range(0, len(batch), payload_bytes_max)]
    return [(FrameKind.PART, part) for part in parts[:-1]] + [(FrameKind.LAST_PART, parts[-1])]


class FrameReader:
    """Checks frames one after another and assembles batches.

    ``position``, ``epoch`` and ``chain`` are those of the last frame taken. The first frame follows
    ``begins_after``. In a ``trimmed`` log, the first frame's epoch and chained checksum cannot be checked and
    are trusted.
    """

    def __init__(
        self, log: str, lineage: str, partition: int, begins_after: int, *, trimmed: bool = False
    ) -> None:
        self._log = log
        self._lineage = lineage
        self._partition = partition
        self.position = begins_after
        self.epoch = 0
        self.chain = 0
        self._known = not trimmed
        self._released = False
        self._parts: list[bytes] = []

    def take(self, position: int, data: bytes) -> Batch | None:
        """Take the frame in the slot ``position``; return the batch that it completes, or None."""
        try:
            frame = SharedFrame.decode(data)
            self._check_place(frame, position, data)
            batch = self._assembled(frame, position)
        except BadFrameError as error:
            raise FrameDamagedError(log=self._log, position=position, problem=str(error)) from None
        self.position, self.chain = position, frame.chain
        self._known = True
        return batch

    def _check_place(self, frame: SharedFrame, position: int, data: bytes) -> None:
        if (frame.lineage, frame.partition) != (self._lineage, self._partition):
            raise BadFrameError(f"it belongs to partition {frame.partition} of {frame.lineage}")
        if position != self.position + 1:
            raise BadFrameError(f"it follows position {self.position}: what lies between is missing")
        if frame.before != position - 1:
            raise BadFrameError(f"it says that it lies behind position {frame.before}")
        if self._known and frame.chain != _extend(self.chain, data[:_CHAINED_BYTES]):
            raise BadFrameError("the chain of checksums is broken: a frame before it is not what it was")
        # A claim begins a new epoch. Every other frame must belong to the last claim: a frame of an older
        # epoch was written by a process that is fenced, and after a release only a claim may follow.
        if frame.kind is FrameKind.CLAIM:
            if frame.epoch != position:
                raise BadFrameError(f"it claims epoch {frame.epoch}, which is not its position")
        elif self._known and (self._released or frame.epoch != self.epoch):
            raise BadFrameError(f"it is of epoch {frame.epoch}, but the last claim is {self.epoch}")

    def _assembled(self, frame: SharedFrame, position: int) -> Batch | None:
        kind = frame.kind
        if self._parts and kind not in (FrameKind.PART, FrameKind.LAST_PART, FrameKind.CLAIM):
            raise BadFrameError("it follows parts of a batch without the last one")
        if kind is FrameKind.LAST_PART and not self._parts:
            raise BadFrameError("the parts before it are missing")
        self.epoch = frame.epoch
        self._released = kind is FrameKind.RELEASE
        if kind is FrameKind.PART:
            self._parts.append(frame.payload)
            return None
        parts, self._parts = self._parts, []  # a claim ends an incomplete batch, whose parts do not count
        if kind is FrameKind.LAST_PART:
            return position, b"".join([*parts, frame.payload])
        return (position, frame.payload) if kind is FrameKind.BATCH else None
