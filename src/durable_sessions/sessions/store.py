"""The operations on sessions that the HTTP API uses: a change is durable when its awaitable returns."""

import asyncio
import re
from collections.abc import Sequence
from typing import cast

from durable_sessions.clock import Clock
from durable_sessions.errors import (
    ArtifactNotFoundError,
    IncarnationMismatchError,
    InvalidSessionError,
    PreconditionNotMetError,
    SessionNotFoundError,
    StreamGoneError,
    StreamNotFoundError,
)
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.partition_id import PartitionId
from durable_sessions.sessions import (
    append,
    change,
    create,
    digests,
    dropped_at_once,
    dropping,
    event_ids,
    record,
    threads,
    view,
)
from durable_sessions.sessions.batch import Batch, Stored
from durable_sessions.sessions.change import By, Revise
from durable_sessions.sessions.drafts import Draft
from durable_sessions.sessions.folds import Folds
from durable_sessions.sessions.graph.rules import Appender, require_role
from durable_sessions.sessions.leases import LeaseTimes
from durable_sessions.sessions.memory import resolving
from durable_sessions.sessions.memory.directory import OnlyPartition, ScopeDirectory
from durable_sessions.sessions.memory.resolving import MemoryResolver
from durable_sessions.sessions.memory.scopes import Scopes
from durable_sessions.sessions.reading import EventReader
from durable_sessions.sessions.references import Elsewhere, HasArtifact, References, needs_resolving
from durable_sessions.sessions.session_lists import SessionLists
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.session_object import SessionObject
from durable_sessions.sessions.slot_reading import SlotReader
from durable_sessions.sessions.views_file import ViewsFile
from durable_sessions.storage.companions import Companion, accompanied
from durable_sessions.storage.door import Streams, StreamView
from durable_sessions.storage.scans import Scans
from durable_sessions.streams import offsets
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key

