"""Reads of memory scopes in the partition that has them: by key, by words, newest first, or as a log."""

import re
from collections.abc import AsyncIterator, Iterator, Sequence
from heapq import heappop, heappush, heappushpop
from typing import NamedTuple

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import (
    InvalidQueryError,
    InvalidRequestError,
    SearchUnavailableError,
)
from durable_sessions.http.carrier.message import Request
from durable_sessions.search import query_problems
from durable_sessions.search.index import DEPTH_MAX, IndexHit
from durable_sessions.search.query import QUERY_CHARACTERS_MAX, Query, parse
from durable_sessions.search.scope import Scope as SearchScope
from durable_sessions.search.service import Search, SessionMatches, Wish
from durable_sessions.sessions.memory.history import KnownWrite, LiveWrites, ScopeHistory
from durable_sessions.sessions.memory.records import WRITTEN, NamedEvent
from durable_sessions.sessions.memory.scopes import MemoryEntry, Scopes
from durable_sessions.storage.door import StreamView
from durable_sessions.storage.turns import Turns

READ = b"/internal/memory/read"
"""Where the partition with the scopes answers the others."""
_TOKEN = re.compile(r"([0-9]{1,13})-([0-9]{1,13})", re.ASCII)
_FOUND_AT_ONCE = 500
_PART_MAX = 2_000


class MemoryWish(NamedTuple):
    """What is asked of a scope: one key, words, or everything; as of a position, or now."""

    scope: str
    limit: int
    key: str | None = None
    q: str | None = None
    at: int | None = None
    page: str | None = None
    events: list[NamedEvent] | None = None
    """Exactly these writes, whether they are live or not: what an earlier read returned."""


class FoundMemory(NamedTuple):
    """Entries of a scope, and the writes that they are; ``next_page`` is None at the end."""

    at: int
    entries: list[MemoryEntry]
    writes: list[NamedEvent]
    next_page: str | None = None


class MemoryReads:
    """Answers reads of memory scopes."""

    def __init__(self, scopes: Scopes, search: Search, turns: Turns) -> None:
        self.scopes = scopes
        self._search = search
        self._turns = turns

    async def find(self, caller: Caller, wish: MemoryWish) -> FoundMemory:
        """Return the live entries that are asked for: what is acknowledged before is among them."""
        if wish.key is not None and wish.q is not None:
            raise InvalidRequestError(problem="key and q exclude each other; send one of them.")
        query = None if wish.q is None else parsed(wish.q)
        view = self.scopes.view(caller.workspace, wish.scope)
        at, begin = _place(view, wish)
        if view is None:
            return FoundMemory(0, [], [])
        history = await self.scopes.history(view)
        if wish.events is not None:
            known = [write for event in wish.events if (write := history.find(event)) is not None]
            return FoundMemory(at, await self.scopes.entries(view, history, known, at), [])
        if wish.key is not None:
            write = history.live(wish.key, at)
            entries = [] if write is None else await self.scopes.entries(view, history, [write], at)
            return FoundMemory(at, entries, _names(history, entries))
        if query is not None:
            with self._search.admission.enter(caller.key_id):
                return await self._by_words(view, history, query, wish.limit, at, begin or 0)
        page = await self.scopes.live(view, at, at if begin is None else begin, wish.limit)
        following = None if page.following is None else f"{at}-{page.following}"
        return FoundMemory(at, page.entries, _names(history, page.entries), following)

    async def _by_words(
        self, view: StreamView, history: ScopeHistory, query: Query, limit: int, at: int, skip: int
    ) -> FoundMemory:
        """Return the live entries that match, the best first; ``skip`` of them were on earlier pages."""
        # One more than the page has, to know whether another follows. Earlier pages are ranked again: what is
        # live can only be told after the ranking, so that no place in the index says how many of them were
        # shown.
        found = await self._ranked(view, history, query, at, skip + limit + 1)
        page = found[skip : skip + limit]
        entries = await self.scopes.entries(view, history, page, at)
        end = skip + len(entries)
        return FoundMemory(
            at, entries, _names(history, entries), f"{at}-{end}" if entries and end < len(found) else None
        )

    async def _ranked(
        self, view: StreamView, history: ScopeHistory, query: Query, at: int, wanted: int
    ) -> list[KnownWrite]:
        """Return the best live writes for words, at least this many if there are.

        The index has every write, also those that are not live, which are passed over.
        """
        found: list[KnownWrite] = []
        live = LiveWrites(history, at)
        offset, snapshot = 0, ""
        while True:
            # Always in the snapshot of the first part, or hits would move between the parts while the log
            # grows.
            part = await self._hits(view, query, 0, at, offset, snapshot, _FOUND_AT_ONCE)
            snapshot = part.view
            found += [write for _, write in _live(history, live, part.hits)]
            offset += _FOUND_AT_ONCE
            if len(found) >= wanted or offset >= part.total:
                return found
            if offset >= DEPTH_MAX:
                return await self._ranked_in_parts(view, history, query, at, wanted)

    async def _ranked_in_parts(
        self, view: StreamView, history: ScopeHistory, query: Query, at: int, wanted: int
    ) -> list[KnownWrite]:
        """Return the best live writes when those that are not live fill the whole ranking of the index.

        Parts of the log are ranked, each of which has less; of all of them the best are kept.
        """
        best: list[tuple[float, int, KnownWrite]] = []  # a heap: the worst of them first
        live = LiveWrites(history, at)
        turn = self._turns.begin()
        async for hits in self._hits_in_parts(view, query, at):
            for hit, write in _live(history, live, hits):
                # No two hits have the same position, so that writes are never compared.
                place = (hit.score, -hit.position, write)
                if len(best) < wanted:
                    heappush(best, place)
                else:
                    heappushpop(best, place)
                if turn.over:
                    await turn.rest()
        found: list[KnownWrite] = []
        while best:
            found.append(heappop(best)[2])
            if turn.over:
                await turn.rest()
        found.reverse()
        return found

    async def _hits_in_parts(
        self, view: StreamView, query: Query, stop: int
    ) -> AsyncIterator[Sequence[IndexHit]]:
        waiting = [(0, stop)]
        while waiting:
            begin, end = waiting.pop()
            part = await self._hits(view, query, begin, end, 0, "", _PART_MAX)
            # Halved until each part fits: where the writes that match lie in the log is not known beforehand.
            if part.total > _PART_MAX:
                middle = (begin + end) // 2
                waiting += [(begin, middle), (middle, end)]
            else:
                yield part.hits

    async def _hits(
        self,
        view: StreamView,
        query: Query,
        start: int,
        stop: int,
        offset: int,
        snapshot: str,
        limit: int,
    ) -> SessionMatches:
        """Search writes between two positions, or refuse: an answer is never short."""
        wish = Wish(query, SearchScope(types=(WRITTEN,)), limit, offset, "score", snapshot)
        part = await self._search.in_session(view, start, stop, wish)
        # Whoever recalls nothing would act as if nothing had been learned: no answer is better than a short
        # one.
        if part.through < stop:
            raise SearchUnavailableError(reason="the scope is still being indexed")
        return part

    async def answer(self, request: Request, caller: Caller) -> "FoundElsewhere":
        """Answer a read of another partition."""
        found = await self.find(caller, msgspec.msgpack.decode(request.body, type=MemoryWish))
        return FoundElsewhere(found.at, msgspec.json.encode(found.entries), found.writes)


