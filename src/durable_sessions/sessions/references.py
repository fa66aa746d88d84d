"""Resolves what strict events refer to, before they are committed.

Targets never change once they are stored, so what is found here still holds at the commit. Refs to events of
the session itself are resolved at the tip instead, where pending events count, too.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from durable_sessions.errors import (
    ArtifactNotFoundError,
    ArtifactRedactedError,
    DurableSessionsError,
    EventNotFoundError,
    SessionNotFoundError,
    UnresolvedReferenceError,
)
from durable_sessions.limits import Limits
from durable_sessions.sessions import event_ids, record
from durable_sessions.sessions.drafts import Draft
from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.happened import CALLS
from durable_sessions.sessions.graph.schemas import Ref
from durable_sessions.sessions.memory import resolving
from durable_sessions.sessions.memory.resolving import MemoryResolver
from durable_sessions.sessions.reading import EventReader
from durable_sessions.storage.door import StreamView
from durable_sessions.storage.turns import Turn
from durable_sessions.streams.stream import Key

Find = Callable[[Key], StreamView]
HasArtifact = Callable[[str, str], Awaitable[object]]
"""Finds an artifact of a workspace by its digest, or refuses."""


class KnownEvents(msgspec.Struct, array_like=True):
    """A session's incarnation, and which of the events that were asked for it has."""

    incarnation: str
    events: frozenset[str]


Elsewhere = Callable[[Key, Sequence[str]], Awaitable[KnownEvents | None]]
"""Looks up events of a session that is not in this partition; None if it is in no other either."""


class _Typed(msgspec.Struct):
    type: str = ""


_TYPE = msgspec.json.Decoder(_Typed)


@dataclass(slots=True)
class Resolved:
    """What was found: the incarnations of other sessions by event, and the events that are tool calls.

    ``refused`` says, by event, why one is refused if it is new: what it refers to is not there.
    """

    lives: dict[int, list[str | None]] = field(default_factory=dict)
    calls: set[str] = field(default_factory=set)
    refused: dict[int, DurableSessionsError] = field(default_factory=dict)


def needs_resolving(drafts: Sequence[Draft]) -> bool:
    """Say whether an append refers to anything that must be looked up before it is committed."""
    return any(
        draft.strict is not None
        and (
            any(ref.session is not None or ref.artifact is not None for ref in draft.strict.refs)
            or resolving.concerns(draft)
            or isinstance(
                draft.strict, schemas.ContextReset | schemas.ArtifactAttached | schemas.ApprovalDecided
            )
        )
        for draft in drafts
    )


