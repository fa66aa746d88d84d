"""Reads the memory scopes of a partition: entries, logs and lists, each as of a position."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import NamedTuple

import msgspec

from durable_sessions.bounded_cache import BoundedCache
from durable_sessions.errors import MemoryScopeFullError
from durable_sessions.limits import Limits
from durable_sessions.sessions.memory import recording, records
from durable_sessions.sessions.memory.history import KnownWrite, ScopeHistory
from durable_sessions.sessions.memory.records import (
    FOLDER,
    DeleteRecord,
    NamedEvent,
    ReadRecord,
    ScopeRecord,
    WriteRecord,
    scope_key,
    scope_of,
)
from durable_sessions.sessions.reading import EventReader
from durable_sessions.sessions.tombstones import Mark
from durable_sessions.storage.door import Streams, StreamView
from durable_sessions.storage.turns import Turns
from durable_sessions.streams import messages

_PAGE_SCOPES = 100
_NEAR_BYTES = 64 * 1024
"""How much is read at a time: entries that lie close together are read together."""
_SHOWN = {
    records.WRITTEN: "written",
    records.READ: "read",
    records.ROLLED_BACK: "rolled_back",
    records.DELETED: "deleted",
}


class EventName(msgspec.Struct, frozen=True):
    """An event, and the session that it was appended to; none for an artifact."""

    id: str
    session: str | None


class MemoryEntry(msgspec.Struct, omit_defaults=True):
    """What a scope remembers under a key, and why."""

    scope: str
    key: str
    value: msgspec.Raw
    kind: str
    why: str
    confidence: float | None
    id: str
    session: str | None
    position: int
    created_at: str
    actor: str
    because: list[EventName]
    supersedes: str | None
    reads: int
    redacted: Mark | None = None


class LoggedRecord(msgspec.Struct, omit_defaults=True):
    """One line in the history of a scope."""

    position: int
    type: str
    id: str
    session: str | None
    actor: str
    created_at: str
    key: str | None = None
    why: str | None = None
    returned: list[EventName] | None = None
    influence: str | None = None
    write: str | None = None
    write_session: str | None = None
    reason: str | None = None
    redacted: Mark | None = None


class EntryPage(NamedTuple):
    """Entries, and the position of the last one if there may be more behind it."""

    entries: list[MemoryEntry]
    following: int | None


class ScopeSummary(NamedTuple):
    """A scope: how many entries it has, and how many records."""

    scope: str
    entries: int
    position: int


class Scopes:
    """All memory scopes of a partition.

    A history is kept while it is used, within a bound of bytes. It is derived: without it the log is read
    again.
    """

    def __init__(self, streams: Streams, limits: Limits, turns: Turns | None = None) -> None:
        self.streams = streams
        self._limits = limits
        self.turns = turns or Turns()
        self._reader = EventReader(streams, limits, self.turns)
        self._histories: BoundedCache[int, ScopeHistory] = BoundedCache(
            limits.memory_histories_bytes_max, _size
        )
        self._locks: dict[int, asyncio.Lock] = {}

    @property
    def histories_bytes(self) -> int:
        """About how much memory the histories take that are kept."""
        return self._histories.bytes_held

    def view(self, workspace: str, scope: str) -> StreamView | None:
        """Return the log of a scope, None if nothing was ever recorded in it."""
        found = self.streams.peek(scope_key(workspace, scope))
        return None if found is None or found.removed else found

    async def history(self, view: StreamView) -> ScopeHistory:
        """Return what follows from all records that are durable now, and perhaps from later ones."""
        number = view.stream.id
        # One at a time for each scope: whoever asks meanwhile finds it done.
        lock = self._locks.setdefault(number, asyncio.Lock())
        try:
            async with lock:
                history = self._histories.get(number) or ScopeHistory()
                if history.position < view.tail:
                    self._histories.drop(number)  # so that its size is counted as it was
                    async for _, record in self._reader.range(view, history.position, view.tail):
                        history.step(records.decode(record))
                    self._histories.put(number, history)
                return history
        finally:
            # There may be any number of scopes. A waiter that is only just woken is overlooked: then two read
            # the log, each into a history of its own.
            if not lock.locked():
                self._locks.pop(number, None)

    def has_room(self, scope: str, view: StreamView | None, more_records: int, more_bytes: int) -> bool:
        """Say whether a scope takes more records."""
        tail, held = (0, 0) if view is None else (view.tail, view.record_bytes)
        try:
            recording.require_room(scope, tail, held, more_records, more_bytes, self._limits)
        except MemoryScopeFullError:
            return False
        return True

    # Entries ----------------------------------------------------------------------------

    async def live(self, view: StreamView, at: int, before: int, limit: int) -> EntryPage:
        """Return the live entries of a scope at a position, newest first, from before a position on."""
        history = await self.history(view)
        found: list[KnownWrite] = []
        turn = self.turns.begin()
        for write in history.newest_first(min(before, at), at):
            if turn.over:
                await turn.rest()
            if write is None:
                continue
            # Another one is live behind the page, so there is a next page.
            if len(found) == limit:
                return await self._page(view, history, found, at, more=True)
            found.append(write)
        return await self._page(view, history, found, at, more=False)

    async def by_key(self, view: StreamView, at: int, key: str) -> list[MemoryEntry]:
        """Return the live entry of a key at a position, if there is one."""
        history = await self.history(view)
        write = history.live(key, at)
        return [] if write is None else await self.entries(view, history, [write], at)

    async def _page(
        self, view: StreamView, history: ScopeHistory, found: list[KnownWrite], at: int, *, more: bool
    ) -> EntryPage:
        """Return as many of the entries as fit a page."""
        entries = await self.entries(view, history, found, at)
        if len(entries) < len(found):
            more = True
        return EntryPage(entries, entries[-1].position if more and entries else None)

    async def entries(
        self, view: StreamView, history: ScopeHistory, writes: Sequence[KnownWrite], at: int
    ) -> list[MemoryEntry]:
        """Return writes as entries at a position, in the order given; fewer if they would be too large."""
        made: list[MemoryEntry] = []
        size = 0
        read: dict[int, bytes] = {}
        turn = self.turns.begin()
        for index, write in enumerate(writes):
            if write.position not in read:
                read = await self._read(view, writes[index:])
            stored = read[write.position]
            size += len(stored)
            if made and size > self._limits.page_bytes_max:
                break
            made.append(_entry(scope_of(view.stream.key), stored, history, write, at))
            if turn.over:
                await turn.rest()
        return made

    async def _read(self, view: StreamView, writes: Sequence[KnownWrite]) -> dict[int, bytes]:
        """Return the record of the first write, and those of others that lie close to it."""
        wanted = writes[0].position
        # Newest first is how most are read, so that the next ones lie in front of this one.
        near = [one.position for one in writes[:64] if wanted - 64 < one.position <= wanted]
        first = min(near)
        while True:
            found = await self.streams.read(view, first, _NEAR_BYTES, wanted + 1)
            # The near ones did not fit: then the one that is needed is read alone.
            if found.next > wanted or first == wanted:
                return dict(enumerate(messages.cut(found.data), first))
            first = wanted

    async def record(self, view: StreamView, position: int) -> ScopeRecord:
        """Return the record at a position."""
        found = await self.streams.read(view, position, 1, position + 1)
        return records.decode(found.data[:-1])

    # The log ----------------------------------------------------------------------------

    async def log(self, view: StreamView, start: int, limit: int) -> list[LoggedRecord]:
        """Return the records from a position on, as they are shown."""
        page = await self._reader.page(view, start, view.tail, limit, apart=True)
        return [_logged(place, records.decode(record)) for place, record in enumerate(page.events(), start)]

    async def names(self, workspace: str) -> AsyncIterator[str]:
        """Yield all scopes of a workspace, the newest first."""
        after: int | None = None
        turn = self.turns.begin()
        while True:
            page = self.streams.folders.page(workspace, FOLDER, after, _PAGE_SCOPES, newest_first=True)
            for view in page.streams:
                after = view.stream.id
                if not view.removed:
                    yield scope_of(view.stream.key)
                if turn.over:
                    await turn.rest()
            if not page.more:
                return

    async def summaries(
        self, workspace: str, after: int | None, limit: int
    ) -> tuple[list[ScopeSummary], int | None]:
        """Return the next scopes of a workspace, the newest first, and where the page after them begins."""
        found: list[ScopeSummary] = []
        page = self.streams.folders.page(workspace, FOLDER, after, limit, newest_first=True)
        for view in page.streams:
            after = view.stream.id
            if not view.removed:
                found.append(await self._summary(view))
        return found, after if page.more else None

    async def _summary(self, view: StreamView) -> ScopeSummary:
        history = await self.history(view)
        position = history.position
        turn = self.turns.begin()
        count = 0
        for key in list(history.keys()):
            count += history.live(key, position) is not None
            if turn.over:
                await turn.rest()
        return ScopeSummary(scope_of(view.stream.key), count, position)


def _entry(scope: str, stored: bytes, history: ScopeHistory, write: KnownWrite, at: int) -> MemoryEntry:
    record = records.decode(stored)
    assert isinstance(record, WriteRecord), "the history says that it is one"
    before = history.superseded(write, at)
    return MemoryEntry(
        scope=scope,
        key=record.key,
        value=record.value,
        kind=record.kind,
        why=record.why,
        confidence=record.confidence,
        id=record.id,
        session=record.session or None,
        position=write.position,
        created_at=record.created_at,
        actor=record.actor,
        because=_shown(record.because),
        supersedes=None if before is None else before.event.id,
        reads=write.reads(at),
        redacted=record.redacted,
    )


def _logged(position: int, record: ScopeRecord) -> LoggedRecord:
    kind = _SHOWN[record.__struct_config__.tag]  # type: ignore[index]
    line = LoggedRecord(position, kind, record.id, record.session or None, record.actor, record.created_at)
    if not record.session:
        line.why = records.BY_API
    if isinstance(record, WriteRecord):
        line.key = record.key
        line.redacted = record.redacted
    elif isinstance(record, DeleteRecord):
        line.key = record.key
    elif isinstance(record, ReadRecord):
        line.key, line.returned, line.influence = record.key, _shown(record.returned), record.influence
    else:
        line.write, line.write_session = record.write.id, record.write.session
        line.reason = record.reason
        line.redacted = record.redacted
    return line


def _shown(events: Sequence[NamedEvent]) -> list[EventName]:
    return [EventName(one.id, one.session or None) for one in events]


def _size(_number: int, history: ScopeHistory) -> int:
    return history.bytes_held + 1_000
