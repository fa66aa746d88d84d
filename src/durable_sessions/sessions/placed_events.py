"""Events of this partition as a graph needs them: where each was appended, what it leads to, who has it.

Other partitions ask for the same things, so that what is answered here can be sent.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from durable_sessions.errors import (
    EventNotFoundError,
    SessionNotFoundError,
    StreamGoneError,
    StreamNotFoundError,
)
from durable_sessions.sessions import event_ids, record
from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.graph.graph_nodes import GraphNode, SessionLife, event_node
from durable_sessions.sessions.graph.happened import Happened
from durable_sessions.sessions.graph.links import EventLink, LinkTarget, adopted_ids, links
from durable_sessions.sessions.graph.stored import happened
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.snapshots import SNAPSHOT_EVENTS
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView
from durable_sessions.streams.stream import Key

_ADOPTED = b'"type":"ds.adopted"'


class EventQuestion(NamedTuple):
    """An event that is looked for: in the session that has an id now, if it is of the life that is meant.

    ``is_adopted`` says that an adoption there may have brought it.
    """

    session: str
    life: str | None
    id: str
    is_adopted: bool = False


class PlacedEvent(msgspec.Struct, array_like=True):
    """An event, the session that it was appended to, and one through which it can be read now.

    ``links`` are what it leads to. ``facts`` are the keys of the facts that it says, ``retracted`` is the one
    that it takes back, ``adopted`` are the events that it took over. A memory has its ``scope``, a read of
    memory its ``influence``.
    """

    id: str
    life: SessionLife
    via: SessionLife
    position: int
    at_ms: int
    node: GraphNode
    links: list[EventLink]
    facts: list[str]
    adopted: list[str]
    retracted: str | None = None
    scope: str | None = None
    influence: str | None = None


class EventHolder(NamedTuple):
    """A session that has an event, as its own or inherited, and the number of its stream."""

    life: SessionLife
    stream: int


class PlacedEvents:
    """Finds events of the sessions of a partition."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._streams = sessions.streams
        self._reader = sessions.events
        self._limits = sessions.limits

    def life_of(self, view: StreamView) -> SessionLife:
        """Return which life of which session a stream is."""
        is_gone = view.removed or view.stream.expired(self._sessions.now_ms())
        return SessionLife(session_of(view.stream.key), event_ids.tag(view.stream), is_gone)

    def checked_from(self, owner: StreamView) -> int | None:
        """Return from which position on the strict events of a stream were checked."""
        control = Control(owner.attributes, self._limits)
        return control.core.checked_from if control.is_controlled else None

    async def find(self, workspace: str, asked: Sequence[EventQuestion]) -> list[PlacedEvent | None]:
        """Look events up; None for those that this partition does not have."""
        turn = self._reader.turns.begin()
        found: list[PlacedEvent | None] = []
        for question in asked:
            found.append(await self._find(workspace, question))
            if turn.over:
                await turn.rest()
        await self._add_replaced(workspace, [one for one in found if one is not None])
        return found

    async def in_session(self, view: StreamView, event: str) -> PlacedEvent:
        """Return an event of a session, or refuse if there is none."""
        placed = self.placed(view, *await self._reader.by_id(view, event))
        await self._add_replaced(view.stream.key.workspace, [placed])
        return placed

    def placed(self, view: StreamView, position: int, stored: bytes) -> PlacedEvent:
        """Return a stored event of a session."""
        owner, _ = self._streams.owner(view, position)
        read = happened(stored, position, self.checked_from(owner))
        life, said = self.life_of(owner), read.strict
        return PlacedEvent(
            read.id,
            life,
            self.life_of(view),
            position,
            read.at_ms,
            event_node(life, read),
            links(read),
            _facts(read),
            adopted_ids(read),
            said.key if isinstance(said, schemas.FactRetracted) else None,
            said.scope if isinstance(said, schemas.MemoryWritten) else None,
            said.influence if isinstance(said, schemas.MemoryRead) else None,
        )

    async def holders(self, view: StreamView, position: int) -> list[EventHolder]:
        """Return the sessions that have the event at a position: the one it was appended to, and forks."""
        owner, _ = self._streams.owner(view, position)
        turn = self._reader.turns.begin()
        waiting, found = [owner], list[EventHolder]()
        while waiting:
            holder = waiting.pop()
            found.append(EventHolder(self.life_of(holder), holder.stream.id))
            for number in list(self._streams.forks(holder.stream.id)):
                fork = self._streams.peek_id(number)
                if fork is not None and fork.stream.base > position:
                    waiting.append(fork)
                if turn.over:
                    await turn.rest()
        return found

    def view(self, workspace: str, session: str, life: str | None) -> StreamView | None:
        """Return a session that is here now, None if it is not, or of another life."""
        try:
            view = self._sessions.find(Key(workspace, record.path_of(session)))
        except SessionNotFoundError:
            return None
        return view if life in (None, event_ids.tag(view.stream)) else None

    async def _find(self, workspace: str, question: EventQuestion) -> PlacedEvent | None:
        view = self.view(workspace, question.session, None)
        if view is None:
            return None
        is_meant = question.life in (None, event_ids.tag(view.stream))
        try:
            found = self.placed(view, *await self._reader.by_id(view, question.id))
        except EventNotFoundError:
            return await self._adoption(view, question.id) if is_meant and question.is_adopted else None
        except (StreamNotFoundError, StreamGoneError):
            return None  # it was removed meanwhile
        # Memory names a write by the life that it was appended to, also when a fork has inherited it.
        return found if is_meant or found.life.life == question.life else None

    async def _adoption(self, view: StreamView, event: str) -> PlacedEvent | None:
        """Return the adoption in a session that took an event over: whoever adopts the session means it."""
        name = event.encode()
        async for position, stored in self._reader.range(view, 0, view.tail):
            if _ADOPTED in stored and name in stored:
                placed = self.placed(view, position, stored)
                if event in placed.adopted:
                    return placed
        return None

    async def _add_replaced(self, workspace: str, events: Sequence[PlacedEvent]) -> None:
        """Add to events that say facts what held under the same keys before."""
        by_session: dict[SessionLife, list[PlacedEvent]] = {}
        for one in events:
            if one.facts:
                by_session.setdefault(one.via, []).append(one)
        for via, some in by_session.items():
            view = self.view(workspace, via.session, via.life)
            fold: Fold | None = None
            for one in sorted(some, key=lambda event: event.position):
                if view is not None:
                    fold = await self._fold(view, fold, one.position)
                    await self._add_facts(view, fold, one)

    async def _add_facts(self, view: StreamView, fold: Fold, event: PlacedEvent) -> None:
        known = (fold.folded.facts.get(key) for key in event.facts)
        for place in sorted({fact.position for fact in known if fact is not None}):
            # Not the id of the fact: an adoption brings facts under the ids that they had in the branch.
            name = event_ids.stored_id(await self._reader.one(view, place))
            if name is not None:
                event.links.append(EventLink("supersedes", LinkTarget(name)))

    async def _fold(self, view: StreamView, fold: Fold | None, position: int) -> Fold:
        """Return the fold before a position, going on from an earlier one if that is near."""
        if fold is None or position - fold.folded.position > SNAPSHOT_EVENTS:
            return await self._sessions.folds.at(view, position)
        checked_from = self.checked_from(view)
        async for place, stored in self._reader.range(view, fold.folded.position, position):
            fold.step(happened(stored, place, checked_from))
        return fold


def _facts(read: Happened) -> list[str]:
    match read.strict:
        case schemas.Fact() as said:
            return [said.key]
        case schemas.Adopted() as said:
            return list(dict.fromkeys(one.key for one in said.facts))
    return []
