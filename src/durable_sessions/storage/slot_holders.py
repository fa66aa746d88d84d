"""The streams that hold a slot, in memory or not, in the order of their creation."""

import heapq
from collections.abc import Iterator

from durable_sessions.storage.archive import Archive
from durable_sessions.storage.door import StreamPage
from durable_sessions.storage.durable_stream import DurableStream
from durable_sessions.storage.published import PublishedStreams
from durable_sessions.streams.state import State

_LOOKED_AT_MAX = 10
"""How many times as many candidates as asked for are looked at before a page ends, even if it is empty."""


class SlotHolders:
    """Finds streams by a slot that they hold, their own or an inherited one.

    Candidates are those that held it at the last flush, the forks below streams that had ever held it then,
    and since then the streams whose slots have changed, and the new forks. Each candidate is checked.
    """

    def __init__(self, state: State, published: PublishedStreams, archive: Archive) -> None:
        self._state = state
        self._published = published
        self._archive = archive

    def page(
        self, workspace: str, slot: str, after: int | None, limit: int, *, newest_first: bool
    ) -> tuple[StreamPage, int | None]:
        """Return the next durable streams that hold a slot, and the last number that was looked at."""
        hot = self._hot(workspace, after, newest_first=newest_first)
        found: list[DurableStream] = []
        last: int | None = None
        looked = 0
        with self._archive.slot_holders(workspace, slot, after, newest_first=newest_first) as cold:
            for number in heapq.merge(hot, cold, reverse=newest_first):
                if number == last:
                    continue
                if len(found) == limit or looked == _LOOKED_AT_MAX * limit:
                    return StreamPage(found, more=True), last
                last = number
                looked += 1
                durable = self._published.by_id.get(number) or self._load(number)
                if durable is not None and not durable.removed and self._holds(durable, slot):
                    found.append(durable)
        return StreamPage(found, more=False), last

    def _hot(self, workspace: str, after: int | None, *, newest_first: bool) -> Iterator[int]:
        changed = self._state.unflushed_slots.get(workspace, {})
        for number in [one for one in changed if not self._has_unflushed(one)]:
            del changed[number]
        forks = self._state.unflushed_forks.get(workspace, {})
        while forks and self._archive.cold.load_id(oldest := next(iter(forks))) is not None:
            del forks[oldest]  # they are flushed in the order in which they were made
        numbers = {*changed, *forks}
        if after is not None:
            numbers = {one for one in numbers if (one < after if newest_first else one > after)}
        return iter(sorted(numbers, reverse=newest_first))

    def _has_unflushed(self, number: int) -> bool:
        stream = self._state.by_id.get(number)
        return stream is not None and stream.slots is not None

    def _holds(self, durable: DurableStream, slot: str) -> bool:
        return self._state.slot(durable.stream, slot, durable.tail) is not None

    def _load(self, number: int) -> DurableStream | None:
        stream = None if number in self._state.removed else self._archive.cold.load_id(number)
        return None if stream is None else DurableStream.of_flushed(stream)
