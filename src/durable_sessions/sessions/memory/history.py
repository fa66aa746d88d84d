"""What follows from the log of a scope: which writes are live, at its end and at any position before.

A pure fold that only grows: a write remembers where it was rolled back and read, so that one history answers
for every position. It holds no values: these are read from the log, where they can be erased.
"""

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from durable_sessions.sessions.memory.records import (
    DeleteRecord,
    NamedEvent,
    ReadRecord,
    ScopeRecord,
    WriteRecord,
)

_WRITE_BYTES = 600
"""About how much memory a write takes besides its key and its names."""
_NEVER = 2**62


@dataclass(slots=True, eq=False)
class KnownWrite:
    """A write: its place in the log, what it is called, where it was rolled back, and which reads had it.

    ``began_at`` is the position at which the memory began that it changes: its own if it is new. A deletion
    is a write of nothing, too; one that ``moved`` is followed by a write under another key.
    """

    position: int
    key: str
    event: NamedEvent
    began_at: int
    is_deletion: bool = False
    moved: bool = False
    undone_at: int = _NEVER
    read_at: "array[int]" = field(default_factory=lambda: array("q"))

    def reads(self, at: int) -> int:
        """Return how many of the reads before a position returned it."""
        return bisect_left(self.read_at, at)


class ScopeHistory:
    """The first ``position`` records of a scope."""

    def __init__(self) -> None:
        self.position = 0
        self.bytes_held = 0
        self._writes: list[KnownWrite] = []
        self._places = array("q")  # of the writes, in their order: bisected natively
        self._of_key: dict[str, list[KnownWrite]] = {}
        self._of_memory: dict[int, list[KnownWrite]] = {}
        self._standing: dict[str, list[KnownWrite]] = {}  # of each key, without the last ones if undone
        self._by_life: dict[tuple[str, str], KnownWrite] = {}
        self._by_session: dict[tuple[str, str], KnownWrite] = {}
        self._others: dict[tuple[str, str], int] = {}

    def step(self, record: ScopeRecord) -> None:
        """Add the next record."""
        position, self.position = self.position, self.position + 1
        if isinstance(record, WriteRecord | DeleteRecord):
            self._written(record, position)
            return
        self._others[record.incarnation, record.id] = position
        self.bytes_held += _WRITE_BYTES // 2
        if isinstance(record, ReadRecord):
            for event in dict.fromkeys(record.returned):
                write = self._by_life.get((event.incarnation or "", event.id))
                if write is not None:
                    write.read_at.append(position)
                    self.bytes_held += write.read_at.itemsize
            return
        write = self._by_life.get((record.write.incarnation or "", record.write.id))
        if write is not None:
            # Rolled back again, it changes nothing.
            write.undone_at = min(write.undone_at, position)

    def _written(self, record: WriteRecord | DeleteRecord, position: int) -> None:
        event = NamedEvent(record.id, record.session, record.incarnation)
        before = self._live_now(record.key)
        began_at = position if before is None else before.began_at
        if isinstance(record, DeleteRecord):
            write = KnownWrite(position, record.key, event, began_at, is_deletion=True, moved=record.moved)
        else:
            write = KnownWrite(
                position, record.key, event, began_at if record.began_at is None else record.began_at
            )
        self._of_memory.setdefault(write.began_at, []).append(write)
        self._standing.setdefault(write.key, []).append(write)
        self._writes.append(write)
        self._places.append(position)
        self._of_key.setdefault(record.key, []).append(write)
        self._by_life[record.incarnation, record.id] = write
        self._by_session[record.session, record.id] = write
        self.bytes_held += _WRITE_BYTES + len(record.key) + len(record.id) + len(record.session)

    def _live_now(self, key: str) -> KnownWrite | None:
        """Return what :meth:`live` does at the end; each write that was undone is passed over once."""
        standing = self._standing.get(key, [])
        while standing and standing[-1].undone_at != _NEVER:
            standing.pop()
        return None if not standing or standing[-1].is_deletion else standing[-1]

    # What was live ----------------------------------------------------------------------

    def live(self, key: str, at: int) -> KnownWrite | None:
        """Return the newest write of a key before a position that was not rolled back before it.

        None if there is none, or if it is a deletion.
        """
        return self._newest(self._of_key.get(key, ()), at, at)

    def superseded(self, write: KnownWrite, at: int) -> KnownWrite | None:
        """Return the write that would be live without this one; None if there is none."""
        return self._newest(self._of_key[write.key], write.position, at)

    def replaced(self, write: KnownWrite) -> KnownWrite | None:
        """Return the write that was live under the key when this one was written; None if there was none."""
        return self.superseded(write, write.position)

    def written_after(self, write: KnownWrite) -> Iterator[KnownWrite]:
        """Yield the later writes of the same key."""
        writes = self._of_key[write.key]
        for index in range(bisect_left(writes, write.position + 1, key=_position), len(writes)):
            yield writes[index]

    def newest_first(self, before: int, at: int) -> Iterator[KnownWrite | None]:
        """Yield the writes before a position, newest first; None in place of those that are not live."""
        live = LiveWrites(self, at)
        for index in range(bisect_left(self._places, before) - 1, -1, -1):
            write = self._writes[index]
            yield write if live.has(write) else None

    def keys(self) -> Iterator[str]:
        """Yield all keys that were ever written."""
        yield from self._of_key

    def at(self, position: int) -> KnownWrite | None:
        """Return the write at a position, None if that is another record."""
        index = bisect_left(self._places, position)
        return self._writes[index] if self._places[index : index + 1] == array("q", [position]) else None

    @staticmethod
    def _newest(writes: "list[KnownWrite] | tuple[()]", before: int, at: int) -> KnownWrite | None:
        for index in range(bisect_left(writes, before, key=_position) - 1, -1, -1):
            if writes[index].undone_at >= at:
                return None if writes[index].is_deletion else writes[index]
        return None

    # Memories ---------------------------------------------------------------------------

    def memory(self, began_at: int, at: int) -> KnownWrite | None:
        """Return the live write of the memory that began at a position; None if it is there no more."""
        live = LiveWrites(self, at)
        for write in reversed(self._of_memory.get(began_at, ())):
            if live.has(write):
                return write
            if write.is_deletion and write.position < at:
                return None  # nothing before it is live: a memory may have very many versions
        return None

    def versions(self, before: int, began_at: int | None = None) -> Iterator[KnownWrite | None]:
        """Yield the changes before a position, newest first, of one memory or of all.

        None in place of a deletion that only moved a memory: what it was moved by is the change.
        """
        writes = self._writes if began_at is None else self._of_memory.get(began_at, [])
        for index in range(bisect_left(writes, before, key=_position) - 1, -1, -1):
            yield None if writes[index].moved else writes[index]

    # Names ------------------------------------------------------------------------------

    def find(self, event: NamedEvent) -> KnownWrite | None:
        """Return a write by the life of its session, or the newest by the session's id if none is named."""
        if event.incarnation is not None:
            return self._by_life.get((event.incarnation, event.id))
        return self._by_session.get((event.session or "", event.id))

    def position_of(self, incarnation: str, event: str) -> int | None:
        """Return where the record of an event is; None if this scope has none."""
        write = self._by_life.get((incarnation, event))
        return self._others.get((incarnation, event)) if write is None else write.position


class LiveWrites:
    """The live writes of a scope at one position.

    Each key is looked up once: it may have as many writes as the scope, all of them rolled back.
    """

    def __init__(self, history: ScopeHistory, at: int) -> None:
        self._history = history
        self._at = at
        self._of_key: dict[str, KnownWrite | None] = {}

    def has(self, write: KnownWrite) -> bool:
        """Say whether a write is the live one of its key."""
        if write.key not in self._of_key:
            self._of_key[write.key] = self._history.live(write.key, self._at)
        return self._of_key[write.key] is write


def _position(write: KnownWrite) -> int:
    return write.position
