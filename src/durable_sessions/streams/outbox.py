"""The outbox of a partition: records that it owes to streams of other partitions.

What a batch owes is an effect of that same batch, so it is owed if and only if the rest has happened. An
entry stays until the owner of its target has acknowledged it. Entries belong to the partition: no fork
inherits them, and no deletion loses them.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from durable_sessions.errors import OverloadedError
from durable_sessions.streams.effects import Effect, OutboxAdded, OutboxDelivered, OutboxEffect
from durable_sessions.streams.stream import Key

ENTRY_BYTES = 400
"""About how much memory an entry takes besides its record and the path of its target."""
_NOBODY = Key("", "")


class RecordId(NamedTuple):
    """What names a record of an outbox for ever: the lineage of the log that it is from, and its number."""

    source: str
    number: int


class OwedRecord(NamedTuple):
    """A record that has to be delivered: one JSON message for a stream of another partition."""

    target: Key
    id: RecordId
    data: bytes


class PartitionOutbox:
    """Entries that are not delivered yet, in order for each target; changed by effects and by nothing else.

    ``source`` is the lineage of the partition's log. ``on_added`` is called for each new entry, which is not
    durable yet.
    """

    def __init__(self) -> None:
        self.source = ""
        self.on_added: Callable[[], None] | None = None
        self.bytes_held = 0
        self._next = 1
        self._by_target: dict[Key, deque[OutboxAdded]] = {}

    def __len__(self) -> int:
        """Return how many entries are not delivered yet."""
        return sum(map(len, self._by_target.values()))

    @property
    def next_number(self) -> int:
        """The lowest number that no entry has had."""
        return self._next

    def number_from(self, number: int) -> None:
        """Give out no lower number from now on."""
        self._next = max(self._next, number)

    def owe(self, records: Sequence[tuple[Key, bytes]], bytes_max: int) -> list[OutboxAdded]:
        """Return effects that add records; refused if all entries would then take more than ``bytes_max``."""
        added = [
            OutboxAdded(self._next + index, self.source, *target, data)
            for index, (target, data) in enumerate(records)
        ]
        if self.bytes_held + sum(map(_size, added)) > bytes_max:
            raise OverloadedError(what="records that wait for another partition (outbox_bytes_max)")
        return added

    def numbered(self, effects: Sequence[Effect]) -> list[Effect]:
        """Return the effects of one batch with the entries that several parts of it owe numbered in turn."""
        number = self._next
        made: list[Effect] = []
        for effect in effects:
            if isinstance(effect, OutboxAdded):
                made.append(msgspec.structs.replace(effect, number=number))
                number += 1
            else:
                made.append(effect)
        return made

    def apply(self, effect: OutboxEffect) -> None:
        """Apply one effect."""
        if isinstance(effect, OutboxAdded):
            assert effect.number >= self._next, "the numbers of entries grow"
            self._next = effect.number + 1
            self._by_target.setdefault(Key(effect.workspace, effect.path), deque()).append(effect)
            self.bytes_held += _size(effect)
            if self.on_added is not None:
                self.on_added()
            return
        self._next = max(self._next, effect.through + 1)
        target = Key(effect.workspace, effect.path)
        entries = self._by_target.get(target)
        while entries and entries[0].number <= effect.through:
            self.bytes_held -= _size(entries.popleft())
        if entries is not None and not entries:
            del self._by_target[target]

    def last_number(self, target: Key) -> int | None:
        """Return the number of the newest entry that a target has not got yet, None if it has all."""
        entries = self._by_target.get(target)
        return entries[-1].number if entries else None

    def is_owed(self, target: Key, through: int) -> bool:
        """Say whether a target has not got an entry with this number or a lower one yet."""
        entries = self._by_target.get(target)
        return entries is not None and entries[0].number <= through

    def pending(self) -> list[list[OwedRecord]]:
        """Return the entries in the order of their delivery, one list for each target."""
        return [
            [OwedRecord(target, RecordId(entry.source, entry.number), entry.data) for entry in entries]
            for target, entries in self._by_target.items()
        ]

    def snapshot(self) -> list[OutboxEffect]:
        """Return effects that give the same outbox when they are applied to an empty one."""
        if self._next == 1:
            return []
        entries: list[OutboxEffect] = [one for entries in self._by_target.values() for one in entries]
        entries.sort(key=_number)
        # The last one keeps numbers from being used again when everything is delivered: the target would take
        # a new record for one that it has.
        return [*entries, OutboxDelivered(*_NOBODY, self._next - 1)]


def without_delivered(effects: Iterable[Effect]) -> list[Effect]:
    """Return effects without the entries that later ones of them deliver; they give the same outbox."""
    kept = list(effects)
    reached: dict[tuple[str, str], int] = {}
    for effect in kept:
        if isinstance(effect, OutboxDelivered):
            target = effect.workspace, effect.path
            reached[target] = max(reached.get(target, 0), effect.through)
    if not reached:
        return kept
    return [
        effect
        for effect in kept
        if not isinstance(effect, OutboxAdded)
        or effect.number > reached.get((effect.workspace, effect.path), 0)
    ]


def _size(entry: OutboxAdded) -> int:
    return ENTRY_BYTES + len(entry.path) + len(entry.data)


def _number(entry: OutboxEffect) -> int:
    return entry.number if isinstance(entry, OutboxAdded) else entry.through