class FoundElsewhere(NamedTuple):
    """What another partition found: its entries as JSON."""

    at: int
    entries: bytes
    writes: list[NamedEvent]

    def opened(self) -> FoundMemory:
        """Return what was found."""
        return FoundMemory(self.at, msgspec.json.decode(self.entries, type=list[MemoryEntry]), self.writes)


def _live(
    history: ScopeHistory, live: LiveWrites, hits: Sequence[IndexHit]
) -> Iterator[tuple[IndexHit, KnownWrite]]:
    for hit in hits:
        write = history.at(hit.position)
        if write is not None and live.has(write):
            yield hit, write


def parsed(q: str) -> Query:
    """Return the parsed query; any text is valid, but not an empty one, nor a misspelt filter."""
    if not q.strip():
        raise InvalidRequestError(problem="q is empty: send words to look for, such as q=timeout.")
    if (problem := query_problems.problem_of(q[:QUERY_CHARACTERS_MAX])) is not None:
        raise InvalidQueryError(problem=problem)
    return parse(q)


def _place(view: StreamView | None, wish: MemoryWish) -> tuple[int, int | None]:
    """Return as of which position is read, and where the page begins."""
    tail = 0 if view is None else view.tail
    begin = None
    at = tail if wish.at is None else wish.at
    if wish.page is not None:
        place = _TOKEN.fullmatch(wish.page)
        if place is None or wish.at not in (None, int(place[1])):
            raise InvalidRequestError(
                problem="page is not one that this read gave; send next_page as it came, with the same at."
            )
        at, begin = int(place[1]), int(place[2])
    if at > tail:
        raise InvalidRequestError(problem=f"at={at} is beyond the end of the scope; send 0 to {tail}.")
    return at, begin


def _names(history: ScopeHistory, entries: Sequence[MemoryEntry]) -> list[NamedEvent]:
    found = (history.at(entry.position) for entry in entries)
    return [write.event for write in found if write is not None]
