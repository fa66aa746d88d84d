"""The outlines of sessions: made block by block when somebody looks, and kept in ``views.sqlite``."""

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakValueDictionary

import msgspec

from durable_sessions.limits import Limits
from durable_sessions.sessions import event_ids, threads
from durable_sessions.sessions.outline import block as blocks
from durable_sessions.sessions.outline.block import BLOCK_EVENTS, BlockFold, EventBlock, LatePair
from durable_sessions.sessions.outline.block_summary import BlockSummary, Point, points, summary_of
from durable_sessions.sessions.outline.facts import TOOL, USER
from durable_sessions.sessions.outline.outline_tables import OutlineRow, OutlineTables
from durable_sessions.sessions.session_object import SessionCounts
from durable_sessions.sessions.store import Sessions
from durable_sessions.sessions.views_file import ViewsFile
from durable_sessions.storage.door import StreamView
from durable_sessions.storage.turns import Turns
from durable_sessions.threads import CPU
from durable_sessions.times import rfc3339

_SLICE_SECONDS = 0.002
_NAMES, _THREADS = "name", "thread"
_summary = msgspec.msgpack.Decoder(BlockSummary).decode


class _Place(NamedTuple):
    """Where a block of a session lies: the stream whose block it is, its number, and its positions.

    A full block that a fork inherits whole is its ancestor's, so that both share it.
    """

    view: StreamView
    number: int
    first: int
    stop: int
    erasures: int

    @property
    def stream(self) -> int:
        """The number of the stream under which it is kept."""
        return self.view.stream.id


class OutlinedThread(msgspec.Struct):
    """A thread of a session."""

    id: str
    name: str | None
    parent: str | None


@dataclass(slots=True)
class Overview:
    """A session's outline in short; ``summaries`` has None for blocks that are not made yet."""

    events: int
    through: int
    summaries: list[BlockSummary | None]
    points: list[Point]
    names: list[str]
    threads: list[OutlinedThread]


@dataclass(slots=True)
class ServedBlock:
    """A block as a reader of a session sees it; the tag is another one when anything in it is."""

    block: EventBlock
    tag: str


