"""The streams in memory by their times and terms, for lists; the catalog has those that are not in memory."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from durable_sessions.storage.indexed import ORDERS, IndexedStream, IndexOf, Place, TimeOrder
from durable_sessions.storage.published import PublishedStreams
from durable_sessions.storage.turns import Turn

T = TypeVar("T", int, Place)

_STEP_STREAMS = 100
"""How many changed streams are looked at before the turn is checked."""


class _Entry(NamedTuple):
    """A stream as it is in the index."""

    workspace: str
    folder: str
    indexed: IndexedStream


class HotIndex:
    """The streams in memory by their times and terms, made when a list asks for it.

    Appends only note that a stream has changed; :meth:`refresh` looks at those that have. So a partition of
    which nobody lists anything pays nothing, and a list pays for what has changed since the one before.
    """

    def __init__(self, published: PublishedStreams, index_of: IndexOf) -> None:
        self._published = published
        self._index_of = index_of
        self._entries: dict[int, _Entry] = {}
        self._orders: dict[tuple[str, str, TimeOrder], list[Place]] = {}
        self._terms: dict[tuple[str, str, int], list[int]] = {}

    async def refresh(self, turn: Turn) -> None:
        """Bring the index up to date; it stays so until the caller lets another task run."""
        # A rest lets appends in, which note new changes: the loop ends in a step without one.
        while (changed := self._changed()) is not None:
            for _ in range(min(len(changed), _STEP_STREAMS)):
                self._look_at(changed.pop())
            if turn.over:
                await turn.rest()

    def _changed(self) -> set[int] | None:
        """Return the numbers of the streams that are to be looked at, None if there are none."""
        published = self._published
        if published.changed is None:  # nobody has listed yet, or too many have changed since
            published.changed = set(published.by_id)
            self._entries, self._orders, self._terms = {}, {}, {}
        return published.changed or None

    def after(
        self, workspace: str, folder: str, order: TimeOrder, after: Place | None, *, newest_first: bool
    ) -> Iterator[Place]:
        """Yield the places of a folder's streams behind ``after``, in order."""
        return _after(self._orders.get((workspace, folder, order), ()), after, newest_first=newest_first)

    def with_term(
        self, workspace: str, folder: str, term: int, after: int | None, *, newest_first: bool
    ) -> Iterator[int]:
        """Yield the numbers of a folder's streams that have a term, behind ``after``, in order."""
        return _after(self._terms.get((workspace, folder, term), ()), after, newest_first=newest_first)

    def count(self, workspace: str, folder: str, term: int) -> int:
        """Return how many of a folder's streams have a term."""
        return len(self._terms.get((workspace, folder, term), ()))

    def _look_at(self, number: int) -> None:
        known = self._entries.get(number)
        durable = self._published.by_id.get(number)
        entry = None
        if durable is not None and not durable.removed:
            stream = durable.stream
            key = stream.key
            indexed = self._index_of(key, stream.created_at_ms, durable.changed_ms, durable.attributes)
            if indexed is not None:
                entry = _Entry(key.workspace, key.folder, indexed)
        if entry == known:
            return
        if known is not None:
            self._drop(number, known)
        if entry is not None:
            self._add(number, entry)

    def _add(self, number: int, entry: _Entry) -> None:
        self._entries[number] = entry
        for order, at_ms in zip(ORDERS, entry.indexed.times, strict=True):
            insort(self._orders.setdefault((entry.workspace, entry.folder, order), []), (at_ms, number))
        for term in entry.indexed.terms:
            insort(self._terms.setdefault((entry.workspace, entry.folder, term), []), number)

    def _drop(self, number: int, entry: _Entry) -> None:
        del self._entries[number]
        for order, at_ms in zip(ORDERS, entry.indexed.times, strict=True):
            places = self._orders[entry.workspace, entry.folder, order]
            del places[bisect_left(places, (at_ms, number))]
            if not places:
                del self._orders[entry.workspace, entry.folder, order]
        for term in entry.indexed.terms:
            numbers = self._terms[entry.workspace, entry.folder, term]
            del numbers[bisect_left(numbers, number)]
            if not numbers:
                del self._terms[entry.workspace, entry.folder, term]


def _after(sorted_values: Sequence[T], after: T | None, *, newest_first: bool) -> Iterator[T]:
    """Yield sorted values behind one of them, ascending or descending."""
    if newest_first:
        end = len(sorted_values) if after is None else bisect_left(sorted_values, after)
        return (sorted_values[at] for at in range(end - 1, -1, -1))
    begin = 0 if after is None else bisect_right(sorted_values, after)
    return (sorted_values[at] for at in range(begin, len(sorted_values)))
