"""Branches of sessions: how two of them differ, and what one takes over from the other."""

import asyncio
from dataclasses import dataclass

import msgspec

from durable_sessions.errors import EventNotFoundError, EventTooLargeError, NotAForkError
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import append, event_ids, repeats
from durable_sessions.sessions.batch import JSON, Batch, Stored
from durable_sessions.sessions.drafts import Draft
from durable_sessions.sessions.folds import Folds
from durable_sessions.sessions.graph import adoption, difference, lease, strict
from durable_sessions.sessions.graph.adoption import TYPE, OnConflict, Sides
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.difference import BranchTally, CommonPrefix, SessionDifference
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.graph.rules import Appender
from durable_sessions.sessions.graph.stored import happened
from durable_sessions.sessions.leases import LeaseTimes
from durable_sessions.sessions.reading import EventReader
from durable_sessions.sessions.session_lookup import session_of, usable
from durable_sessions.sessions.store import Sessions
from durable_sessions.sessions.wake import Once, open_session
from durable_sessions.storage.door import StreamView
from durable_sessions.streams.append import Append
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key


@dataclass(frozen=True, slots=True)
class AdoptRequest:
    """A request to take over the durable tier of a branch as of a position."""

    by: Appender
    branch: StreamView
    at: int
    on_conflict: OnConflict = "refuse"
    epoch: int | None = None
    once: Once | None = None
    incarnation: str | None = None


@dataclass(frozen=True, slots=True)
class _Taken:
    """What is taken over from a branch, by a session of which so much was known."""

    known: tuple[int, int]
    body: bytes


