"""Publication: every durable effect is shown to readers, once, in the order of the log.

A batch is published when its sync has returned; at a start, the batches that the log still has are published
one after the other.
"""

import asyncio
from collections.abc import Sequence

from durable_sessions.log import Extent, Log
from durable_sessions.storage import batch
from durable_sessions.storage.archive import Archive
from durable_sessions.storage.backlog import FlushBacklog
from durable_sessions.storage.commit import Entry
from durable_sessions.storage.expiry import ExpiryQueue
from durable_sessions.storage.published import PublishedStreams
from durable_sessions.streams.effects import Effect, Linked, RecordsAppended, StreamCreated, StreamRemoved
from durable_sessions.streams.state import State

_STEP_EFFECTS = 100
"""How many effects are replayed before the event loop runs other work; a count, so that runs are the same."""


class Publisher:
    """Shows durable batches to readers, and adds them to the backlog of the next flush."""

    def __init__(
        self, state: State, published: PublishedStreams, expiry: ExpiryQueue, backlog: FlushBacklog
    ) -> None:
        self._state = state
        self._published = published
        self._expiry = expiry
        self._backlog = backlog

    def publish(self, position: int, entries: Sequence[Entry[object]]) -> None:
        """Show a batch to readers; called only after its sync has returned."""
        offset = effects = 0
        append = self._published.append
        for entry in entries:
            effects += len(entry.effects)
            for effect, encoded in zip(entry.effects, entry.encoded, strict=True):
                if type(effect) is RecordsAppended:
                    append(effect, position, offset, encoded)
                else:
                    self._show(effect, Extent(position, offset, len(encoded)))
                offset += len(encoded)
        self._published.listeners.tell_appended()
        self._backlog.add(position, offset, effects)

    async def replay(self, log: Log, archive: Archive) -> None:
        """Apply and show what is durable already: the subscriptions as of the last flush, then the log."""
        for count, effect in enumerate(await archive.subscriptions(), 1):
            self._state.apply(effect)
            if isinstance(effect, Linked) or count % (10 * _STEP_EFFECTS) == 0:  # one may carry many links
                await asyncio.sleep(0)
        async for position, payload in log.replay(archive.flushed_through):
            effects = 0
            for effect, offset, encoded in batch.decode(payload):
                self._state.apply(effect)
                if type(effect) is RecordsAppended:
                    self._published.append(effect, position, offset, encoded)
                else:
                    self._show(effect, Extent(position, offset, len(encoded)))
                effects += 1
                if effects % _STEP_EFFECTS == 0 or isinstance(effect, Linked):
                    await asyncio.sleep(0)
            self._published.listeners.tell_appended()
            self._backlog.add(position, len(payload), effects)

    def _show(self, effect: Effect, extent: Extent) -> None:
        if not isinstance(effect, StreamCreated):
            if type(effect) is StreamRemoved:
                self._expiry.discard(effect.stream)
            self._published.show(effect, extent)
            return
        stream = self._state.by_id.get(effect.stream)
        if stream is not None:  # otherwise it was removed again at the tip, and no reader will ever see it
            self._published.create(stream, extent)
            self._expiry.add(stream)
