"""The operations on sessions that the HTTP API uses: a change is durable when its awaitable returns."""

import asyncio
import re
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from durable_sessions.clock import Clock
from durable_sessions.errors import (
    IncarnationMismatchError,
    InvalidSessionError,
    SessionGoneError,
    SessionNotFoundError,
    StreamGoneError,
    StreamNotFoundError,
)
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from durable_sessions.partition_map import home_partition
from durable_sessions.sessions import append, change, create, digests, event_ids, record, threads
from durable_sessions.sessions.change import By, Revise
from durable_sessions.sessions.reading import EventReader
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.sort_key import SortKey
from durable_sessions.storage.companions import Companion, accompanied
from durable_sessions.storage.door import Streams, StreamView
from durable_sessions.storage.scans import Scans
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key

Wanted = Callable[[StreamView], bool]
"""Says whether a session passes a filter."""

_STEP_SESSIONS = 100
"""How many sessions one step of a scan takes from memory and catalog."""
_ID = re.compile(r"[A-Za-z0-9_:@-][A-Za-z0-9._:@-]{0,199}", re.ASCII)


@dataclass(slots=True)
class Listed:
    """A page of encoded sessions, each with its place.

    ``next`` is where the next page begins, None at the end.
    """

    sessions: list[tuple[SortKey, bytes]]
    next: int | None


def session_key(workspace: str, session: str) -> Key:
    """Return the key of a session's stream, or refuse an invalid id."""
    if not _ID.fullmatch(session):
        raise InvalidSessionError(
            problem="A session's id is 1 to 200 of A-Z a-z 0-9 . _ : @ - and does not begin with a dot."
        )
    return Key(workspace, record.path_of(session))


