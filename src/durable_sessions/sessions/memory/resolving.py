"""Looks up, before a commit, what the memory events of an append name: scopes, and writes in them.

A write that was acknowledged is in its scope for ever, whatever became of its session; so the scope's log
decides what a write is. Targets never change, so that what is found here still holds at the commit.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from durable_sessions.errors import (
    DurableSessionsError,
    EventNotFoundError,
    InvalidEventError,
    MemoryScopeFullError,
    SessionNotFoundError,
    StreamGoneError,
    StreamNotFoundError,
    UnresolvedReferenceError,
)
from durable_sessions.limits import Limits
from durable_sessions.sessions import event_ids, record
from durable_sessions.sessions.drafts import Draft
from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.memory.directory import ScopeDirectory, WritesAsked
from durable_sessions.sessions.memory.recording import MemoryIntent
from durable_sessions.sessions.memory.records import WRITTEN, NamedEvent
from durable_sessions.sessions.reading import EventReader
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.storage.door import Streams, StreamView
from durable_sessions.streams.stream import Key

MemoryEvent = schemas.MemoryWritten | schemas.MemoryRead | schemas.MemoryRolledBack
_RECORD_BYTES = 2_000
"""About how large the record of an event is besides what the event has."""


class _Stored(msgspec.Struct):
    type: str = ""
    scope: str = ""


_STORED = msgspec.json.Decoder(_Stored)


class _Write(NamedTuple):
    """A write that an event names: where the name stands, and the scope if an event that is sent says so."""

    event: NamedEvent
    member: str
    is_sent: bool = False


def concerns(draft: Draft) -> bool:
    """Say whether an event is one of memory."""
    return isinstance(draft.strict, MemoryEvent)


def scopes(drafts: Sequence[Draft]) -> list[str]:
    """Return the scopes that an append concerns, as far as they were looked up."""
    return list(dict.fromkeys(draft.memory.scope for draft in drafts if draft.memory is not None))


class MemoryResolver:
    """Looks up what memory events name."""

    def __init__(
        self, streams: Streams, reader: EventReader, directory: ScopeDirectory, limits: Limits
    ) -> None:
        self._streams = streams
        self._reader = reader
        self._directory = directory
        self._limits = limits

    async def resolve(
        self, key: Key, drafts: Sequence[Draft], refused: dict[int, DurableSessionsError]
    ) -> dict[int, list[str | None]]:
        """Set where each memory event is recorded; add those that name what is not there to ``refused``.

        Return, for events that name writes of other sessions, the incarnations of these, one for each write.
        """
        lives: dict[int, list[str | None]] = {}
        sent: dict[str, str] = {}
        turn = self._reader.turns.begin()
        for index, draft in enumerate(drafts):
            if turn.over:
                await turn.rest()
            event = draft.strict
            try:
                if isinstance(event, schemas.MemoryWritten):
                    draft.memory = MemoryIntent(event.scope, self._directory.is_home(key.workspace))
                    if draft.id is not None:
                        sent[draft.id] = event.scope
                elif isinstance(event, schemas.MemoryRead):
                    draft.memory = await self._read(key, event, sent, index)
                elif isinstance(event, schemas.MemoryRolledBack):
                    draft.memory = await self._rolled_back(key, event, sent, index)
            except UnresolvedReferenceError as unresolved:
                refused.setdefault(index, unresolved)
            if draft.memory is not None:
                found = [_other_life(key, event, one) for one in draft.memory.writes]
                if any(found):
                    lives[index] = found
        await self._require_room(key.workspace, drafts, refused)
        return lives

    async def _read(
        self, key: Key, event: schemas.MemoryRead, sent: dict[str, str], index: int
    ) -> MemoryIntent:
        own = session_of(key)
        wanted = [NamedEvent(one.id, one.session) for one in event.returned]
        # A write of this very append is not in its scope yet, but will be before the read that names it.
        is_sent = [one.session == own and sent.get(one.id) == event.scope for one in wanted]
        asked = [one for one, known in zip(wanted, is_sent, strict=True) if not known]
        found = await self._directory.find(key.workspace, WritesAsked(event.scope, asked))
        if event.at > found.position + sum(is_sent):
            raise InvalidEventError(
                problem=f"ds.memory.read: at is {event.at}, and the scope has {found.position} records.",
                index=index,
                member="at",
            )
        answers = iter(found.writes)
        writes: list[NamedEvent] = []
        for at, (one, known) in enumerate(zip(wanted, is_sent, strict=True)):
            write = NamedEvent(one.id) if known else next(answers)
            if write is None:
                write = await self._inherited(key, event.scope, one)
            if write is None:
                raise UnresolvedReferenceError(
                    what=f"{one.id} of {_session(one)} is no ds.memory.written in {event.scope}",
                    index=index,
                    member=f"returned[{at}]",
                )
            writes.append(write)
        return MemoryIntent(event.scope, self._directory.is_home(key.workspace), writes)

    async def _rolled_back(
        self, key: Key, event: schemas.MemoryRolledBack, sent: dict[str, str], index: int
    ) -> MemoryIntent:
        is_home = self._directory.is_home(key.workspace)
        session = event.session or session_of(key)
        if session == session_of(key) and event.write in sent:
            return MemoryIntent(sent[event.write], is_home, [NamedEvent(event.write)])
        # The session's event tells the scope; if the session is gone or elsewhere, the scopes do.
        scope, life = await self._stored(Key(key.workspace, record.path_of(session)), event.write)
        wanted = NamedEvent(event.write, session, life)
        found = await self._directory.find(key.workspace, WritesAsked(scope, [wanted]))
        write = found.writes[0]
        if write is None or found.scope is None:
            raise UnresolvedReferenceError(
                what=f"{event.write} of the session {session} is no ds.memory.written",
                index=index,
                member="write",
            )
        return MemoryIntent(found.scope, is_home, [write])

    async def _inherited(self, key: Key, scope: str, wanted: NamedEvent) -> NamedEvent | None:
        """Return a write that a fork inherits, by the life of the session that it was appended to."""
        if wanted.session is None:
            return None
        stored, life = await self._stored(Key(key.workspace, record.path_of(wanted.session)), wanted.id)
        if stored != scope or life is None:
            return None
        asked = WritesAsked(scope, [NamedEvent(wanted.id, wanted.session, life)])
        return (await self._directory.find(key.workspace, asked)).writes[0]

    async def _stored(self, key: Key, event: str) -> tuple[str | None, str | None]:
        """Return the scope that a session's event was written to, and the life of its session."""
        try:
            durable: StreamView = self._streams.find(key)
            position, stored = await self._reader.by_id(durable, event)
        except (StreamNotFoundError, StreamGoneError, SessionNotFoundError, EventNotFoundError):
            return None, None
        said = _STORED.decode(stored)
        owner, _ = self._streams.owner(durable, position)
        return (said.scope, event_ids.tag(owner.stream)) if said.type == WRITTEN else (None, None)

    async def _require_room(
        self, workspace: str, drafts: Sequence[Draft], refused: dict[int, DurableSessionsError]
    ) -> None:
        """Refuse what a scope of another partition has no room for; one of this partition says so itself."""
        by_scope: dict[str, list[int]] = {}
        for index, draft in enumerate(drafts):
            if draft.memory is not None:
                by_scope.setdefault(draft.memory.scope, []).append(index)
        if len(by_scope) > self._limits.memory_scopes_per_request_max:
            raise InvalidEventError(
                problem=f"The request is about {len(by_scope)} memory scopes; send at most "
                f"{self._limits.memory_scopes_per_request_max}."
            )
        if self._directory.is_home(workspace):
            return
        for scope, some in by_scope.items():
            size = sum(len(drafts[index].body) + _RECORD_BYTES for index in some)
            found = await self._directory.find(workspace, WritesAsked(scope, [], len(some), size))
            # A scope of another partition takes the records later; it must not refuse what was acknowledged
            # by then.
            if not found.has_room:
                full = MemoryScopeFullError(
                    scope=scope,
                    memory_records_per_scope_max=self._limits.memory_records_per_scope_max,
                    memory_bytes_per_scope_max=self._limits.memory_bytes_per_scope_max,
                )
                for index in some:
                    refused.setdefault(index, full)


def _session(event: NamedEvent) -> str:
    return "no session" if event.session is None else f"the session {event.session}"


def _other_life(key: Key, event: object, write: NamedEvent) -> str | None:
    """Return the incarnation of a write's session if the event names another session than its own."""
    own = session_of(key)
    named = event.session if isinstance(event, schemas.MemoryRolledBack) else write.session
    return write.incarnation if named and named != own else None