class Branches:
    """Compares and adopts branches of the sessions of a partition."""

    def __init__(self, sessions: Sessions, ids: Ids, limits: Limits) -> None:
        self._streams = sessions.streams
        self._reader: EventReader = sessions.events
        self._folds: Folds = sessions.folds
        self._times: LeaseTimes = sessions.times
        self._find = sessions.find
        self._ids = ids
        self._limits = limits

    async def difference(self, a: StreamView, at: int, b: StreamView, b_at: int) -> SessionDifference:
        """Return how two sessions differ, each after this many events."""
        common = self.common(a, at, b, b_at)
        shared = 0 if common is None else common.position
        fold_a, fold_b = await self._folds.at(a, at), await self._folds.at(b, b_at)
        tally_a = await self._tally(a, shared, at, fold_a)
        tally_b = await self._tally(b, shared, b_at, fold_b)
        return SessionDifference(
            tally_a.side(session_of(a.stream.key), fold_a),
            tally_b.side(session_of(b.stream.key), fold_b),
            common,
            difference.differing_facts(fold_a.folded.facts, fold_b.folded.facts),
            difference.differing_verdicts(fold_a, fold_b),
        )

    def common(self, a: StreamView, at: int, b: StreamView, b_at: int) -> CommonPrefix | None:
        """Return the nearest session that both are or were forked from, and how much of it they share."""
        inherited = {view.stream.id: length for view, length in self._ancestors(b, b_at)}
        for view, length in self._ancestors(a, at):
            if view.stream.id in inherited:
                shared = min(length, inherited[view.stream.id])
                return CommonPrefix(session_of(view.stream.key), shared)
        return None

    async def adopt(self, key: Key, request: AdoptRequest) -> Stored:
        """Take over what changed in a branch; durable when it returns."""
        taken: _Taken | None = None
        while True:
            # The first attempt only recognises a repeat. Each further one holds unless the durable tier of
            # the session has changed since it was folded.
            stored = await self._commit(key, request, taken)
            if stored is not None:
                return stored
            taken = await self._taken(self._find(key), request)

    async def adopted_before(self, key: Key, once: Once, incarnation: str | None) -> Stored | None:
        """Return the answer of an earlier request with this key, None if there was none."""

        def decide(state: State, now_ms: int) -> tuple[list[Effect], Stored | None]:
            stream = usable(state, key, now_ms, [])
            if stream is None or incarnation not in (None, event_ids.tag(stream)):
                return [], None
            return [], repeats.of_key(state, stream, once.key, once.check)

        return await self._streams.commit(decide, (key,))

    def _ancestors(self, durable: StreamView, length: int) -> list[tuple[StreamView, int]]:
        """Return a session and those that it inherits from, with how much of each it has."""
        found = [(durable, length)]
        holder: StreamView | None = durable
        while holder is not None and holder.stream.parent is not None:
            length = min(length, holder.stream.base)
            holder = self._streams.peek_id(holder.stream.parent)
            if holder is not None:
                found.append((holder, length))
        return found

    async def _tally(self, durable: StreamView, start: int, stop: int, fold: Fold) -> BranchTally:
        tally = BranchTally(self._limits)
        checked_from = fold.control.core.checked_from if fold.control.is_controlled else None
        async for position, event in self._reader.range(durable, start, stop):
            tally.step(happened(event, position, checked_from))
        return tally

    async def _taken(self, session: StreamView, request: AdoptRequest) -> _Taken:
        branch, name = request.branch, session_of(request.branch.stream.key)
        inherited = {view.stream.id: length for view, length in self._ancestors(branch, request.at)[1:]}
        base = inherited.get(session.stream.id)
        if base is None:
            raise NotAForkError(session=name, source=session_of(session.stream.key))
        tail = session.tail
        here = await self._folds.at(session, tail)
        there = await self._folds.at(branch, request.at)
        began = await self._folds.at(session, min(base, request.at))
        both = here.folded.facts.keys() & there.folded.facts.keys()
        known = {fact.id for fact in began.folded.facts.values()}
        changed = {here.folded.facts[key].id for key in both} - known
        taken = {event for event in changed if await self._has(branch, event, base)}
        event = adoption.adopted(Sides(there, here, began, taken), name, request.on_conflict)
        body = msgspec.json.encode(event)
        if len(body) > self._limits.event_bytes_max:
            raise EventTooLargeError(size=len(body), event_bytes_max=self._limits.event_bytes_max)
        return _Taken(_known(here.control), body)

    async def _has(self, branch: StreamView, event: str, start: int) -> bool:
        """Whether an event is one of a branch's own."""
        try:
            position, _ = await self._reader.by_id(branch, event)
        except EventNotFoundError:
            return False
        return position >= start

    def _commit(
        self, key: Key, request: AdoptRequest, taken: _Taken | None
    ) -> "asyncio.Future[Stored | None]":
        return self._streams.commit(lambda state, now: self._decide(state, key, request, taken, now), (key,))

    def _decide(
        self, state: State, key: Key, request: AdoptRequest, taken: _Taken | None, now_ms: int
    ) -> tuple[list[Effect], Stored | None]:
        opened = open_session(state, key, request.incarnation, now_ms, request.once)
        if isinstance(opened, Stored):
            return [], opened
        control = Control(opened.attributes, self._limits)
        if request.epoch is not None:
            lease.require(control.core.lease, (), request.epoch, request.by.principal)
        if taken is None or taken.known != _known(control):
            return [], None
        draft = Draft(TYPE, taken.body, taken.body[1:], strict=strict.read(TYPE, taken.body))
        name, check = (None, 0) if request.once is None else request.once
        batch = Batch(
            [draft],
            request.by.principal,
            Append(b"", JSON),
            name,
            check,
            creates=False,
            may_judge=request.by.may_judge,
            epoch=request.epoch,
            lives={0: [event_ids.tag(request.branch.stream)]},
        )
        placed = append.place(state, opened, batch, now_ms, self._limits, self._ids)
        if request.epoch is not None:
            self._times.renew(opened.id, request.epoch, now_ms)
        return placed


def _known(control: Control) -> tuple[int, int]:
    """Return what changes whenever facts, verdicts, artifacts or generators do."""
    return control.core.through, len(control.generators)
