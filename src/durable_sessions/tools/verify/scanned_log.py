"""A log as it is on disk, with its lineage."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from durable_sessions.log.disk import REAL_DISK
from durable_sessions.log.lineage import Lineage, read_lineage
from durable_sessions.log.scan import Frame, LogScan, scan
from durable_sessions.log.segment import frame_checksum


class ScannedLog:
    """One pass over the log of a stopped server; nothing is changed."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.scan: LogScan = scan(directory)
        self.batches = sum(1 for _ in self.scan.frames())
        known = read_lineage(REAL_DISK, directory) if directory.is_dir() else Lineage()
        self.lineage, self.intended = known

    @property
    def location(self) -> str:
        """The directory."""
        return str(self.directory)

    @property
    def begins_after(self) -> int:
        """The address at which the oldest segment begins."""
        return self.scan.begins_after

    @property
    def ends_at(self) -> int | None:
        """The address at which the log ends, without a torn tail; None without a batch."""
        return log_end(self.scan) if self.batches else None

    async def checksum(self, position: int) -> int | None:
        """Return the checksum of the valid frame at a position, None if there is none."""
        for found in self.scan.files:
            segment = found.segment
            if segment is not None and segment.base < position <= segment.end:
                with closing(REAL_DISK.open(segment.path)) as file:
                    return frame_checksum(file, segment, position)
        return None

    def lost_at(self, position: int) -> bool:
        """Say whether the frame at a position was damaged, or its file is missing."""
        for damage in (*self.scan.damage, *filter(None, [self.scan.torn])):
            for found in self.scan.files:
                if found.path == damage.path and found.segment is not None:
                    at = found.segment.offset(position)
                    if damage.byte < at <= damage.byte + max(damage.length, 1):
                        return True
        covered = [found for found in self.scan.files if found.segment is not None]
        return not any(found.base < position <= found.segment.end for found in covered if found.segment)

    def frames_after(self, position: int) -> Iterator[Frame]:
        """Yield every valid frame after a position."""
        return (frame for frame in scan(self.directory).frames() if frame.position > position)


def log_end(log: LogScan) -> int:
    """Return the address at which the log ends, without a torn tail."""
    ends = [found.segment.end for found in log.files if found.segment is not None and found.frames]
    if not ends:
        return 0
    newest = log.files[-1].segment
    if log.torn is not None and newest is not None and log.torn.path == newest.path:
        return max([newest.address(log.torn.byte), *ends[:-1]])
    return max(ends)
