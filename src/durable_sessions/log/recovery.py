"""Opening a log: a torn end is cut, damage is refused, and what is left is made durable.

A frame is written only after the sync of the one before it has returned, and a segment is
created only after the sync of the last frame before it. So every frame and every segment
proves all that lies before it, and at most one frame, the very last, can be torn.
"""

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from durable_sessions.errors import LogDamagedError, LogVersionError
from durable_sessions.log import NEW_LOG_GAP
from durable_sessions.log.disk import Disk, File, write_all
from durable_sessions.log.frame import FRAME_BYTES, HEADER_BYTES, VERSION, BadHeaderError
from durable_sessions.log.segment import PIECE_BYTES, SEGMENT_NAME, Segment, read_batches, read_header

_BASE_BYTE = 16


def recover(disk: Disk, directory: Path) -> tuple[Segment, ...]:
    """Return the segments that hold batches, all of them durable.

    Damage raises before anything is changed on disk. Frames of earlier segments are not read
    here; replay verifies them.
    """
    segments = _load(disk, directory)
    if not segments:
        return ()
    newest = segments[-1]
    with closing(disk.open(newest.path, writable=True)) as file:
        scan = _scan(file, newest)
        # Only the very last frame can be torn. A valid frame after a broken one means that durable bytes have
        # changed, and cutting there would lose acknowledged batches.
        if scan.end < newest.size and _has_frame_after(file, newest, scan.end + 1):
            raise _damaged(newest, scan.end, "a frame is broken, and a valid one follows")
        if scan.last_start is not None:
            _settle(file, newest, scan.last_start, scan.end)
    if scan.last_start is None:
        # No append to this segment has returned. It must go: the next append creates a segment with the same
        # base, and so with the same name.
        _refuse_damaged_end(disk, segments)
        disk.unlink(newest.path)
        segments.pop()
    disk.sync_directory(directory)
    return tuple(segments)


def _load(disk: Disk, directory: Path) -> list[Segment]:
    """Return all segments in order, their headers and sizes checked against each other."""
    sizes = disk.sizes(directory)
    names = sorted(name for name in sizes if SEGMENT_NAME.fullmatch(name))
    segments: list[Segment] = []
    for name in names:
        segment = _open_segment(disk, directory / name, sizes[name], newest=name == names[-1])
        if segments and segments[-1].end != segment.base:
            before = segments[-1]
            byte = min(before.size, before.offset(segment.base))
            raise _damaged(before, byte, f"it ends at address {before.end}, but {name} is the next file")
        segments.append(segment)
    return segments


def _open_segment(disk: Disk, path: Path, size: int, *, newest: bool) -> Segment:
    base = int(path.stem)
    try:
        with closing(disk.open(path)) as file:
            header = read_header(file)
    except BadHeaderError:
        if newest and size <= HEADER_BYTES:  # a crash while it was created: no frame can have followed
            return Segment(path, base, salt=0, size=HEADER_BYTES)
        raise LogDamagedError(file=str(path), byte=0, problem="the segment header is broken") from None
    if header.version != VERSION:
        raise LogVersionError(file=str(path), found=header.version, supported=VERSION)
    if (problem := header.problem_with_name(base)) is not None:
        raise LogDamagedError(file=str(path), byte=_BASE_BYTE, problem=problem)
    return Segment(path, base, header.salt, size)


@dataclass(frozen=True, slots=True)
class _Scan:
    """Where the last valid frame starts, if there is one, and where the valid frames end."""

    last_start: int | None
    end: int


def _scan(file: File, segment: Segment) -> _Scan:
    last_start, end = None, HEADER_BYTES
    while end < segment.size:
        batches, end = read_batches(file, segment, end)
        if not batches:
            break
        last_start = segment.offset(batches[-1][0]) - FRAME_BYTES
    return _Scan(last_start, end)


def _has_frame_after(file: File, segment: Segment, offset: int) -> bool:
    while offset + FRAME_BYTES <= segment.size:
        data = file.read(min(PIECE_BYTES, segment.size - offset), offset)
        for index in segment.codec.candidates(data, segment.address(offset)):
            if read_batches(file, segment, offset + index)[0]:
                return True
        # The overlap lets a header be seen that lies across the edge of two pieces.
        offset += len(data) - FRAME_BYTES + 1
    return False


def _settle(file: File, segment: Segment, last_start: int, end: int) -> None:
    """Cut what follows the last valid frame, and make that frame durable."""
    if end < segment.size:
        file.truncate(end)
        segment.size = end
    # A sync that failed in an earlier process leaves the frame readable in the page cache, clean,
    # and not on disk. Writing the same bytes again makes the pages dirty, so that the sync counts.
    write_all(file, file.read(end - last_start, last_start), last_start)
    file.sync()


def _refuse_damaged_end(disk: Disk, segments: list[Segment]) -> None:
    """Check the segment before the newest, which is about to be removed because it has no frame.

    The newest segment is the proof that the one before it is whole. Without that proof the
    next start would take damage at its end for a torn frame.
    """
    newest = segments[-1]
    if len(segments) > 1:
        before = segments[-2]
        with closing(disk.open(before.path)) as file:
            end = _scan(file, before).end
        if end < before.size:
            raise _damaged(before, end, f"a frame is broken, and {newest.path.name} follows")
    elif 0 < newest.base < NEW_LOG_GAP:  # else it may be the first of a log on a bucket that has data
        raise _damaged(newest, 0, "it holds no batch, and the segments before it are missing")


def _damaged(segment: Segment, byte: int, problem: str) -> LogDamagedError:
    return LogDamagedError(file=str(segment.path), byte=byte, problem=problem)
