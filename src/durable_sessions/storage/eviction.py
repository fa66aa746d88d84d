"""Evicts idle streams when they take too much memory."""

import asyncio

from durable_sessions.limits import Limits
from durable_sessions.storage.archive import Archive
from durable_sessions.storage.expiry import ExpiryQueue
from durable_sessions.storage.published import PublishedStreams
from durable_sessions.streams.state import State

_STEP_STREAMS = 100
"""How many streams are looked at before the event loop runs other work."""


class StreamEviction:
    """Decides which streams leave memory, and removes them from everything that holds them."""

    def __init__(
        self,
        state: State,
        published: PublishedStreams,
        expiry: ExpiryQueue,
        archive: Archive,
        limits: Limits,
    ) -> None:
        self._state = state
        self._published = published
        self._expiry = expiry
        self._archive = archive
        self._limits = limits

    def crowded(self, times: int = 1) -> bool:
        """Return whether the streams in memory, or their attributes, exceed ``times`` their budget."""
        limits, state = self._limits, self._state
        return (
            len(state.by_id) > times * limits.active_streams_max
            or state.attribute_bytes > times * limits.attribute_bytes_max
        )

    async def evict_idle(self) -> int:
        """Evict streams that are flushed entirely and were not used for an era; return how many.

        Everything decided before must be durable, so that an idle stream has nothing pending.
        """
        evicted = 0
        for count, stream in enumerate(list(self._state.by_id.values()), 1):
            if count % _STEP_STREAMS == 0:
                await asyncio.sleep(0)
            durable = self._published.by_id.get(stream.id)
            if (
                durable is not None
                and durable.stream is stream
                and stream.era < self._state.era - 1
                and durable.changed_at <= self._archive.flushed_through
                and not durable.waiters  # a live reader waits for it, and its next change would load it again
            ):
                self._state.evict(stream)
                self._expiry.discard(stream.id)
                self._published.evict(durable)
                evicted += 1
        return evicted
