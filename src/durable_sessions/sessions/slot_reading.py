"""Reading slots: which events hold them, at any end of a session, page by page."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from durable_sessions.limits import Limits
from durable_sessions.sessions.reading import EventReader
from durable_sessions.storage.door import Streams, StreamView
from durable_sessions.streams.slots import NameRange

_STEP_NAMES = 100
"""How many names are looked up at a time."""


@dataclass(slots=True)
class AskedSlots:
    """Which slots a read asks for, as of an end: some by name, then those with a prefix, in order of names.

    ``after`` is the last slot of the page before.
    """

    end: int
    limit: int
    names: Sequence[str] = ()
    prefix: str | None = None
    after: str | None = None
    descends: bool = False


class SlotHolder(NamedTuple):
    """A slot, and the event that holds it with its position."""

    name: str
    position: int
    event: bytes


@dataclass(slots=True)
class SlotPage:
    """Slots that are held; ``next_after`` is where the next page goes on, None at the end.

    ``size`` is about how many bytes it takes in an answer.
    """

    slots: list[SlotHolder] = field(default_factory=list)
    next_after: str | None = None
    size: int = 0


class SlotReader:
    """Reads the slots of sessions; what was durable at an end never changes, so all pages agree."""

    def __init__(self, streams: Streams, events: EventReader, limits: Limits) -> None:
        self._streams = streams
        self._events = events
        self._limits = limits

    async def page(self, durable: StreamView, asked: AskedSlots) -> SlotPage:
        """Return the next slots; a page ends at the limit, or before it would become too large."""
        found = SlotPage()
        turn = self._events.turns.begin()
        names, after = _names_left(asked)
        for name in names:
            position = self._streams.slot(durable, name, asked.end)
            if position is not None and not await self._add(found, durable, name, position, asked.limit):
                return found
            if turn.over:
                await turn.rest()
        if asked.prefix is not None:
            wanted = NameRange(asked.prefix, after, asked.descends)
            async for name, position in self._with_prefix(durable, asked, wanted):
                if not await self._add(found, durable, name, position, asked.limit):
                    return found
                if turn.over:
                    await turn.rest()
        return found

    async def _add(self, page: SlotPage, durable: StreamView, name: str, position: int, limit: int) -> bool:
        """Add a slot to a page; say whether it had room for it."""
        if len(page.slots) < limit:
            event = await self._events.one(durable, position)
            page.size += len(event) + len(name.encode()) + 32
            if not page.slots or page.size <= self._limits.page_bytes_max:
                page.slots.append(SlotHolder(name, position, event))
                return True
        page.next_after = page.slots[-1].name
        return False

    async def one(self, durable: StreamView, name: str) -> bytes | None:
        """Return the event that holds a slot now, None if none does."""
        position = self._streams.slot(durable, name, durable.tail)
        return None if position is None else await self._events.one(durable, position)

    async def _with_prefix(
        self, durable: StreamView, asked: AskedSlots, wanted: NameRange
    ) -> AsyncIterator[tuple[str, int]]:
        """Yield the slots of a range of names that are held at the end, with the positions of their holders.

        Those that were asked for by name as well are left out.
        """
        turn = self._events.turns.begin()
        exact = frozenset(asked.names)
        while True:
            # Those that hold something now are enough only if this is the end. It may have moved meanwhile.
            held = asked.end >= durable.tail
            some = self._streams.slot_names(durable, wanted, _STEP_NAMES, held=held)
            for name in some:
                position = None if name in exact else self._streams.slot(durable, name, asked.end)
                if position is not None:
                    yield name, position
                if turn.over:
                    await turn.rest()
            if len(some) < _STEP_NAMES:
                return
            wanted = wanted._replace(after=some[-1])


def _names_left(asked: AskedSlots) -> tuple[Sequence[str], str | None]:
    """Return the names after those of the page before, and the slot after which those with a prefix go on."""
    names = list(dict.fromkeys(asked.names))
    if asked.after is None:
        return names, None
    if asked.after in names:
        return names[names.index(asked.after) + 1 :], None
    return (), asked.after
