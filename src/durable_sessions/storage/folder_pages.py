"""Pages of a folder's streams, in memory or not: by creation, by one of their times, or by a term."""

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from itertools import islice
from typing import TypeVar

from durable_sessions.storage.archive import Archive
from durable_sessions.storage.door import PlacedPage, StreamPage
from durable_sessions.storage.durable_stream import DurableStream
from durable_sessions.storage.indexed import Place, TimeOrder
from durable_sessions.storage.published import PublishedStreams
from durable_sessions.storage.stream_index import HotIndex
from durable_sessions.storage.turns import Turn
from durable_sessions.streams.state import State

T = TypeVar("T", int, Place)

_LOADED_BYTES = 1024 * 1024
"""The approximate size of a page in the catalog: with large documents a page has fewer streams."""


class Folders:
    """Lists streams by folder, without loading those that are not in memory."""

    def __init__(self, state: State, published: PublishedStreams, archive: Archive) -> None:
        self._index = HotIndex(published, archive.index_of)
        self._state = state
        self._published = published
        self._archive = archive

    def page(
        self, workspace: str, folder: str, after: int | None, limit: int, *, newest_first: bool
    ) -> StreamPage:
        """Return the next durable streams after a given one; expired ones may be among them."""
        hot = self._hot(workspace, folder, after, newest_first=newest_first)
        with self._archive.numbers(workspace, folder, after, newest_first=newest_first) as cold:
            return self._taken(heapq.merge(hot, cold, reverse=newest_first), limit)

    async def refresh(self, turn: Turn) -> None:
        """Bring the index of streams in memory up to date, for the two lists below."""
        await self._index.refresh(turn)

    def page_by_time(
        self,
        workspace: str,
        folder: str,
        order: TimeOrder,
        after: Place | None,
        limit: int,
        *,
        newest_first: bool,
    ) -> PlacedPage:
        """Return the next durable streams behind a place, by one of their times; refresh the index before."""
        hot = self._index.after(workspace, folder, order, after, newest_first=newest_first)
        with self._archive.places(workspace, folder, order, after, newest_first=newest_first) as rows:
            found: list[tuple[Place, DurableStream]] = []
            size = 0
            for place, is_cold in heapq.merge(_marked(hot, False), _marked(rows, True), reverse=newest_first):
                # The catalog has the times as of the last flush; those of streams in memory may be others
                # since. Rows are dropped here and not before: so no more are read than the page takes.
                if is_cold and place[1] in self._published.by_id:
                    continue
                if len(found) == limit or size > _LOADED_BYTES:
                    return PlacedPage(found, more=True)
                durable, loaded = self._get(place[1])
                size += loaded
                if durable is not None:
                    found.append((place, durable))
        return PlacedPage(found, more=False)

    def page_with(
        self,
        workspace: str,
        folder: str,
        terms: Sequence[int],
        after: int | None,
        limit: int,
        *,
        newest_first: bool,
    ) -> StreamPage:
        """Return the next durable streams with one of some terms, by creation; refresh the index before."""
        with ExitStack() as opened:
            found: list[Iterator[tuple[int, bool]]] = []
            for term in terms:
                hot = self._index.with_term(workspace, folder, term, after, newest_first=newest_first)
                rows = self._archive.with_term(workspace, folder, term, after, newest_first=newest_first)
                found += (_marked(hot, False), _marked(opened.enter_context(rows), True))
            merged = heapq.merge(*found, reverse=newest_first)
            in_memory = self._published.by_id
            numbers = (number for number, is_cold in merged if not is_cold or number not in in_memory)
            return self._taken(numbers, limit)

    def count_with(self, workspace: str, folder: str, term: int, most: int) -> int:
        """Return about how many streams have a term, counting up to ``most``; refresh the index before."""
        count = self._index.count(workspace, folder, term)
        with self._archive.with_term(workspace, folder, term, None, newest_first=True) as rows:
            return min(most, count + sum(1 for _ in islice(rows, max(0, most - count))))

    def _taken(self, numbers: Iterable[int], limit: int) -> StreamPage:
        """Return the streams with these numbers, up to a limit or until they are too large."""
        found: list[DurableStream] = []
        size = last = 0
        for number in numbers:
            if number == last:
                continue  # both in memory and in the catalog: listed once
            last = number
            if len(found) == limit or size > _LOADED_BYTES:
                return StreamPage(found, more=True)
            durable, loaded = self._get(number)
            size += loaded
            if durable is not None:
                found.append(durable)
        return StreamPage(found, more=False)

    def _get(self, number: int) -> tuple[DurableStream | None, int]:
        """Return a stream, None if it is removed, and about how much of the catalog was read for it."""
        durable = self._published.by_id.get(number)
        size = 0
        if durable is None:
            durable = self._load(number)
            size = 0 if durable is None else sum(map(len, durable.attributes.values()))
        return (None if durable is None or durable.removed else durable), size

    def _hot(self, workspace: str, folder: str, after: int | None, *, newest_first: bool) -> Iterator[int]:
        numbers = self._published.folder(workspace, folder)
        if newest_first:
            end = len(numbers) if after is None else bisect_left(numbers, after)
            return (numbers[at] for at in range(end - 1, -1, -1))
        begin = 0 if after is None else bisect_right(numbers, after)
        return (numbers[at] for at in range(begin, len(numbers)))

    def _load(self, number: int) -> DurableStream | None:
        stream = None if number in self._state.removed else self._archive.cold.load_id(number)
        return None if stream is None else DurableStream.of_flushed(stream)


def _marked(values: Iterable[T], is_cold: bool) -> Iterator[tuple[T, bool]]:
    """Yield values with a mark of where they are from."""
    return ((value, is_cold) for value in values)
