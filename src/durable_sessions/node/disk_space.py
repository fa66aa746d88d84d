"""Monitors free disk space: derived data stops growing before the log would have to stop."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import structlog

from durable_sessions.limits import MIB, Limits

logger = structlog.get_logger(__name__)

_MARK_BYTES_MAX = 256 * MIB
_MARK_SHARE = 0.01
_RESUMED_AT = 1.25
"""Hysteresis: how far above the mark space counts as sufficient again."""


class Space(NamedTuple):
    """The space on the disk under a directory, in bytes."""

    size: int
    free: int


def space_of(directory: Path) -> Space:
    """Return how large a disk is and how much of it is free for this process."""
    found = os.statvfs(directory)
    return Space(found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize)


def low_mark(size: int, setting: int) -> int:
    """Return below how many free bytes space is low; by default 1 % of the disk, at most 256 MiB."""
    return setting or min(int(size * _MARK_SHARE), _MARK_BYTES_MAX)


def shortage(directory: Path, setting: int) -> str | None:
    """Return why what can be made again must not be written to a disk now; None if it may."""
    space = space_of(directory)
    is_low = space.free < low_mark(space.size, setting)
    return f"only {space.free:,} bytes are free on its disk" if is_low else None


class DiskSpace:
    """Checks the disk periodically; ``changed`` is called with the result."""

    def __init__(
        self, directory: Path, setting: int, limits: Limits, changed: Callable[[Space, int, bool], None]
    ) -> None:
        self._directory = directory
        self._setting = setting
        self._look_seconds = limits.disk_look_seconds
        self._changed = changed
        self._is_low = False

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(self._look_seconds)

    async def check(self) -> None:
        """Measure the free space, and report it."""
        space = await asyncio.to_thread(space_of, self._directory)
        mark = low_mark(space.size, self._setting)
        is_low = space.free < mark * (_RESUMED_AT if self._is_low else 1)
        if is_low != self._is_low:
            tell = logger.warning if is_low else logger.info
            tell("disk_space_low" if is_low else "disk_space_enough", free_bytes=space.free, mark_bytes=mark)
        self._is_low = is_low
        self._changed(space, mark, is_low)
