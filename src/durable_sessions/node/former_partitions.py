"""What a node of a cluster has derived from partitions that are another's now: removed after a while.

Views, search index and catalog have texts of events. While a node owns a partition, or keeps its catalog
ready, it removes from them what is erased; nobody does that for files which it no longer uses.
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from durable_sessions.clock import Clock
from durable_sessions.limits import Limits
from durable_sessions.node.partition_files import CATALOG_NAME, CATALOG_SUFFIXES, SEARCH_NAME, VIEWS_NAME
from durable_sessions.partition_id import PartitionId

logger = structlog.get_logger(__name__)

REMOVED_NAME = "removed"
"""Where files are on their way out: nobody looks for them there."""
_VIEWS = tuple(VIEWS_NAME + suffix for suffix in CATALOG_SUFFIXES)
_CATALOG = tuple(CATALOG_NAME + suffix for suffix in CATALOG_SUFFIXES)
_SETTLED_SECONDS = 60.0
"""After this time a node that has started owns, or follows, what it should, if nothing is wrong."""
_LOOKS = 8
"""How often this looks within ``delete_within_seconds``; files stay for half of that time."""


class FormerPartitions:
    """Removes the files of partitions that this node does not use, once they have not changed for long.

    They stay for a while, since a partition that comes back is served sooner with them. ``is_owned`` says
    that a partition is this node's, or is being taken over; ``is_followed`` that its catalog is kept ready.
    """

    def __init__(
        self,
        data: Path,
        partitions: Iterable[PartitionId],
        limits: Limits,
        clock: Clock,
        is_owned: Callable[[int], bool],
        is_followed: Callable[[int], bool],
    ) -> None:
        self._directories = {one.number: one.directory(data) for one in partitions}
        self._within_seconds = limits.delete_within_seconds
        self._clock = clock
        self._is_owned = is_owned
        self._is_followed = is_followed

    async def run(self) -> None:
        """Look from now on; the first time soon, for what was left before this process started."""
        pause_seconds = self._within_seconds / _LOOKS
        await asyncio.sleep(min(_SETTLED_SECONDS, pause_seconds))
        while True:
            try:
                for number in self._directories:
                    await self.remove(number)
            except OSError as error:
                logger.warning("former_partition_not_removed", problem=str(error))
            await asyncio.sleep(pause_seconds)

    async def remove(self, number: int) -> None:
        """Remove the files of a partition that are old enough, if this node does not use them."""
        directory = self._directories[number]
        removed = directory / REMOVED_NAME
        is_old = await asyncio.to_thread(self._are_old, directory, self._unused(number))
        # From here to the last renaming nothing else runs, so nobody begins to use the files meanwhile.
        moved = [name for name in self._unused(number) if is_old and (directory / name).exists()]
        if moved:
            removed.mkdir(mode=0o700, exist_ok=True)
            for name in moved:
                (directory / name).rename(removed / f"{os.urandom(8).hex()}-{name}")
            logger.info("former_partition_removed", directory=str(directory), files=moved)
        await asyncio.to_thread(shutil.rmtree, removed, ignore_errors=True)

    def _unused(self, number: int) -> tuple[str, ...]:
        if self._is_owned(number):
            return ()
        return (SEARCH_NAME, *_VIEWS, *(() if self._is_followed(number) else _CATALOG))

    def _are_old(self, directory: Path, names: Iterable[str]) -> bool:
        """Say whether nothing was written to these files, or below them, for long."""
        paths = [directory / name for name in names]
        below = (path for one in paths for path in (one, *one.rglob("*")))
        newest = max(map(_written_at, below), default=0.0)
        return self._clock.now_ms() / 1000 - newest >= self._within_seconds / 2


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
