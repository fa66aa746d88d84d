"""Reads a log as it is on disk, without changing it; damage is reported instead of raised.

The rules are those of opening (``recovery.py``), but every segment is read to its end, and after damage
reading continues at the next valid frame.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from durable_sessions.log import NEW_LOG_GAP
from durable_sessions.log.disk import REAL_DISK, Disk, File
from durable_sessions.log.frame import FRAME_BYTES, HEADER_BYTES, VERSION, BadHeaderError
from durable_sessions.log.salt import find_salt
from durable_sessions.log.segment import PIECE_BYTES, SEGMENT_NAME, Segment, read_batches, read_header

REPAIR_NAME = "9" * 20 + ".log"
"""A file that is in the directory while a repair is under way. No segment has this name, since no address is
that large. Recovery takes it for a damaged segment, so no server starts before the repair is complete."""


class Frame(NamedTuple):
    """A valid frame: where it begins in its file, and its batch."""

    segment: Segment
    offset: int
    position: int
    payload: bytes


class Damage(NamedTuple):
    """Bytes of a file that are not as they were written, or that are missing after it."""

    path: Path
    byte: int
    length: int
    problem: str


@dataclass(slots=True)
class ScannedSegment:
    """A segment file; ``segment`` is None if nothing of it can be read."""

    path: Path
    size: int
    segment: Segment | None = None
    header_damage: Damage | None = None
    version: int = VERSION
    frames: int = 0

    @property
    def base(self) -> int:
        """The address at which the segment begins."""
        return int(self.path.stem) if self.segment is None else self.segment.base


@dataclass(slots=True)
class LogScan:
    """One pass over a log; ``damage`` and ``torn`` are complete when :meth:`frames` has ended."""

    files: list[ScannedSegment]
    disk: Disk
    damage: list[Damage] = field(default_factory=list)
    torn: Damage | None = None

    @property
    def begins_after(self) -> int:
        """The address at which the oldest segment begins."""
        return self.files[0].base if self.files else 0

    def frames(self) -> Iterator[Frame]:
        """Yield every valid frame in order."""
        before: ScannedSegment | None = None
        for found in self.files:
            newest = found is self.files[-1]
            self._check_place(before, found)
            if found.header_damage is not None and not (newest and found.size <= HEADER_BYTES):
                self.damage.append(found.header_damage)
            yield from self._frames_of(found, newest=newest)
            if newest and not found.frames and before is None and 0 < found.base < NEW_LOG_GAP:
                problem = "it holds no batch, and the segments before it are missing"
                self.damage.append(Damage(found.path, 0, found.size, problem))
            before = found

    def _check_place(self, before: ScannedSegment | None, found: ScannedSegment) -> None:
        if before is None or before.segment is None:
            return
        end, segment = before.segment.end, before.segment
        if end != found.base:
            byte = min(segment.size, segment.offset(found.base))
            missing = f"{found.base - end} bytes are missing" if found.base > end else "the two overlap"
            problem = f"it ends at address {end}, but {found.path.name} is the next file: {missing}"
            self.damage.append(Damage(segment.path, byte, max(found.base - end, 0), problem))

    def _frames_of(self, found: ScannedSegment, *, newest: bool) -> Iterator[Frame]:
        segment = found.segment
        if segment is None:
            if newest and found.size <= HEADER_BYTES:
                self.torn = Damage(found.path, 0, found.size, "its creation was not completed")
            return
        with closing(self.disk.open(segment.path)) as file:
            offset = HEADER_BYTES
            while offset < segment.size:
                batches, end = read_batches(file, segment, offset)
                for position, payload in batches:
                    found.frames += 1
                    yield Frame(segment, segment.offset(position) - FRAME_BYTES, position, payload)
                offset = end
                if not batches:
                    offset = _next_frame(file, segment, offset + 1) or segment.size
                    self._note_broken(segment, end, offset, newest=newest)

    def _note_broken(self, segment: Segment, byte: int, end: int, *, newest: bool) -> None:
        if newest and end == segment.size:
            self.torn = Damage(segment.path, byte, end - byte, "the last frame is torn")
        else:
            self.damage.append(Damage(segment.path, byte, end - byte, "a frame is broken"))


def scan(directory: Path, disk: Disk = REAL_DISK) -> LogScan:
    """Return a scan of the log in ``directory`` with its headers read; empty if there is none."""
    if not directory.is_dir():
        return LogScan([], disk)
    names = {name: size for name, size in disk.sizes(directory).items() if SEGMENT_NAME.fullmatch(name)}
    names.pop(REPAIR_NAME, None)
    files = []
    for name, size in names.items():
        try:
            files.append(_open(disk, directory / name, size))
        except FileNotFoundError:
            continue  # a running server has trimmed it
    return LogScan(sorted(files, key=lambda found: found.base), disk)


def _open(disk: Disk, path: Path, size: int) -> ScannedSegment:
    base = int(path.stem)
    with closing(disk.open(path)) as file:
        try:
            header = read_header(file)
        except BadHeaderError:
            salt = find_salt(file, base, size)
            segment = None if salt is None else Segment(path, base, salt, size)
            length = size if segment is None else HEADER_BYTES
            return ScannedSegment(
                path, size, segment, Damage(path, 0, length, "the segment header is broken")
            )
    if header.version != VERSION:
        problem = f"it has format version {header.version}; this program reads version {VERSION}"
        return ScannedSegment(path, size, None, Damage(path, 8, size, problem), header.version)
    misnamed = header.problem_with_name(base)
    damage = None if misnamed is None else Damage(path, 16, 8, misnamed)
    return ScannedSegment(path, size, Segment(path, header.base, header.salt, size), damage)


def _next_frame(file: File, segment: Segment, offset: int) -> int | None:
    """Return where the next valid frame begins, None if there is none."""
    while offset + FRAME_BYTES <= segment.size:
        data = file.read(min(PIECE_BYTES, segment.size - offset), offset)
        for index in segment.codec.candidates(data, segment.address(offset)):
            if read_batches(file, segment, offset + index)[0]:
                return offset + index
        # The overlap lets a header be seen that lies across the edge of two pieces.
        offset += len(data) - FRAME_BYTES + 1
    return None
