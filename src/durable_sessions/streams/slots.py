"""Slots: names within a stream; the latest record that took a slot holds it until another record does.

A stream keeps every change of its slots with its position. So the holder can be told for any position, as
forks need it. Changes that are not flushed yet are in memory, the others in the catalog.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from durable_sessions.streams.effects import EMPTIED_PREFIX, HELD, SlotChange
from durable_sessions.streams.readonly import StreamRecord


class SlotState(NamedTuple):
    """The last change of a slot before an end: its position, and whether the record there holds the slot."""

    position: int
    held: bool


class NameRange(NamedTuple):
    """Which names are asked for: those that begin with ``prefix``, behind ``after`` in their order."""

    prefix: str
    after: str | None = None
    descends: bool = False

    @property
    def low(self) -> str:
        """The least name that may be in it."""
        return max(self.prefix, self.after) if self.after is not None and not self.descends else self.prefix

    @property
    def high(self) -> str | None:
        """A text that is greater than all names in it, None if there is none."""
        end = prefix_end(self.prefix)
        if self.after is None or not self.descends:
            return end
        return self.after if end is None else min(end, self.after)

    def has(self, name: str) -> bool:
        """Say whether a name is in it."""
        if not name.startswith(self.prefix):
            return False
        if self.after is None:
            return True
        return name < self.after if self.descends else name > self.after


def prefix_end(prefix: str) -> str | None:
    """Return the least text that is greater than all texts with a prefix, None if there is none."""
    while prefix:
        following = ord(prefix[-1]) + 1
        if following == 0xD800:
            following = 0xE000  # surrogates are no characters
        if following <= 0x10FFFF:
            return prefix[:-1] + chr(following)
        prefix = prefix[:-1]
    return None


class FlushedSlots(Protocol):
    """The changes of slots as of the last flush."""

    def load_slot(self, stream: int, name: str, end: int) -> SlotState | None:
        """Return the last change of this very slot before an end."""
        ...

    def load_emptied_prefix(self, stream: int, name: str, end: int) -> int | None:
        """Return where a prefix of this name was emptied last before an end."""
        ...

    def load_slot_names(self, stream: int, names: NameRange, limit: int, *, held: bool) -> Sequence[str]:
        """Return the next names that ever changed, in order; with ``held`` those that are held now."""
        ...


class NothingFlushed:
    """The slots of a partition whose streams are all in memory."""

    def load_slot(self, stream: int, name: str, end: int) -> SlotState | None:
        """Return None."""

    def load_emptied_prefix(self, stream: int, name: str, end: int) -> int | None:
        """Return None."""

    def load_slot_names(self, stream: int, names: NameRange, limit: int, *, held: bool) -> Sequence[str]:
        """Return nothing."""
        return ()


class UnflushedSlots:
    """The changes of one stream's slots that are not flushed yet."""

    __slots__ = ("_by_name", "_names", "_prefixes")

    def __init__(self) -> None:
        self._by_name: dict[str, list[SlotState]] = {}
        self._names: list[str] = []  # the same names in order
        self._prefixes: list[tuple[int, str]] = []

    def __bool__(self) -> bool:
        return bool(self._by_name or self._prefixes)

    def add(self, change: SlotChange) -> None:
        """Add a change; positions only grow."""
        if change.kind == EMPTIED_PREFIX:
            self._prefixes.append((change.position, change.name))
            return
        known = self._by_name.get(change.name)
        if known is None:
            known = self._by_name[change.name] = []
            insort(self._names, change.name)
        known.append(SlotState(change.position, change.kind == HELD))

    def last(self, name: str, end: int) -> SlotState | None:
        """Return the last change of this very slot before an end."""
        known = self._by_name.get(name, ())
        return next((change for change in reversed(known) if change.position < end), None)

    def emptied_prefix(self, name: str, end: int) -> int | None:
        """Return where a prefix of this name was emptied last before an end."""
        for position, prefix in reversed(self._prefixes):
            if position < end and name.startswith(prefix):
                return position
        return None

    def names(self, names: NameRange, limit: int) -> Sequence[str]:
        """Return the next names that have changed, in order."""
        begin = bisect_left(self._names, names.low)
        end = len(self._names) if names.high is None else bisect_left(self._names, names.high)
        if names.descends:
            return self._names[max(begin, end - limit) : end][::-1]
        begin += names.after is not None and self._names[begin : begin + 1] == [names.after]
        return self._names[begin : min(end, begin + limit)]

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def after_flush(self, tail: int) -> "UnflushedSlots | None":
        """Return what is left when the changes before ``tail`` are flushed, None if nothing is."""
        left = UnflushedSlots()
        for name, known in self._by_name.items():
            if kept := [change for change in known if change.position >= tail]:
                left._by_name[name] = kept
        left._names = sorted(left._by_name)
        left._prefixes = [one for one in self._prefixes if one[0] >= tail]
        return left if left else None


def last_change(stream: StreamRecord, flushed: FlushedSlots, name: str, end: int) -> SlotState | None:
    """Return the last change of a slot by a stream's own records before an end, None if there is none."""
    if not stream.slot_changes:
        return None
    unflushed = stream.slots
    found = None if unflushed is None else unflushed.last(name, end)
    if found is None:
        found = flushed.load_slot(stream.id, name, end)
    if not stream.emptied_prefixes:
        return found
    emptied = None if unflushed is None else unflushed.emptied_prefix(name, end)
    if emptied is None:
        emptied = flushed.load_emptied_prefix(stream.id, name, end)
    if emptied is None or (found is not None and found.position > emptied):
        return found
    return SlotState(emptied, held=False)


def is_known(stream: StreamRecord, flushed: FlushedSlots, name: str) -> bool:
    """Say whether a stream's own records ever held or emptied this very slot."""
    if not stream.slot_changes:
        return False
    if stream.slots is not None and name in stream.slots:
        return True
    return flushed.load_slot(stream.id, name, stream.tail) is not None


def changed_names(
    stream: StreamRecord, flushed: FlushedSlots, names: NameRange, limit: int, *, held: bool
) -> Iterable[str]:
    """Return the next names that a stream's own records changed, in no order, ``limit`` or more if there are.

    With ``held``, names that were not held at the last flush may be missing.
    """
    if not stream.slot_changes:
        return ()
    found = flushed.load_slot_names(stream.id, names, limit, held=held)
    return found if stream.slots is None else [*found, *stream.slots.names(names, limit)]
