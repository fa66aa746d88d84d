"""The items of a context while it is filled: what they cost, and which of them belong together."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from durable_sessions.sessions.graph.lensed import AdapterLinks

_NUMBERS_BYTES = 32
"""Kept free for each summary, whose range may become wider, and its numbers longer."""

Place = tuple[int, int]
"""Where an item stands: a position, and 0 for a summary, which comes before the event there."""


@dataclass(slots=True)
class ToolPair:
    """A call and its results, which are in together or out together; ``found`` if a query brought them."""

    call: int
    results: set[int] = field(default_factory=set)
    found: bool = False

    @property
    def places(self) -> list[int]:
        """The positions of all its events."""
        return [self.call, *self.results]

    def is_finished(self, boundaries: Collection[int]) -> bool:
        """Whether the call has a result that counts: a fork cannot answer a call that it inherited."""
        end = min((one for one in boundaries if one > self.call), default=None)
        return any(end is None or result < end for result in self.results)


class ContextFill:
    """Items by place, as long as there is room for them in bytes."""

    def __init__(self, room: int) -> None:
        self._room = max(room, 0)
        self._items: dict[Place, tuple[str, bytes]] = {}
        self._found: set[int] = set()
        self.pairs: dict[str, ToolPair] = {}

    def __contains__(self, position: int) -> bool:
        return (position, 1) in self._items

    @property
    def room(self) -> int:
        """How many bytes are left."""
        return self._room

    def add(self, events: dict[int, tuple[str, bytes]]) -> bool:
        """Add events with their ids, all or none; return whether they fit."""
        cost = sum(_cost(item) for _, item in events.values())
        if cost > self._room:
            return False
        self._room -= cost
        self._items.update({(position, 1): event for position, event in events.items()})
        return True

    def add_found(self, events: dict[int, tuple[str, bytes]]) -> bool:
        """Add events that a query found, all or none: these stay, also where a summary replaces others."""
        self._found |= events.keys()
        return self.add(events)

    def summarize(self, position: int, event: str, item: bytes) -> bool:
        """Add a summary; return whether it fits."""
        cost = _cost(item) + _NUMBERS_BYTES
        if cost > self._room:
            return False
        self._room -= cost
        self._items[position, 0] = event, item
        return True

    def move_summary(self, position: int, to: int, item: bytes) -> None:
        """Give a summary that is in another range, and another place."""
        event, _ = self._items.pop((position, 0))
        self._items[to, 0] = event, item

    def whole_range(self, start: int, stop: int) -> tuple[int, int]:
        """Return a range, widened until it parts no pair that is in."""
        is_wider = True
        while is_wider:
            is_wider = False
            for pair in self.pairs.values():
                inside = [start <= place < stop for place in pair.places]
                if not pair.found and any(inside) and not all(inside):
                    start, stop = min(start, *pair.places), max(stop, *(place + 1 for place in pair.places))
                    is_wider = True
        return start, stop

    def drop_range(self, start: int, stop: int) -> None:
        """Take the events of a range out, but for those that a query found."""
        for name in [name for name, pair in self.pairs.items() if start <= pair.call < stop]:
            if not self.pairs[name].found:
                del self.pairs[name]
        for position, order in list(self._items):
            if order and start <= position < stop and position not in self._found:
                self._drop((position, order))

    def drop_pair(self, name: str) -> None:
        """Take a pair out."""
        for position in self.pairs.pop(name).places:
            if position in self:
                self._drop((position, 1))

    def dropping_parted(self, links: Mapping[int, AdapterLinks]) -> Iterator[None]:
        """Take out adapters' events with a call whose other half is not in, and yield between the steps."""
        kept = {position: one for position, one in links.items() if position in self}
        callers, answerers = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
        for position, one in kept.items():
            for call in one.calls:
                callers[call].add(position)
            for call in one.answered:
                answerers[call].add(position)
            yield
        parted: list[int] = []
        for call in callers.keys() ^ answerers.keys():
            parted += callers[call] | answerers[call]
            yield
        while parted:
            position = parted.pop()
            if position in self:
                self._drop((position, 1))
                for halves, others, calls in (
                    (callers, answerers, kept[position].calls),
                    (answerers, callers, kept[position].answered),
                ):
                    for call in calls:
                        halves[call].discard(position)
                        parted += () if halves[call] else others[call]
            yield

    def __iter__(self) -> Iterator[tuple[str, bytes]]:
        """Yield the event id and JSON of every item, in order."""
        for place in sorted(self._items):
            yield self._items[place]

    def count_before(self, position: int) -> int:
        """Return how many events before a position are in: what a query found, and calls of later results."""
        calls = {pair.call for pair in self.pairs.values()}
        return sum(1 for one in self._found | calls if one < position and one in self)

    def _drop(self, place: Place) -> None:
        _, item = self._items.pop(place)
        self._room += _cost(item)


def _cost(item: bytes) -> int:
    return len(item) + 1  # the comma
