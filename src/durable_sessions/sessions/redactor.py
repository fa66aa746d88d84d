"""Redacts events: reads what is to be erased, plans, and commits until the plan holds."""

from collections.abc import Iterator

import msgspec

from durable_sessions import lenient
from durable_sessions.errors import InvalidRequestError, LegalHoldError
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import event_ids, redaction, tombstones
from durable_sessions.sessions.change import By
from durable_sessions.sessions.memory import erasing
from durable_sessions.sessions.memory.directory import WritesAsked
from durable_sessions.sessions.memory.records import ROLLED_BACK, WRITTEN, NamedEvent, scope_key
from durable_sessions.sessions.redaction import (
    EventToErase,
    MemoryToErase,
    Redacted,
    Redaction,
    RedactionPlan,
)
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.companions import Companion, accompanied
from durable_sessions.storage.door import StreamView
from durable_sessions.storage.turns import Turn
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key
from durable_sessions.threads import CPU


class _Listed(msgspec.Struct):
    id: str = ""
    sha256: str | None = None


class _Recorded(msgspec.Struct):
    type: str = ""
    events: list[_Listed] = []


class _MemoryEvent(msgspec.Struct):
    type: str = ""
    scope: str | None = None
    write: str | None = None
    session: str | None = None


_RECORDED = msgspec.json.Decoder(_Recorded)
_MEMORY = msgspec.json.Decoder(_MemoryEvent)
_REMEMBERED = frozenset((WRITTEN, ROLLED_BACK))


