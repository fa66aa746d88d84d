"""Reading the events of a session: a range of positions, filtered, in either order, page by page."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from dataclasses import dataclass, field

from durable_sessions.errors import ColdReadError, EventNotFoundError, OutcomeUnknownError
from durable_sessions.limits import Limits
from durable_sessions.sessions import event_ids
from durable_sessions.sessions.selection import EVERYTHING, Selection
from durable_sessions.storage.door import Streams, StreamView
from durable_sessions.storage.turns import Turn, Turns
from durable_sessions.streams import messages

_STEP_EVENTS = 32
"""How many events a backward read fetches first; later steps depend on how large the events are."""
_STEP_EVENTS_MAX = 4_096
_STEP_BYTES = 512 * 1024
"""How much is read and split at a time when events are filtered one by one."""


@dataclass(slots=True)
class EventPage:
    """The stored events of a page, joined by commas, in pieces, and where the next page begins.

    Pieces may be views of the memory tier: release them before any other task runs. ``next`` is the position
    to continue from, in the order of the read; ``more`` says whether there is anything left to read.
    ``positions`` are those of the events, None if they are consecutive. ``apart`` are the single events, if
    the read has split them already.
    """

    pieces: Sequence[bytes | memoryview]
    first: int
    next: int
    count: int
    more: bool
    positions: list[int] | None = None
    apart: list[bytes] | None = None

    def events(self) -> list[bytes]:
        """Return the events one by one."""
        if self.apart is not None:
            return self.apart
        return messages.cut(b"".join((*self.pieces, b","))) if self.count else []


@dataclass(slots=True)
class _Found:
    events: list[bytes] = field(default_factory=list)
    positions: list[int] = field(default_factory=list)
    size: int = 0

    def add(self, position: int, event: bytes) -> None:
        self.events.append(event)
        self.positions.append(position)
        self.size += len(event) + 1


class EventReader:
    """Reads events of sessions; the work for one page is bounded, whatever the filter."""

    def __init__(self, streams: Streams, limits: Limits, turns: Turns) -> None:
        self._streams = streams
        self.turns = turns
        self._limits = limits

    @property
    def scanned_events_max(self) -> int:
        """How many events a filtered read looks at."""
        return self._limits.scanned_events_max

    def hot_page(self, durable: StreamView, start: int, stop: int, limit: int) -> EventPage | None:
        """Return the events from ``start`` before ``stop`` if all of them are in memory, else None."""
        end = min(stop, start + limit)
        found = self._streams.read_hot(durable, start, self._limits.page_bytes_max, end)
        if found is None:
            return None
        pieces, following = found
        return EventPage(messages.without_end(pieces), start, following, following - start, following < stop)

    async def page(
        self,
        durable: StreamView,
        start: int,
        stop: int,
        limit: int,
        selection: Selection = EVERYTHING,
        *,
        backwards: bool = False,
        apart: bool = False,
    ) -> EventPage:
        """Return the next events between two positions, forwards from ``start`` or backwards from ``stop``.

        With ``apart`` the page has them one by one.
        """
        if backwards:
            return await self._backwards(durable, start, stop, limit, selection)
        if selection.everything and not apart:
            found = await self._streams.read(
                durable, start, self._limits.page_bytes_max, min(stop, start + limit)
            )
            data = memoryview(found.data)[:-1]
            return EventPage([data], start, found.next, found.next - start, found.next < stop)
        return await self._filtered(durable, start, stop, limit, selection)

    async def one(self, durable: StreamView, position: int) -> bytes:
        """Return the event at a position, which must exist."""
        found = await self._streams.read(durable, position, 1, position + 1)
        return found.data[:-1]

    async def by_id(self, durable: StreamView, event: str) -> tuple[int, bytes]:
        """Return an event by its id, with its position."""
        # An id that a client gave can look like one of the server's, so both places are tried, and the stored
        # id decides.
        positions = []
        stated = event_ids.position_of(event)
        if stated is not None:
            positions.append(stated)
        named = self._streams.named(durable, event_ids.id_name(event))
        if named is not None:
            positions.append(named.first)
        for position in positions:
            if position < durable.tail:
                stored = await self.one(durable, position)
                if stored.startswith(b'{"id":"%b"' % event.encode()):
                    return position, stored
        raise EventNotFoundError(event=event)

    async def stored(self, durable: StreamView, events: list[bytes | int]) -> list[bytes]:
        """Return the events of an append, reading those that are given by their position only.

        The append has been carried out: that its events cannot be read must not look as if it had not.
        """
        try:
            return [event if isinstance(event, bytes) else await self.one(durable, event) for event in events]
        except ColdReadError as error:
            raise OutcomeUnknownError(reason=str(error)) from error

    async def walk(self, durable: StreamView, start: int) -> AsyncIterator[tuple[int, bytes]]:
        """Yield events from ``start`` on with their positions, as many as a filtered read may scan."""
        stop = min(durable.tail, start + self._limits.scanned_events_max)
        async for position, event in self._walk(durable, start, stop):
            yield position, event

    def range(
        self, durable: StreamView, start: int, stop: int, turn: Turn | None = None
    ) -> AsyncGenerator[tuple[int, bytes]]:
        """Yield all events between two positions, in short turns."""
        return self._walk(durable, start, stop, turn)

    async def descending(
        self, durable: StreamView, start: int, stop: int
    ) -> AsyncIterator[list[tuple[int, bytes]]]:
        """Yield the events between two positions in chunks, the last chunk first, each chunk in order."""
        step = _STEP_EVENTS
        while stop > start:
            low = max(start, stop - step)
            chunk = [found async for found in self._walk(durable, low, stop)]
            yield chunk
            # Doubled at most, so that little is read in vain by who stops early.
            step = min(2 * step, self._next_step([event for _, event in chunk]))
            stop = low

    async def _filtered(
        self, durable: StreamView, start: int, stop: int, limit: int, selection: Selection
    ) -> EventPage:
        matches = selection.matcher()
        everything = selection.everything
        found = _Found()
        following = start
        async for position, event in self._walk(durable, start, stop):
            if everything or matches(event):
                if found.events and found.size + len(event) > self._limits.page_bytes_max:
                    break
                found.add(position, event)
            following = position + 1
            if len(found.events) == limit or following - start >= self._limits.scanned_events_max:
                break
        return _page(found, start, following, more=following < stop)

    async def _walk(
        self, durable: StreamView, start: int, stop: int, turn: Turn | None = None
    ) -> AsyncGenerator[tuple[int, bytes]]:
        """Yield events with their positions, and let other tasks run now and then."""
        position = start
        turn = turn or self.turns.begin()
        while position < stop:
            chunk = await self._streams.read(durable, position, _STEP_BYTES, stop)
            if chunk.next == position:  # ``stop`` may lie behind the durable tail
                return
            for event in messages.cut(chunk.data):
                yield position, event
                position += 1
                if turn.over:
                    await turn.rest()

    async def _backwards(
        self, durable: StreamView, start: int, stop: int, limit: int, selection: Selection
    ) -> EventPage:
        """Return events in descending order from the one before ``stop`` down to ``start``."""
        matches = selection.matcher()
        found = _Found()
        position = stop
        step = _STEP_EVENTS
        turn = self.turns.begin()
        while position > start and stop - position < self._limits.scanned_events_max:
            if selection.everything:
                step = min(step, limit - len(found.events))
            low = max(start, position - step)
            events = [event async for _, event in self._walk(durable, low, position)]
            step = self._next_step(events)
            for event in reversed(events):
                if turn.over:
                    await turn.rest()
                if selection.everything or matches(event):
                    if found.events and found.size + len(event) > self._limits.page_bytes_max:
                        return _page(found, start, position, more=True)
                    found.add(position - 1, event)
                position -= 1
                if len(found.events) == limit:
                    return _page(found, start, position, more=position > start)
        return _page(found, start, position, more=position > start)

    def _next_step(self, events: list[bytes]) -> int:
        """Return how many events of this size make up a chunk: of large ones, few are in memory at a time."""
        average = max(1, sum(map(len, events)) // max(1, len(events)))
        return min(max(1, _STEP_BYTES // average), _STEP_EVENTS_MAX)


def _page(found: _Found, first: int, following: int, *, more: bool) -> EventPage:
    joined = b",".join(found.events)
    return EventPage([joined], first, following, len(found.events), more, found.positions, found.events)
