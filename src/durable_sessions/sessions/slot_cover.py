"""Which of several events changes a slot, by its name or by a prefix: one look-up, however many they are."""

from bisect import bisect_left, bisect_right
from typing import Generic, TypeVar

from durable_sessions.sessions.slots import SlotWish

T = TypeVar("T")


class SlotCover(Generic[T]):
    """The slots that events hold or empty, each with what was noted of the first such event.

    Of two prefixes of which one begins with the other, only the shorter is kept. So the only one that a name
    can begin with is the last that is not behind it in order.
    """

    def __init__(self) -> None:
        self._names: dict[str, T] = {}
        self._prefixes: list[str] = []
        self._noted: dict[str, T] = {}

    def add(self, wish: SlotWish, noted: T) -> None:
        """Add what an event does with slots."""
        for name in wish.names:
            self._names.setdefault(name, noted)
        prefix = wish.prefix
        if prefix is None or self._prefix_of(prefix) is not None:
            return
        first = last = bisect_left(self._prefixes, prefix)
        while last < len(self._prefixes) and self._prefixes[last].startswith(prefix):
            last += 1
        for longer in self._prefixes[first:last]:
            del self._noted[longer]
        self._prefixes[first:last] = [prefix]
        self._noted[prefix] = noted

    def get(self, name: str) -> T | None:
        """Return what was noted of an event that changes a slot, None if none does."""
        if name in self._names:
            return self._names[name]
        prefix = self._prefix_of(name)
        return None if prefix is None else self._noted[prefix]

    def _prefix_of(self, name: str) -> str | None:
        at = bisect_right(self._prefixes, name)
        return self._prefixes[at - 1] if at and name.startswith(self._prefixes[at - 1]) else None
