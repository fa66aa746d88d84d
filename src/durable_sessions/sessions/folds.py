"""Folds of sessions, made on demand: from the nearest snapshot, in short slices.

A session that nobody looks at costs nothing, and a look at any offset of a session that was folded once costs
a snapshot and the events behind it.
"""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from weakref import WeakValueDictionary

from durable_sessions.limits import Limits
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.graph.stored import happened
from durable_sessions.sessions.reading import EventReader
from durable_sessions.sessions.snapshots import SNAPSHOT_EVENTS, LineOfDescent, Snapshots
from durable_sessions.sessions.views_file import ViewsFile
from durable_sessions.storage.door import Streams, StreamView
from durable_sessions.storage.turns import Turns

_SLICE_SECONDS = 0.0005
"""An append passes the event loop a few times, and waits for a slice each time."""


class Folds:
    """Folds the sessions of a partition."""

    def __init__(
        self,
        streams: Streams,
        reader: EventReader,
        limits: Limits,
        views: ViewsFile | None = None,
        grid: int = SNAPSHOT_EVENTS,
    ) -> None:
        self._streams = streams
        self._reader = reader
        self._limits = limits
        self._turns = Turns(_SLICE_SECONDS)
        self.snapshots = Snapshots(views, limits, grid)
        self._folding: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    async def at(self, durable: StreamView, position: int) -> Fold:
        """Return the fold of the first ``position`` events of a session, which readers may share."""
        # One at a time for each session: others that look at it meanwhile find the snapshots.
        lock = self._folding.setdefault(durable.stream.id, asyncio.Lock())
        async with lock:
            return await self._fold(durable, position)

    async def _fold(self, durable: StreamView, position: int) -> Fold:
        control = Control(durable.attributes, self._limits)
        checked_from = control.core.checked_from if control.is_controlled else None
        line = self._line(durable, position)
        crossings = boundaries(self._streams, durable)
        costs = [] if control.meter is None else control.meter.cost_limits
        fold = await self._begun(line, position, crossings)
        fold.limit_cost(costs)
        start = fold.folded.position
        events = self._reader.range(durable, start, position, self._turns.begin())
        async with aclosing(events) as read:
            async for place, event in read:
                fold.step(happened(event, place, checked_from))
                if place + 1 in crossings:
                    fold.cross_fork()
                if costs:
                    fold.limit_cost(costs)
                if (place + 1) % self.snapshots.grid == 0 or place + 1 == position:
                    await self._keep(line, fold, ends=place + 1 == position)
        return fold

    async def _begun(self, line: Sequence[LineOfDescent], position: int, crossings: Sequence[int]) -> Fold:
        """Return the fold at the nearest snapshot, or at the beginning."""
        found = await self.snapshots.nearest(line, position)
        if found is None:
            fold = Fold(self._limits)
            is_across = False
        else:
            # A snapshot of a session at its own beginning was made behind the boundary.
            is_across = any(one.stream == found.stream and one.base == found.position for one in line)
            if found.fold is not None and found.position == position and line[0].stream == found.stream:
                return found.fold  # which its readers share: nobody changes what was returned
            fold = Fold.restore(found.data, self._limits)
        if fold.folded.position in crossings and not is_across:
            fold.cross_fork()
        return fold

    async def _keep(self, line: Sequence[LineOfDescent], fold: Fold, *, ends: bool) -> None:
        """Leave a snapshot with the session that has the events up to here, so that its forks share it."""
        position = fold.folded.position
        owner = next(one for one in line if one.base <= position)
        await self.snapshots.keep(owner.stream, owner.erasures, position, fold, ends=ends)

    def _line(self, durable: StreamView, position: int) -> list[LineOfDescent]:
        """Return a session and those that it inherits from, with how much counts of each."""
        line: list[LineOfDescent] = []
        holder: StreamView | None = durable
        until = position
        while holder is not None:
            base = holder.stream.base
            # A fork of a fork may begin before its source does: then it has nothing of that one.
            if base <= until:
                line.append(LineOfDescent(holder.stream.id, self._streams.erasures(holder), base, until))
            until = min(until, base)
            parent = holder.stream.parent
            holder = None if parent is None else self._streams.peek_id(parent)
        return line


def boundaries(streams: Streams, durable: StreamView) -> Sequence[int]:
    """Return where a session, and those that it inherits from, begin events of their own."""
    found: list[int] = []
    holder: StreamView | None = durable
    end = durable.tail
    while holder is not None and holder.stream.parent is not None:
        # A fork of a fork may begin before its source does: then it has nothing of that boundary.
        if holder.stream.base <= end:
            found.append(holder.stream.base)
        end = min(end, holder.stream.base)
        holder = streams.peek_id(holder.stream.parent)
    return found
