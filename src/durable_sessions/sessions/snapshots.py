"""Snapshots of folds: the last used ones in memory, those on the grid also in ``views.sqlite``.

They are derived: without them the next look folds from the beginning again, and finds the same.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from durable_sessions.limits import Limits
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.snapshot_table import SnapshotTable
from durable_sessions.sessions.views_file import ViewsFile

SNAPSHOT_EVENTS = 4_096
"""A fold leaves a snapshot at every multiple of this: the grid."""
_FOLD_FACTOR = 6
"""A snapshot and its fold together, in objects, take about so many times the snapshot alone."""


class LineOfDescent(NamedTuple):
    """A session, or one that it inherits from: where its own events begin, and how many it has of it."""

    stream: int
    erasures: int
    base: int
    until: int


class FoundSnapshot(NamedTuple):
    """A snapshot, and the stream in the line of descent that it is of; ``fold`` if that is still there."""

    stream: int
    position: int
    data: bytes
    fold: Fold | None = None


@dataclass(frozen=True, slots=True)
class _Kept:
    erasures: int
    data: bytes
    fold: Fold | None = None

    @property
    def size(self) -> int:
        """How many bytes it takes, about."""
        return len(self.data) * (1 if self.fold is None else _FOLD_FACTOR)


class Snapshots:
    """Keeps the snapshots of a partition."""

    def __init__(self, views: ViewsFile | None, limits: Limits, grid: int = SNAPSHOT_EVENTS) -> None:
        self._views = views
        self.grid = grid
        self._table = None if views is None else SnapshotTable(views)
        self._limits = limits
        self._kept: OrderedDict[tuple[int, int], _Kept] = OrderedDict()
        self._places: dict[int, set[int]] = {}
        self.kept_bytes = 0
        """How large those in memory are."""

    async def nearest(self, line: Sequence[LineOfDescent], position: int) -> FoundSnapshot | None:
        """Return the newest snapshot of a line of descent that is not behind a position."""
        best = self._in_memory(line)
        above = 0 if best is None else best.position
        # Nothing in the file is nearer than the last place on the grid.
        if self._views is None or self._table is None or above >= position - position % self.grid:
            return best
        asked = [(one.stream, one.erasures, one.until) for one in line]
        with suppress(sqlite3.Error, OSError):  # a file that cannot be used does not stop a fold
            found = await self._views.run(self._table.nearest, asked, above)
            if found is not None:
                best = FoundSnapshot(*found)
                erasures = next(one.erasures for one in line if one.stream == best.stream)
                self._remember(best.stream, best.position, _Kept(erasures, best.data))
        return best

    async def keep(self, stream: int, erasures: int, position: int, fold: Fold, *, ends: bool) -> None:
        """Keep a snapshot of a stream that knows so many erasures; one that ``ends`` does not go on.

        The newest is kept as it is, too: most looks are at the end, and find nothing new.
        """
        data = fold.snapshot()
        is_newest = position >= max(self._places.get(stream, ()), default=0)
        on_grid = position % self.grid == 0
        if on_grid or is_newest:
            # Besides those on the grid only the newest: the one that the next look at the end needs.
            for place in [one for one in self._places.get(stream, ()) if one % self.grid and is_newest]:
                self._forget(stream, place)
            self._remember(stream, position, _Kept(erasures, data, fold if ends and is_newest else None))
        if on_grid and self._views is not None and self._table is not None:
            with suppress(sqlite3.Error, OSError):
                await self._views.run(self._table.put, stream, position, erasures, data)

    def _in_memory(self, line: Sequence[LineOfDescent]) -> FoundSnapshot | None:
        best: FoundSnapshot | None = None
        for one in line:
            # Those from before an erasure have what was erased, so that they no longer count.
            for place in list(self._places.get(one.stream, ())):
                if self._kept[one.stream, place].erasures != one.erasures:
                    self._forget(one.stream, place)
            places = [place for place in self._places.get(one.stream, ()) if place <= one.until]
            if places and (best is None or max(places) > best.position):
                place = max(places)
                kept = self._kept[one.stream, place]
                best = FoundSnapshot(one.stream, place, kept.data, kept.fold)
        if best is not None:
            self._kept.move_to_end((best.stream, best.position))
        return best

    def _remember(self, stream: int, position: int, kept: _Kept) -> None:
        self._forget(stream, position)
        self._kept[stream, position] = kept
        self._places.setdefault(stream, set()).add(position)
        self.kept_bytes += kept.size
        while self.kept_bytes > self._limits.fold_cache_bytes_max and len(self._kept) > 1:
            self._forget(*next(iter(self._kept)))

    def _forget(self, stream: int, position: int) -> None:
        kept = self._kept.pop((stream, position), None)
        if kept is not None:
            self.kept_bytes -= kept.size
            places = self._places[stream]
            places.discard(position)
            if not places:
                del self._places[stream]