class EventRedactor:
    """Erases events of sessions durably; what was erased before is answered as it was then."""

    def __init__(self, sessions: Sessions, ids: Ids, limits: Limits) -> None:
        self._sessions = sessions
        self._streams = sessions.streams
        self._ids = ids
        self._limits = limits

    async def redact(
        self, key: Key, request: Redaction, by: By, companion: Companion | None = None
    ) -> Redacted:
        """Erase events durably: on return no answer, and no reader, has them any more."""
        # Planning reads events, so others may append, fork or erase meanwhile. The decision at the tip checks
        # that the plan still holds, and changes nothing if it does not.
        while True:
            durable = self._sessions.find_for_change(key, by.incarnation)
            plan, scopes = await self._plan(durable, request)
            done = await self._repeated(durable, plan)
            if done is None:
                done = await self._commit(key, request, plan, by, companion)
            if done.done:
                await self._sessions.memory.delivered(key.workspace, scopes)
                return done

    async def _commit(
        self, key: Key, request: Redaction, plan: RedactionPlan, by: By, companion: Companion | None
    ) -> Redacted:
        self._streams.admit(sum(len(one.remains.kept) for one in plan.targets))

        def decide(state: State, now_ms: int) -> tuple[list[Effect], Redacted]:
            effects, answer = redaction.decide(state, key, request, plan, by, now_ms, self._limits, self._ids)
            if not effects:
                return [], answer
            # Memory in another partition, and the audit record there, are both owed by this batch.
            return state.outbox.numbered(accompanied(effects, companion, state, now_ms)), answer

        return await self._streams.commit(decide, (key,))

    async def _plan(self, durable: StreamView, request: Redaction) -> tuple[RedactionPlan, set[str]]:
        """Read the events, and find all streams that show them; also return the memory scopes that do."""
        # Noted before the forks are walked: a fork that is made meanwhile has this number or a higher one.
        plan = RedactionPlan(next_stream=self._streams.next_stream)
        scopes: set[str] = set()
        for event in dict.fromkeys(request.events):
            position, stored = await self._sessions.events.by_id(durable, event)
            owner, _ = self._streams.owner(durable, position)
            plan.erasures[owner.stream.id] = owner.erasures
            found = await CPU.run(tombstones.remains, stored)
            if not tombstones.can_be_erased(found.type):
                raise InvalidRequestError(
                    problem=f"Event {event} is a {found.type}, which cannot be redacted: it says who acted. "
                    "Leave it out."
                )
            target = EventToErase(owner.stream.id, position, found)
            plan.targets.append(target)
            if found.type in _REMEMBERED and (scope := await self._scope(owner, stored)) is not None:
                scopes.add(scope)
                await self._add_memory(plan, target, owner, scope)
        for one in plan.targets:
            await self._add_readers(plan, one)
        return plan, scopes

    async def _scope(self, owner: StreamView, stored: bytes) -> str | None:
        """Return the memory scope that an event is recorded in, None if in none."""
        said = lenient.decode(_MEMORY, stored)
        if said.type == WRITTEN or said.write is None:
            return said.scope
        key = owner.stream.key
        wanted = NamedEvent(said.write, said.session or session_of(key))
        found = await self._sessions.memory.find(key.workspace, WritesAsked(None, [wanted]))
        return found.scope

    async def _add_memory(
        self, plan: RedactionPlan, target: EventToErase, owner: StreamView, scope: str
    ) -> None:
        """Add what a memory scope has of an event."""
        memory, workspace = self._sessions.memory, owner.stream.key.workspace
        life = event_ids.tag(owner.stream)
        if not memory.is_home(workspace):
            if (await memory.find(workspace, WritesAsked(scope, []))).is_held:
                raise LegalHoldError(path=scope_key(workspace, scope).path)
            plan.memory.append(MemoryToErase(target, scope, life, None))
            return
        record = await erasing.found(memory.scopes, workspace, scope, life, target.remains.id)
        if record is not None:
            plan.memory.append(MemoryToErase(target, scope, life, record))

    async def _add_readers(self, plan: RedactionPlan, target: EventToErase) -> None:
        """Add the stream that holds an event, and all forks that show it."""
        turn = self._sessions.scans.turns.begin()
        waiting = [target.stream]
        while waiting:
            number = waiting.pop()
            shown = self._streams.peek_id(number)
            if shown is None:
                continue
            if shown.stream.held:
                raise LegalHoldError(path=shown.stream.key.path)
            plan.shown_by.add(number)
            if redaction.without_texts(shown.attributes, [target.remains], self._limits):
                plan.rewritten.setdefault(number, []).append(target.remains)
            waiting += self._forks_showing(number, target.position)
            await _rest(turn)

    def _forks_showing(self, number: int, position: int) -> Iterator[int]:
        for fork in self._streams.forks(number):
            shown = self._streams.peek_id(fork)
            if shown is not None and shown.stream.base > position:
                yield fork

    async def _repeated(self, durable: StreamView, plan: RedactionPlan) -> Redacted | None:
        """Return the answer of an earlier request if it erased all of these events, else None.

        A client could send an event that looks like a tombstone. So it counts only if the event that it names
        says so too; any other is erased again, which leaves nothing of it.
        """
        found: bytes | None = None
        for one in plan.targets:
            found = await self._recorded(durable, one)
            if found is None:
                return None
        return Redacted(event_ids.tag(durable.stream), event=found)

    async def _recorded(self, durable: StreamView, target: EventToErase) -> bytes | None:
        """Return the event that recorded the erasure of this one, None if there is none."""
        earlier = target.remains.earlier
        position = None if earlier is None or earlier.event is None else event_ids.position_of(earlier.event)
        if earlier is None or position is None:
            return None
        wanted = (target.remains.id, earlier.sha256)
        # It is in the session, or in the one that the event was inherited from.
        for view in (durable, self._streams.peek_id(target.stream)):
            if view is None or position >= view.tail:
                continue
            stored = await self._sessions.events.one(view, position)
            try:
                said = _RECORDED.decode(stored)
            except msgspec.MsgspecError:
                continue
            if said.type == redaction.REDACTED and wanted in [(one.id, one.sha256) for one in said.events]:
                return stored
        return None


async def _rest(turn: Turn) -> None:
    if turn.over:
        await turn.rest()
