"""Sends unsent changes to the search process, in chunks, what searches wait for first."""

import asyncio
from collections import deque
from collections.abc import Callable

from durable_sessions.clock import Clock
from durable_sessions.errors import DurableSessionsError, SearchUnavailableError
from durable_sessions.limits import Limits
from durable_sessions.search.link import WorkerLink
from durable_sessions.search.messages import Add, Erase, Remove
from durable_sessions.search.unsent_changes import UnsentChanges
from durable_sessions.search.waiting_searches import WaitingSearches
from durable_sessions.storage.door import Streams

CHUNK_BYTES = 512 * 1024
"""How much of a stream is read and sent at a time."""
_READ_AT_ONCE = 32
_ERASED_AT_ONCE = 500
"""How many erased events are sent in one message."""


class ChangeSender:
    """Sends what there is to send, and wakes the searches that waited for it.

    A change is forgotten only after it was sent. Each step lets other tasks run, so what they have noted
    meanwhile is looked at again afterwards. ``connected`` returns the worker, or raises if there is none.
    """

    def __init__(
        self,
        changes: UnsentChanges,
        searches: WaitingSearches,
        streams: Streams,
        clock: Clock,
        limits: Limits,
        connected: Callable[[], WorkerLink],
    ) -> None:
        self._changes = changes
        self._searches = searches
        self._streams = streams
        self._clock = clock
        self._limits = limits
        self._connected = connected
        self.unpaused = asyncio.Event()
        self.unpaused.set()
        self.events_sent = 0

    async def send_all(self) -> None:
        """Send what there is now."""
        changes = self._changes
        streams = deque(changes.additions)
        unreadable: dict[int, DurableSessionsError] = {}
        while streams or changes.removals or changes.erasures:
            await asyncio.sleep(0)  # sending from memory never waits, so yield to other tasks here
            await self.unpaused.wait()
            # Removals go first: a stream that is sent again after an erasure must be emptied before.
            await self._send_removals()
            await self._send_erasures()
            stream = self._searches.awaited(unreadable)
            if stream is None:
                if not streams:
                    continue
                stream = streams.popleft()
            try:
                is_over = await self._send_some(stream)
            except SearchUnavailableError:
                raise  # the worker failed, and not the read of this stream
            except DurableSessionsError as error:
                unreadable[stream] = error  # it must not keep the others out of the index
                continue
            self._searches.wake()
            if not is_over:
                streams.append(stream)
        if unreadable:
            raise next(iter(unreadable.values()))

    async def _send_removals(self) -> None:
        removals, void = self._changes.removals, self._changes.void
        while removals:
            key, start = next(iter(removals.items()))
            purge_at_ms = self._purge_at_ms() if key in void else 0
            await self._connected().send(Remove(*key, start, purge_at_ms))
            # While it was sent, more of the same stream may have been removed: then it is sent again.
            if removals.get(key) == start:
                del removals[key]
                void.discard(key)
        self._searches.wake()

    async def _send_erasures(self) -> None:
        """Send what stands in place of erased events, of those that the worker has already.

        What was not sent yet is read later, and has no more than everybody else can read.
        """
        erasures = self._changes.erasures
        while erasures:
            key, found = next(iter(erasures.items()))
            handled = await self._send_erased(*key, frozenset(found))
            # More may have been erased while these were sent.
            if left := erasures.pop(key, set()) - handled:
                erasures[key] = left
        self._searches.wake()

    async def _send_erased(self, workspace: str, stream: int, positions: frozenset[int]) -> frozenset[int]:
        """Send some events of a stream; return the positions for which nothing is left to do."""
        durable = self._streams.peek_id(stream)
        if durable is None:
            return positions
        erasures, unsent = durable.erasures, self._changes.additions.get(stream)
        sent = durable.tail if unsent is None else unsent.start
        end = self._changes.forks.visible_end(stream, sent)
        known = sorted(position for position in positions if position < end)
        some = known[:_ERASED_AT_ONCE]
        events = []
        for number, position in enumerate(some):
            found = await self._streams.read(durable, position, 1, position + 1)
            events.append((position, found.data[:-1]))
            if number % _READ_AT_ONCE == 0:
                await asyncio.sleep(0)  # reading from memory never waits
        if events:
            # The last message tells that the index knows of all these erasures.
            is_last = len(some) == len(known)
            message = Erase(workspace, stream, events, erasures if is_last else 0, self._purge_at_ms())
            await self._connected().send(message)
        return positions if len(some) == len(known) else frozenset(some)

    def _purge_at_ms(self) -> int:
        """Return by when the index is written anew, so that its files have no erased events."""
        return self._clock.now_ms() + int(self._limits.delete_within_seconds * 1000 / 2)

    async def _send_some(self, stream: int) -> bool:
        """Send a chunk of what is to be sent of a stream; say whether that was all."""
        additions = self._changes.additions
        unsent = additions.get(stream)
        durable = None if unsent is None else self._streams.peek_id(stream)
        if unsent is None or durable is None:
            additions.drop(stream)
            return True
        end = self._changes.forks.visible_end(stream, durable.tail)
        if unsent.start < end:
            erasures = durable.erasures
            found = await self._streams.read(durable, unsent.start, CHUNK_BYTES, end)
            if durable.erasures != erasures:
                return False  # what was read may have been erased meanwhile
            await self._connected().send(Add(unsent.workspace, stream, unsent.start, found.data, erasures))
            self.events_sent += found.next - unsent.start
            unsent = unsent._replace(start=found.next)
        if stream not in additions:
            return True  # it was removed meanwhile
        # The tail may have moved while the chunk was read and sent.
        if unsent.start >= self._changes.forks.visible_end(stream, durable.tail):
            additions.drop(stream)
            return True
        additions[stream] = unsent
        return False