_ID = re.compile(r"[A-Za-z0-9_:@-][A-Za-z0-9._:@-]{0,199}", re.ASCII)


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
        partition: PartitionId,
        has_artifact: HasArtifact | None = None,
        elsewhere: Elsewhere | None = None,
        memory: ScopeDirectory | None = None,
        views: ViewsFile | None = None,
    ) -> None:
        self.streams = streams
        self._partition = partition
        self.scans = Scans(limits)
        self.events = EventReader(streams, limits, self.scans.turns)
        self.slots = SlotReader(streams, self.events, limits)
        self.lists = SessionLists(streams, self.slots, self.scans.turns, clock, limits)
        self._clock = clock
        self._ids = ids
        self.limits = self._limits = limits
        self.folds = Folds(streams, self.events, limits, views)
        self.times = LeaseTimes(clock.now_ms(), limits.lease_times_max)
        self.memory = memory or OnlyPartition(Scopes(streams, limits, self.scans.turns))
        resolver = MemoryResolver(streams, self.events, self.memory, limits)
        has_artifact = has_artifact or _no_artifact
        self.references = References(self.find, self.events, has_artifact, elsewhere, limits, resolver)

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
        except (StreamNotFoundError, StreamGoneError):
            raise SessionNotFoundError(session=session_of(key)) from None
        if incarnation is not None and incarnation != event_ids.tag(durable.stream):
            raise IncarnationMismatchError(
                session=session_of(key),
                incarnation=event_ids.tag(durable.stream),
                expected=incarnation[:40],
            )
        return durable

    def shown(self, durable: StreamView) -> SessionObject:
        """Return a session as it is shown."""
        source = durable.stream.parent
        deleted = source is not None and self.streams.is_deleted(source)
        return view.session_object(durable, self.now_ms(), self.times, source_deleted=deleted)

    def find_for_change(self, key: Key, incarnation: str | None) -> StreamView:
        """Return a durable session that is to be changed, or refuse if it is of another incarnation."""
        durable = self.find(key)
        life = event_ids.tag(durable.stream)
        if incarnation not in (None, life):
            raise PreconditionNotMetError(
                problem=f"The session is {life}, not {incarnation}: "
                "that one was deleted, and its id given to another.",
                exists=True,
                tail=offsets.encode(durable.tail),
                incarnation=life,
            )
        return durable

    def life(self, key: Key) -> str | None:
        """Return the incarnation of a session that exists now, None if there is none."""
        durable = self.streams.peek(key)
        return None if durable is None or durable.removed else event_ids.tag(durable.stream)

    async def append_named(self, key: Key, batch: Batch, body_bytes: int) -> Stored:
        """Append events of which some have ids or refer to others, durably, all or nothing.

        Events whose ids exist are not stored again.
        Stored events are compared by the digest in memory; those with ids of the server must be read first.
        """
        if any(draft.strict is not None and draft.strict.is_judgement for draft in batch.drafts):
            require_role(Appender(batch.actor, batch.may_judge))  # before what it refers to is looked for
        if needs_resolving(batch.drafts):
            turn = self.scans.turns.begin()
            resolved = await self.references.resolve(key, batch.drafts)
            batch.calls, batch.lives = resolved.calls, resolved.lives
            batch.unresolved = resolved.refused
            if turn.over:  # of many events the decision, which cannot be interrupted, takes long enough alone
                await turn.rest()
        await dropped_at_once.prepare(batch.drafts)
        while True:
            try:
                stored = await self.append(key, batch, body_bytes, await self._drop_plan(key, batch))
            except dropping.DropPlanStaleError:
                # Somebody else changed slots after the plan was read: read it again, behind what is pending.
                await asyncio.sleep(0)
                continue
            if not stored.repeats.unread:
                # Also for a repeat: the scope may not have had it yet when the first answer was lost.
                await self._remembered(key, batch.drafts)
                return stored
            await self._read_digests(key, stored, batch.digests)

    async def _remembered(self, key: Key, drafts: Sequence[Draft]) -> None:
        """Wait until all memory scopes have what these events say."""
        if scopes := resolving.scopes(drafts):
            await self.memory.delivered(key.workspace, scopes)

    async def _drop_plan(self, key: Key, batch: Batch) -> dropping.DropPlan | None:
        """Return which events an append may drop, None for most, which drop none."""
        if not dropped_at_once.drops(batch.drafts):
            return None
        return await dropping.plan(self.streams, self.events, key, batch, self._limits)

    async def append_on_conditions(self, key: Key, batch: Batch, body_bytes: int) -> Stored:
        """Append events if all conditions hold; a refusal tells by its ids which events hold the slots."""
        try:
            return await self.append_named(key, batch, body_bytes)
        except PreconditionNotMetError as error:
            refused = error
        refused.fields["slots"] = await self._holder_ids(key, refused)
        raise refused

    async def _holder_ids(self, key: Key, refused: PreconditionNotMetError) -> dict[str, str | None]:
        life: str | None = cast("str | None", refused.fields.get("incarnation"))
        holders = cast("dict[str, int | None]", refused.fields.pop("holders", {}))
        try:
            durable = None if life is None else self.find(key, life)
        except (SessionNotFoundError, IncarnationMismatchError):
            durable = None  # deleted meanwhile
        found: dict[str, str | None] = {}
        for name, position in holders.items():
            if durable is None or position is None:
                found[name] = None
            else:
                found[name] = event_ids.stored_id(await self.events.one(durable, position))
                await asyncio.sleep(0)
        return found

    async def _read_digests(self, key: Key, stored: Stored, known: dict[tuple[str, int], int]) -> None:
        try:
            durable = self.find(key, stored.life)
        except (SessionNotFoundError, IncarnationMismatchError):
            return  # deleted meanwhile, so decide again
        for position in stored.repeats.unread:
            known[stored.life, position] = digests.of_stored(await self.events.one(durable, position))
            await asyncio.sleep(0)  # reading from memory never waits, so yield to other tasks here

    def append(
        self, key: Key, batch: Batch, body_bytes: int, drop: dropping.DropPlan | None = None
    ) -> "asyncio.Future[Stored]":
        """Append events durably, all or nothing.

        For events with ids or refs, and those that drop others, use :meth:`append_named`.
        """
        self.streams.admit(body_bytes)
        decide = append.decide if batch.epoch is None else self._append_renewing
        if drop is None:
            return self.streams.commit(
                lambda state, now: decide(state, key, batch, now, self._limits, self._ids), (key,)
            )

        def decide_and_drop(state: State, now_ms: int) -> tuple[list[Effect], Stored]:
            effects, stored = decide(state, key, batch, now_ms, self._limits, self._ids)
            dropped = dropping.effects(state, key, batch, drop, stored, now_ms, self._limits)
            return [*effects, *dropped], stored

        return self.streams.commit(decide_and_drop, (key,))

    def _append_renewing(
        self, state: State, key: Key, batch: Batch, now_ms: int, limits: Limits, ids: Ids
    ) -> tuple[list[Effect], Stored]:
        """Decide an append of a worker, which is a sign of life."""
        decided = append.decide(state, key, batch, now_ms, limits, ids)
        stream = state.get(key)
        if stream is not None and batch.epoch is not None:
            self.times.renew(stream.id, batch.epoch, now_ms)
        return decided

    async def create(self, key: Key, request: create.NewSession, body_bytes: int) -> create.Made:
        """Create a session durably; the answer says whether it is new."""
        self.streams.admit_document(body_bytes)
        source = request.fork
        parent = None if source is None else Key(key.workspace, source.source)
        keys = (key,) if parent is None else (key, parent)
        if needs_resolving(request.drafts):
            resolved = await self.references.resolve(key, request.drafts, parent)
            request.calls, request.lives = resolved.calls, resolved.lives
            request.unresolved = resolved.refused
        await dropped_at_once.prepare(request.drafts)
        while True:
            made = await self.streams.commit(
                lambda state, now: create.decide(state, key, request, now, self._limits, self._ids), keys
            )
            if made.unfolded is None:
                await self._remembered(key, request.drafts)
                return made
            # The fork begins before the last change of control: what it inherits is folded first, then it is
            # decided again, since deciding cannot wait for a fold.
            number, base = made.unfolded
            durable = self.streams.peek_id(number)
            if durable is not None:
                fold = await self.folds.at(durable, base)
                request.folded[made.unfolded] = fold.control.cross_fork().attributes()

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


async def _no_artifact(workspace: str, digest: str) -> object:
    raise ArtifactNotFoundError(digest=digest)
