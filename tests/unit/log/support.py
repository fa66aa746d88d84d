"""What the tests of the file log share."""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from durable_sessions.log.disk import REAL_DISK, Disk
from durable_sessions.log.file import FileLog
from durable_sessions.log.frame import Batch

MIB = 1024 * 1024
FOLDER = Path("/log")
"""Where logs on a simulated disk live."""


@asynccontextmanager
async def opened(
    directory: Path, disk: Disk = REAL_DISK, segment_bytes_max: int = MIB
) -> AsyncIterator[FileLog]:
    salts = itertools.count(0x1234_5678_9ABC_DEF0)
    log = await FileLog.open(
        directory, disk=disk, segment_bytes_max=segment_bytes_max, salt=lambda: next(salts)
    )
    try:
        yield log
    finally:
        await log.close()


async def replayed(log: FileLog, after: int = 0) -> list[Batch]:
    return [batch async for batch in log.replay(after)]


async def written(
    directory: Path, payloads: list[bytes], disk: Disk = REAL_DISK, segment_bytes_max: int = MIB
) -> list[Batch]:
    """Append to a log, close it, and return its batches."""
    async with opened(directory, disk, segment_bytes_max) as log:
        return [(await log.append(payload), payload) for payload in payloads]


async def stored(directory: Path, disk: Disk = REAL_DISK) -> list[Batch]:
    """Open a log and return its batches."""
    async with opened(directory, disk) as log:
        return await replayed(log)


def segment_files(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.log"))


def contents(directory: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in segment_files(directory)}
