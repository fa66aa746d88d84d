"""Compares an index with all sessions, after the search process started or a change may have been missed."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

from durable_sessions.search.backlog import Unsent
from durable_sessions.search.index_names import PREFIXES, index_name
from durable_sessions.search.tails import IndexedTails
from durable_sessions.search.unsent_changes import NO_END, UnsentChanges
from durable_sessions.storage.door import Streams
from durable_sessions.streams.readonly import StreamRecord

_PAGE_STREAMS = 50

T = TypeVar("T")


class IndexComparison:
    """Adds what one index is missing, and what it should no longer have, to the unsent changes."""

    def __init__(self, tails: IndexedTails, changes: UnsentChanges) -> None:
        self._tails = tails
        self._changes = changes
        self._kept_for_forks: list[tuple[str, int]] = []

    async def run(self, streams: Streams) -> None:
        """Compare all sessions; changes of these that are noted meanwhile stay noted."""
        self._changes.events_lacking = 0
        for prefix in PREFIXES:
            for page in streams.stream_pages(prefix, _PAGE_STREAMS):
                for stream, tail in page:
                    self._compare(stream, tail)
                await asyncio.sleep(0)
        changes = self._changes
        async for workspace, number in _with_pauses(self._tails.left()):
            if number not in changes.additions:
                changes.removals[workspace, number] = 0
        # Only now that all forks are known is it certain how far deleted sessions can still be read.
        for key in self._kept_for_forks:
            changes.removals[key] = changes.forks.visible_end(key[1], NO_END)

    def _compare(self, stream: StreamRecord, tail: int) -> None:
        changes = self._changes
        changes.forks.add(stream)
        index = index_name(stream.key)
        assert index is not None, "only streams that are indexed are compared"
        key = index, stream.id
        known = self._tails.take(*key)
        if known is not None and stream.soft_deleted:
            self._kept_for_forks.append(key)
        indexed = max(known or 0, stream.base)
        if known is not None and self._tails.erasures(*key) < stream.erasures:
            # Something was erased that the index may still have: all of the stream is sent again.
            changes.removals[key] = 0
            changes.void.add(key)
            changes.additions.drop(stream.id)
            indexed = stream.base
        if indexed > tail:
            changes.removals[key] = tail
        unsent = changes.additions.get(stream.id)
        if indexed < tail and (unsent is None or unsent.start > indexed):
            changes.additions[stream.id] = Unsent(index, indexed, 0)
            changes.events_lacking += tail - indexed


async def _with_pauses(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield many items, and let other tasks run in between."""
    for number, item in enumerate(items, 1):
        yield item
        if number % _PAGE_STREAMS == 0:
            await asyncio.sleep(0)
