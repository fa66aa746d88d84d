"""Pages of a folder's streams, in memory or not, in the order of their creation."""

import heapq
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from durable_sessions.storage.archive import Archive
from durable_sessions.storage.door import StreamPage
from durable_sessions.storage.durable_stream import DurableStream
from durable_sessions.storage.published import PublishedStreams
from durable_sessions.streams.state import State

_LOADED_BYTES = 1024 * 1024
"""The approximate size of a page in the catalog: with large documents a page has fewer streams."""


class Folders:
    """Lists streams by folder, without loading those that are not in memory."""

    def __init__(self, state: State, published: PublishedStreams, archive: Archive) -> None:
        self._state = state
        self._published = published
        self._archive = archive

    def page(
        self, workspace: str, folder: str, after: int | None, limit: int, *, newest_first: bool
    ) -> StreamPage:
        """Return the next durable streams after a given one; expired ones may be among them."""
        hot = self._hot(workspace, folder, after, newest_first=newest_first)
        with self._archive.numbers(workspace, folder, after, newest_first=newest_first) as cold:
            found: list[DurableStream] = []
            size = last = 0
            for number in heapq.merge(hot, cold, reverse=newest_first):
                if number == last:
                    continue  # both in memory and in the catalog: listed once
                last = number
                if len(found) == limit or size > _LOADED_BYTES:
                    return StreamPage(found, more=True)
                durable = self._published.by_id.get(number)
                if durable is None:
                    durable = self._load(number)
                    size += 0 if durable is None else sum(map(len, durable.attributes.values()))
                if durable is not None and not durable.removed:
                    found.append(durable)
        return StreamPage(found, more=False)

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