class References:
    """Looks up events and sessions, of other partitions too, and artifacts.

    ``elsewhere`` asks the other partitions, None if there are none.
    """

    def __init__(
        self,
        find: Find,
        reader: EventReader,
        has_artifact: HasArtifact,
        elsewhere: Elsewhere | None,
        limits: Limits,
        memory: MemoryResolver,
    ) -> None:
        self._memory = memory
        self._find = find
        self._reader = reader
        self._has_artifact = has_artifact
        self._elsewhere = elsewhere
        self._limits = limits

    async def resolve(self, key: Key, drafts: Sequence[Draft], source: Key | None = None) -> Resolved:
        """Look up everything that an append refers to outside of its own session.

        What is not there refuses the event, unless that is a repeat, which only the decision can tell.
        A session that is created as a fork has the events of its ``source``.
        """
        resolved = Resolved()
        turn = self._reader.turns.begin()
        # Events of this very append, which may be referred to by those behind them but are not stored yet.
        sent = {draft.id: draft.type for draft in drafts if draft.id is not None}
        others = {} if self._elsewhere is None else await self._known_elsewhere(self._elsewhere, key, drafts)
        for index, draft in enumerate(drafts):
            if draft.strict is None:
                continue
            try:
                await self._resolve_refs(key, draft.strict, resolved, index, others, turn)
                await self._resolve_members(key, draft.strict, resolved, index, sent, source)
            except UnresolvedReferenceError as refused:
                resolved.refused[index] = refused
        await self._resolve_memory(key, drafts, resolved)
        return resolved

    async def _resolve_members(
        self,
        key: Key,
        event: schemas.StrictEvent,
        resolved: Resolved,
        index: int,
        sent: dict[str, str],
        source: Key | None,
    ) -> None:
        """Look up what a member of an event names."""
        if isinstance(event, schemas.ContextReset):
            if await self._type_of(source or key, event.checkpoint, sent) != "ds.checkpoint":
                raise UnresolvedReferenceError(
                    what=f"{event.checkpoint} is no ds.checkpoint of this session",
                    index=index,
                    member="checkpoint",
                )
        elif isinstance(event, schemas.ArtifactAttached):
            await self._require_artifact(key, event.sha256, index, "sha256")
        elif isinstance(event, schemas.ApprovalDecided):
            await self._look_for_call(key, event.request, sent, resolved)

    async def _known_elsewhere(
        self, elsewhere: Elsewhere, key: Key, drafts: Sequence[Draft]
    ) -> dict[Key, KnownEvents]:
        """Look up what an append refers to in sessions of other partitions, each session once."""
        asked: dict[Key, dict[str, None]] = {}
        for draft in drafts:
            for ref in () if draft.strict is None else draft.strict.refs:
                if ref.session is not None and ref.artifact is None:
                    other = Key(key.workspace, record.path_of(ref.session))
                    if other != key:
                        asked.setdefault(other, {})[ref.id] = None
        known: dict[Key, KnownEvents] = {}
        for other, events in asked.items():
            # Looked for here first: asking the other partitions takes a request to each.
            if not self._is_here(other) and (found := await elsewhere(other, list(events))) is not None:
                known[other] = found
        return known

    def _is_here(self, key: Key) -> bool:
        try:
            self._find(key)
        except SessionNotFoundError:
            return False
        return True

    async def known(self, key: Key, events: Sequence[str]) -> KnownEvents | None:
        """Say which events a session of this partition has; None if it is not here."""
        try:
            durable = self._find(key)
        except SessionNotFoundError:
            return None
        turn = self._reader.turns.begin()
        found: list[str] = []
        for event in events:
            try:
                await self._reader.by_id(durable, event)
            except (SessionNotFoundError, EventNotFoundError):
                continue
            found.append(event)
            if turn.over:
                await turn.rest()
        return KnownEvents(event_ids.tag(durable.stream), frozenset(found))

    async def _resolve_memory(self, key: Key, drafts: Sequence[Draft], resolved: Resolved) -> None:
        """Look up the writes that memory events name; their incarnations follow those of the refs."""
        if not any(map(resolving.concerns, drafts)):
            return
        for index, lives in (await self._memory.resolve(key, drafts, resolved.refused)).items():
            event = drafts[index].strict
            assert event is not None
            # One list for both, in this order: an event stores the incarnations without saying which is
            # whose.
            of_refs = resolved.lives.get(index, [None] * len(event.refs))
            resolved.lives[index] = [*of_refs, *lives]

    async def _resolve_refs(
        self,
        key: Key,
        event: schemas.StrictEvent,
        resolved: Resolved,
        index: int,
        others: dict[Key, KnownEvents],
        turn: Turn,
    ) -> None:
        for at, ref in enumerate(event.refs):
            await self._resolve_ref(key, ref, resolved, index, at, len(event.refs), others)
            if turn.over:
                await turn.rest()

    async def _resolve_ref(
        self,
        key: Key,
        ref: Ref,
        resolved: Resolved,
        index: int,
        at: int,
        count: int,
        others: dict[Key, KnownEvents],
    ) -> None:
        if (digest := ref.artifact) is not None:
            await self._require_artifact(key, digest, index, f"refs[{at}]")
        elif ref.session is not None and record.path_of(ref.session) != key.path:
            other = Key(key.workspace, record.path_of(ref.session))
            known = others.get(other) or await self.known(other, (ref.id,))
            life = None if known is None or ref.id not in known.events else known.incarnation
            if life is None:
                raise UnresolvedReferenceError(
                    what=f"there is no event {ref.id} in the session {ref.session}",
                    index=index,
                    member=f"refs[{at}]",
                )
            resolved.lives.setdefault(index, [None] * count)[at] = life

    async def _require_artifact(self, key: Key, digest: str, index: int, path: str) -> None:
        try:
            await self._has_artifact(key.workspace, digest)
        except (ArtifactNotFoundError, ArtifactRedactedError):
            raise UnresolvedReferenceError(
                what=f"there is no artifact {digest[:64]}; PUT it first", index=index, member=path
            ) from None

    async def _look_for_call(self, key: Key, request: str, sent: dict[str, str], resolved: Resolved) -> None:
        """Find out whether the request that is decided is about a tool call."""
        try:
            durable = self._find(key)
        except SessionNotFoundError:
            return
        pending = Control(durable.attributes, self._limits).approvals
        about = next((one.about for one in pending if one.id == request), None)
        if about is not None and await self._type_of(key, about, sent) in CALLS:
            resolved.calls.add(about)

    async def _type_of(self, key: Key, event: str, sent: dict[str, str]) -> str | None:
        """Return the type of an event of the session, or of one that is sent with this very append."""
        if event in sent:
            return sent[event]
        try:
            _, stored = await self._reader.by_id(self._find(key), event)
        except (SessionNotFoundError, EventNotFoundError):
            return None
        return _TYPE.decode(stored).type