class Outlines:
    """Makes and keeps the outlines of a partition's sessions; none of a session that nobody looks at."""

    def __init__(
        self, sessions: Sessions, views: ViewsFile, limits: Limits, block_events: int = BLOCK_EVENTS
    ) -> None:
        self._sessions = sessions
        self._size = block_events
        self._streams = sessions.streams
        self._views = views
        self._tables = OutlineTables(views)
        self._limits = limits
        self._turns = Turns(_SLICE_SECONDS)
        self._making: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    async def overview(self, durable: StreamView, points_max: int) -> Overview:
        """Return the outline in short; makes a few of the blocks that are missing, the newest first."""
        events, erasures = durable.tail, self._streams.erasures(durable)
        places = self._places(durable, events)
        streams = list(dict.fromkeys(place.stream for place in places))
        rows = {(row.stream, row.block): row for row in await self._views.run(self._tables.rows, streams)}
        found: list[OutlineRow | None] = []
        for place in places:
            row = rows.get((place.stream, place.number))
            is_good = row is not None and (row.events, row.erasures) == _count(place)
            found.append(row if is_good else None)
        missing = [number for number, row in enumerate(found) if row is None]
        # A few per request, so that the first look at a long session answers soon; whoever looks again gets
        # more.
        for number in missing[::-1][: self._limits.outline_blocks_per_request_max]:
            _, found[number] = await self._made(places[number])
        late = self._late(places, await self._views.run(self._tables.late_pairs, streams), events)
        summaries = [
            None if row is None else await self._summary(durable, places[number], row, late.get(number, []))
            for number, row in enumerate(found)
        ]
        known = [one for one in summaries if one is not None]
        used = [name for one in known for name in one.names]
        names = await self._numbered(durable, _NAMES, used, erasures)
        used = [name for one in known for name in one.threads]
        named = await self._numbered(durable, _THREADS, used, erasures)
        return Overview(
            events,
            sum(places[number].stop - places[number].first for number, row in enumerate(found) if row),
            summaries,
            points(known, events, points_max),
            names,
            _threads(durable, named),
        )

    async def block(self, durable: StreamView, position: int) -> ServedBlock:
        """Return the block that holds a position, which must exist."""
        events, erasures = durable.tail, self._streams.erasures(durable)
        places = self._places(durable, events)
        place = places[position // self._size]
        count, known = _count(place)
        data = await self._views.run(self._tables.data, place.stream, place.number, count, known)
        made = blocks.decode(data) if data is not None else (await self._made(place))[0]
        streams = list(dict.fromkeys(one.stream for one in places))
        pairs = await self._views.run(self._tables.late_pairs, streams, place.number)
        late = self._late(places, pairs, events).get(place.number, [])
        made = blocks.merged(made, late, durable.stream.base)
        names = _numbers(await self._numbered(durable, _NAMES, made.names, erasures))
        named = _numbers(await self._numbered(durable, _THREADS, made.threads, erasures))
        made = blocks.renumbered(
            made,
            [names.get(one, 0) for one in made.names],
            [named.get(one, 0) for one in made.threads],
        )
        life = event_ids.tag(durable.stream)
        # Everything that the block depends on. The token is of the file: numbers of names are other ones in
        # another.
        tag = f"{life}-{place.number}-{count}-{len(late)}-{known}-{self._views.token}"
        return ServedBlock(made, tag)

    async def counts(self, sessions: Sequence[StreamView]) -> list[SessionCounts | None]:
        """Return how many prompts, tool calls and failures each has; None if its outline is not complete."""
        places = [self._places(durable, durable.tail) for durable in sessions]
        streams = list(dict.fromkeys(place.stream for several in places for place in several))
        rows = {(row.stream, row.block): row for row in await self._views.run(self._tables.rows, streams)}
        return [_counts(several, rows) for several in places]

    # Where blocks lie -------------------------------------------------------------------

    def _places(self, durable: StreamView, events: int) -> list[_Place]:
        """Return the blocks of a session of this many events."""
        places = []
        own = self._streams.erasures(durable)
        for number in range(-(-events // self._size)):
            first = number * self._size
            stop = min(first + self._size, events)
            view, erasures = durable, own
            # Only a block that is inherited whole: the one in which the fork begins has events of both.
            if first + self._size <= durable.stream.base:
                owner, end = self._streams.owner(durable, first)
                if end >= first + self._size:
                    view, erasures = owner, self._streams.erasures(owner)
            places.append(_Place(view, number, first, stop, erasures))
        return places

    def _late(
        self, places: Sequence[_Place], pairs: Sequence[tuple[int, LatePair]], events: int
    ) -> dict[int, list[LatePair]]:
        """Return the late pairs of a session by the block of their call, of its own line of forks only."""
        found: dict[int, list[LatePair]] = {}
        for stream, pair in pairs:
            # A result behind the point at which the session was forked is not one of its events.
            if pair.result < events and places[pair.result // self._size].stream == stream:
                found.setdefault(pair.call // self._size, []).append(pair)
        return found

    # Making blocks ----------------------------------------------------------------------

    async def _made(self, place: _Place) -> tuple[EventBlock, OutlineRow]:
        """Make a block from its events and keep it; who asks for the same at the same time waits for it."""
        lock = self._making.setdefault(place.stream, asyncio.Lock())
        async with lock:
            count, erasures = _count(place)
            data = await self._views.run(self._tables.data, place.stream, place.number, count, erasures)
            if data is not None:  # made while this one waited
                block = blocks.decode(data)
                # Without the summary, which is made from the block where it is needed: -1 matches no number
                # of late pairs.
                return block, OutlineRow(*self._key(place), count, erasures, -1, b"")
            block = await self._folded(place)
            summary = msgspec.msgpack.encode(await CPU.run(summary_of, block))
            row = OutlineRow(*self._key(place), count, erasures, 0, summary)
            span = (place.first, place.first + self._size)
            encoded = blocks.encode(block)
            # What was erased while it was made may still be in it.
            if self._streams.erasures(place.view) == erasures:
                await self._views.run(self._tables.put, row, encoded, span, block.late, self._size)
            return block, row

    def _key(self, place: _Place) -> tuple[int, int]:
        return place.stream, place.number

    async def _folded(self, place: _Place) -> EventBlock:
        """Fold the events of a block, in short slices."""
        fold = BlockFold(place.first, lambda call: self._position_of(place, call))
        events = self._sessions.events.range(place.view, place.first, place.stop, self._turns.begin())
        async with aclosing(events) as read:
            async for _, stored in read:
                fold.add(stored)
        return fold.finish()

    def _position_of(self, place: _Place, event: str) -> int | None:
        """Return the position before a block that an event's id has; nothing is read for it."""
        named = self._streams.named(place.view, event_ids.id_name(event))
        if named is not None:
            return named.first if named.first < place.first else None
        stated = event_ids.position_of(event)
        if stated is None or stated >= place.first:
            return None
        owner, _ = self._streams.owner(place.view, stated)
        return stated if event_ids.is_own(event, owner.stream) else None

    async def _summary(
        self, durable: StreamView, place: _Place, row: OutlineRow, late: Sequence[LatePair]
    ) -> BlockSummary:
        """Return the summary of a block with its late pairs, which are made into it once."""
        is_own = place.view is durable
        if row.summary and (row.late == len(late) if is_own else not late and not row.late):
            return _summary(row.summary)
        count, erasures = _count(place)
        data = await self._views.run(self._tables.data, place.stream, place.number, count, erasures)
        block = blocks.decode(data) if data is not None else await self._folded(place)
        summary = await CPU.run(_with_late, block, late)
        if is_own:
            encoded = msgspec.msgpack.encode(summary)
            await self._views.run(self._tables.update_summary, place.stream, place.number, len(late), encoded)
        return summary

    async def _numbered(
        self, durable: StreamView, kind: str, texts: Sequence[str], erasures: int
    ) -> list[str]:
        return await self._views.run(self._tables.numbered, durable.stream.id, kind, texts, erasures)


def _counts(places: Sequence[_Place], rows: dict[tuple[int, int], OutlineRow]) -> SessionCounts | None:
    summaries = []
    for place in places:
        row = rows.get((place.stream, place.number))
        if row is None or (row.events, row.erasures) != _count(place):
            return None
        summaries.append(_summary(row.summary))
    if not summaries:
        return None
    return SessionCounts(
        sum(one.roles[USER] for one in summaries),
        sum(one.roles[TOOL] for one in summaries),
        sum(one.failed for one in summaries),
        rfc3339(min(one.first_ms for one in summaries)),
        rfc3339(max(one.last_ms for one in summaries)),
    )


def _count(place: _Place) -> tuple[int, int]:
    return place.stop - place.first, place.erasures


def _with_late(block: EventBlock, late: Sequence[LatePair]) -> BlockSummary:
    return summary_of(blocks.merged(block, late, 0))


def _numbers(table: Sequence[str]) -> dict[str, int]:
    return {text: number for number, text in enumerate(table, 1) if text}


def _threads(durable: StreamView, numbered: Sequence[str]) -> list[OutlinedThread]:
    known = threads.of(durable.attributes)
    found = []
    for name in numbered:
        thread = known.get(name)
        found.append(
            OutlinedThread(
                name, None if thread is None else thread.agent_name, None if thread is None else thread.parent
            )
        )
    return found
