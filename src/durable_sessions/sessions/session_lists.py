"""Lists of the sessions of a partition, by creation or by an index: what to look at, page by page."""

from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from durable_sessions.clock import Clock
from durable_sessions.limits import Limits
from durable_sessions.sessions import indexing, record
from durable_sessions.sessions.indexing import MANY_PAIRS
from durable_sessions.sessions.slot_reading import SlotReader
from durable_sessions.sessions.sort_key import SortKey
from durable_sessions.storage.door import StreamPage, Streams, StreamView
from durable_sessions.storage.turns import Turn, Turns

Wanted = Callable[[StreamView], bool]
"""Says whether a session passes a filter."""

_STEP_SESSIONS = 100
"""How many sessions one step of a scan takes from memory and catalog."""


@dataclass(slots=True)
class Listed:
    """A page of encoded sessions, each with its place.

    ``next`` is where the next page begins, None at the end.
    """

    sessions: list[tuple[SortKey, bytes]]
    next: int | None


class SessionLists:
    """Finds the sessions of a workspace, a bounded number at a time."""

    def __init__(
        self, streams: Streams, slots: SlotReader, turns: Turns, clock: Clock, limits: Limits
    ) -> None:
        self._streams = streams
        self._slots = slots
        self._turns = turns
        self._clock = clock
        self._limits = limits

    async def by_creation(
        self,
        workspace: str,
        after: int | None,
        limit: int,
        wanted: Wanted,
        show: Callable[[StreamView], bytes],
        *,
        newest_first: bool,
        pairs: Mapping[str, str] | None = None,
        slot: str | None = None,
    ) -> Listed:
        """Return the next sessions that pass the filter, by creation; scans a bounded number of them.

        A page ends at the limit, or before the session that would make it too large. ``pairs`` of metadata
        that all of them have, or a ``slot`` that an event of each holds, make it cheaper.
        """
        found: list[tuple[SortKey, bytes]] = []
        size = looked = 0
        turn = self._turns.begin()
        now_ms = self._clock.now_ms()
        terms = (await self.rarest(workspace, pairs, turn))[0] if pairs and slot is None else ()
        # A filter that fits nothing would look at every session: the page ends, and says where to go on.
        while looked < self._limits.listed_sessions_max:
            step = min(self._limits.listed_sessions_max - looked, _STEP_SESSIONS)
            if slot is None:
                page = await self._page(workspace, terms, after, step, turn, newest_first=newest_first)
            else:
                page = await self._holders(workspace, slot, after, step, turn, newest_first=newest_first)
            for durable in page.streams:
                if not durable.removed and not durable.stream.expired(now_ms) and wanted(durable):
                    # ``after`` is still the session before this one, so the next page begins with this one.
                    if len(found) == limit:
                        return Listed(found, after)
                    shown = show(durable)
                    size += len(shown) + 1
                    if found and size > self._limits.page_bytes_max:
                        return Listed(found, after)
                    place = SortKey(durable.stream.created_at_ms, durable.stream.id)
                    found.append((place, shown))
                after = durable.stream.id
                if turn.over:
                    await turn.rest()
            looked += len(page.streams)
            if not page.more:
                return Listed(found, None)
        return Listed(found, after)

    async def numbers(
        self, workspace: str, wanted: Wanted, most: int, pairs: Mapping[str, str] | None = None
    ) -> Sequence[int]:
        """Return the numbers of all sessions that pass the filter; stops at one more than ``most``."""
        found = array("q")
        turn = self._turns.begin()
        now_ms = self._clock.now_ms()
        terms = (await self.rarest(workspace, pairs, turn))[0] if pairs else ()
        async for durable in self.having(workspace, terms, turn):
            if not durable.removed and not durable.stream.expired(now_ms) and wanted(durable):
                found.append(durable.stream.id)
                if len(found) > most:
                    break
        return found

    async def rarest(self, workspace: str, pairs: Mapping[str, str], turn: Turn) -> tuple[Sequence[int], int]:
        """Return the terms under which all sessions with these pairs are found, and how many those are.

        The fewest are found by the rarest of the pairs. Counting ends at ``sorted_matches_max``.
        """
        await self._streams.folders.refresh(turn)
        most = self._limits.sorted_matches_max
        counts = {
            term: self._streams.folders.count_with(workspace, record.FOLDER, term, most)
            for term in (MANY_PAIRS, *(indexing.term_of(key, value) for key, value in pairs.items()))
        }
        many = counts.pop(MANY_PAIRS)
        term = min(counts, key=lambda term: counts[term])
        return (term, MANY_PAIRS), counts[term] + many

    def having(self, workspace: str, terms: Sequence[int], turn: Turn) -> AsyncIterator[StreamView]:
        """Yield all sessions that have one of these terms, the newest first; all there are without terms."""
        return _walk(
            lambda after: self._page(workspace, terms, after, _STEP_SESSIONS, turn, newest_first=True), turn
        )

    def holding(self, workspace: str, slot: str, turn: Turn) -> AsyncIterator[StreamView]:
        """Yield all sessions in which an event holds a slot, the newest first."""
        return _walk(
            lambda after: self._holders(workspace, slot, after, _STEP_SESSIONS, turn, newest_first=True), turn
        )

    async def _holders(
        self, workspace: str, slot: str, after: int | None, limit: int, turn: Turn, *, newest_first: bool
    ) -> StreamPage:
        """Return the next sessions that hold a slot, at least one if there are any."""
        while True:
            page, after = self._streams.holders(workspace, slot, after, limit, newest_first=newest_first)
            if page.streams or not page.more:
                return page
            if turn.over:
                await turn.rest()

    def holds(self, durable: StreamView, slots: Sequence[str]) -> bool:
        """Say whether events of a session hold all these slots."""
        return all(self._streams.slot(durable, slot, durable.tail) is not None for slot in slots)

    async def with_slots(self, shown: bytes, number: int, slots: Sequence[str]) -> bytes:
        """Return a session as a list shows it, with the events that hold these slots."""
        durable = self._streams.peek_id(number)
        held = []
        for slot in slots:
            event = None if durable is None else await self._slots.one(durable, slot)
            held.append(msgspec.json.encode(slot) + b":" + (b"null" if event is None else event))
        return b'%b,"slots":{%b}}' % (shown[:-1], b",".join(held))

    async def _page(
        self,
        workspace: str,
        terms: Sequence[int],
        after: int | None,
        limit: int,
        turn: Turn,
        *,
        newest_first: bool,
    ) -> StreamPage:
        if not terms:
            return self._streams.folders.page(
                workspace, record.FOLDER, after, limit, newest_first=newest_first
            )
        await self._streams.folders.refresh(turn)
        return self._streams.folders.page_with(
            workspace, record.FOLDER, terms, after, limit, newest_first=newest_first
        )


async def _walk(
    page_after: Callable[[int | None], Awaitable[StreamPage]], turn: Turn
) -> AsyncIterator[StreamView]:
    """Yield the sessions of all pages, each fetched when those before it have been taken."""
    after: int | None = None
    while True:
        page = await page_after(after)
        for durable in page.streams:
            yield durable
            after = durable.stream.id
            if turn.over:
                await turn.rest()
        if not page.more:
            return
