"""One flush: archives batches of the log in the bucket, and marks their records in memory as flushed."""

import asyncio
from collections.abc import Iterator

from durable_sessions.limits import Limits
from durable_sessions.log import Log
from durable_sessions.storage.archive import Archive, Flushed
from durable_sessions.storage.backlog import FlushBacklog
from durable_sessions.storage.published import PublishedStreams
from durable_sessions.streams.state import State

_STEP_STREAMS = 1_000
"""How many streams are marked as flushed before the event loop runs other work."""


class LogFlush:
    """Moves durable batches to the bucket and trims the log."""

    def __init__(
        self,
        log: Log,
        archive: Archive,
        backlog: FlushBacklog,
        state: State,
        published: PublishedStreams,
        limits: Limits,
    ) -> None:
        self._log = log
        self._archive = archive
        self._backlog = backlog
        self._state = state
        self._published = published
        self._limits = limits

    async def step(self) -> bool:
        """Flush as much as one flush may; return whether there was anything. A failure changes nothing."""
        through = self._backlog.flush_end(self._limits)
        if through is None:
            return False
        batches = []
        async for position, payload in self._log.replay(self._archive.flushed_through):
            if position > through:
                break
            batches.append(payload)
        flushed = await self._archive.flush(batches, through)
        steps = self._noting(flushed)
        try:
            for count, _ in enumerate(steps, 1):
                if count % _STEP_STREAMS == 0:
                    await asyncio.sleep(0)
        finally:
            # Completed without awaiting, even if the caller was cancelled: the archive reports a flush only
            # once, and a stream that is not marked would later be looked for in a trimmed log.
            for _ in steps:
                pass
        # Last: readers go to the log for records that are not marked as flushed.
        await self._log.trim(flushed.through)
        return True

    async def skip(self, through: int) -> bool:
        """Trim a log that has no batch between the last flush and ``through``; say whether that is so."""
        oldest = self._backlog.oldest
        if through <= self._archive.flushed_through or (oldest is not None and oldest.position <= through):
            return False
        await self._archive.skip(through)
        await self._log.trim(through)
        return True

    def _noting(self, flushed: Flushed) -> Iterator[None]:
        """Mark the flushed records stream by stream; other work may change the state between two steps."""
        for number, tail in flushed.tails.items():
            self._published.flushed(number, tail, flushed.through)
            known = self._state.by_id.get(number)
            if known is not None:
                known.flushed_names(tail)
            yield
        for number in flushed.removed:
            self._state.removed.pop(number, None)
        self._backlog.flushed(flushed.through)