class Sessions:
    """All sessions of a partition."""

    def __init__(
        self,
        streams: Streams,
        clock: Clock,
        ids: Ids,
        limits: Limits,
        partition: PartitionId = ONLY_PARTITION,
    ) -> None:
        self.streams = streams
        self._partition = partition
        self.scans = Scans(limits)
        self.events = EventReader(streams, limits, self.scans.turns)
        self._clock = clock
        self._ids = ids
        self.limits = self._limits = limits

    def now_ms(self) -> int:
        """Return the time that new events get."""
        return self._clock.now_ms()

    def new_id(self, workspace: str) -> str:
        """Return an id for a session that was not given one, whose home is this partition."""
        while True:
            name = self._ids.token("sesn_")
            if home_partition(workspace, record.path_of(name), self._partition.of) == self._partition.number:
                return name

    def find(self, key: Key, incarnation: str | None = None) -> StreamView:
        """Return a durable session, or refuse; wait for ``settled`` before answering a refusal.

        ``incarnation`` must be the session's.
        """
        try:
            durable = self.streams.find(key)
        except StreamNotFoundError:
            raise SessionNotFoundError(session=session_of(key)) from None
        except StreamGoneError:
            raise SessionGoneError(session=session_of(key)) from None
        if incarnation is not None and incarnation != event_ids.tag(durable.stream):
            raise IncarnationMismatchError(
                session=session_of(key),
                incarnation=event_ids.tag(durable.stream),
                expected=incarnation[:40],
            )
        return durable

    def life(self, key: Key) -> str | None:
        """Return the incarnation of a session that exists now, None if there is none."""
        durable = self.streams.peek(key)
        return None if durable is None or durable.removed else event_ids.tag(durable.stream)

    async def append_named(self, key: Key, batch: append.Batch, body_bytes: int) -> append.Stored:
        """Append events of which some have ids, durably, all or nothing; ids that exist are not stored again.

        Stored events are compared by the digest in memory; those with ids of the server must be read first.
        """
        while True:
            stored = await self.append(key, batch, body_bytes)
            if not stored.repeats.unread:
                return stored
            await self._read_digests(key, stored, batch.digests)

    async def _read_digests(self, key: Key, stored: append.Stored, known: dict[tuple[str, int], int]) -> None:
        try:
            durable = self.find(key, stored.life)
        except (SessionNotFoundError, SessionGoneError, IncarnationMismatchError):
            return  # deleted meanwhile, so decide again
        for position in stored.repeats.unread:
            known[stored.life, position] = digests.of_stored(await self.events.one(durable, position))
            await asyncio.sleep(0)  # reading from memory never waits, so yield to other tasks here

    def append(self, key: Key, batch: append.Batch, body_bytes: int) -> "asyncio.Future[append.Stored]":
        """Append events durably, all or nothing; for events with ids use :meth:`append_named`."""
        self.streams.admit(body_bytes)
        return self.streams.commit(
            lambda state, now: append.decide(state, key, batch, now, self._limits, self._ids), (key,)
        )

    def create(self, key: Key, request: create.NewSession, body_bytes: int) -> "asyncio.Future[create.Made]":
        """Create a session durably; the answer says whether it is new."""
        self.streams.admit_document(body_bytes)
        source = request.fork
        keys = (key,) if source is None else (key, Key(key.workspace, source.source))
        return self.streams.commit(
            lambda state, now: create.decide(state, key, request, now, self._limits, self._ids), keys
        )

    def update(self, key: Key, revise: Revise, by: By) -> "asyncio.Future[str]":
        """Change the properties of a session durably; like all changes, returns its incarnation."""
        self.streams.admit_document(self._limits.session_document_bytes_max)
        return self.streams.commit(
            lambda state, now: change.update(state, key, revise, by, now, self._limits, self._ids), (key,)
        )

    def archive(self, key: Key, by: By) -> "asyncio.Future[str]":
        """Archive a session durably."""
        return self.streams.commit(
            lambda state, now: change.archive(state, key, by, now, self._limits, self._ids), (key,)
        )

    def archive_thread(self, key: Key, thread: str, by: By) -> "asyncio.Future[threads.Thread | None]":
        """Archive a thread durably."""
        return self.streams.commit(
            lambda state, now: change.archive_thread(state, key, thread, by, now), (key,)
        )

    def delete(self, key: Key, by: By, companion: Companion | None = None) -> "asyncio.Future[str]":
        """Delete a session durably."""

        def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], str]:
            effects, life = change.delete(state, key, by, now_ms)
            return accompanied(effects, companion, state, now_ms), life

        return self.streams.commit(decide, (key,))

    async def list(
        self,
        workspace: str,
        after: int | None,
        limit: int,
        wanted: Wanted,
        show: Callable[[StreamView], bytes],
        *,
        newest_first: bool,
    ) -> Listed:
        """Return the next sessions that pass the filter, by creation; scans a bounded number of them.

        A page ends at the limit, or before the session that would make it too large.
        """
        found: list[tuple[SortKey, bytes]] = []
        size = looked = 0
        turn = self.scans.turns.begin()
        now_ms = self._clock.now_ms()
        while looked < self._limits.listed_sessions_max:
            step = min(self._limits.listed_sessions_max - looked, _STEP_SESSIONS)
            page = self.streams.page(workspace, record.FOLDER, after, step, newest_first=newest_first)
            for durable in page.streams:
                if not durable.removed and not durable.stream.expired(now_ms) and wanted(durable):
                    # ``after`` is still the session before this one, so the next page begins with this one.
                    if len(found) == limit:
                        return Listed(found, after)
                    shown = show(durable)
                    size += len(shown) + 1
                    if found and size > self._limits.page_bytes_max:
                        return Listed(found, after)
                    place = SortKey(durable.stream.created_at_ms, durable.stream.id)
                    found.append((place, shown))
                after = durable.stream.id
                if turn.over:
                    await turn.rest()
            looked += len(page.streams)
            if not page.more:
                return Listed(found, None)
        return Listed(found, after)

    async def numbers(self, workspace: str, wanted: Wanted, most: int) -> Sequence[int]:
        """Return the numbers of all sessions that pass the filter; stops at one more than ``most``."""
        found = array("q")
        after: int | None = None
        turn = self.scans.turns.begin()
        now_ms = self._clock.now_ms()
        while True:
            page = self.streams.page(workspace, record.FOLDER, after, _STEP_SESSIONS, newest_first=True)
            for durable in page.streams:
                if not durable.removed and not durable.stream.expired(now_ms) and wanted(durable):
                    found.append(durable.stream.id)
                    if len(found) > most:
                        return found
                after = durable.stream.id
                if turn.over:
                    await turn.rest()
            if not page.more:
                return found
