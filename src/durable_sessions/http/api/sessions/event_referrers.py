"""Which events of a partition lead to others, found in the index and read from the log.

The index only says where to look. What an event leads to is read from the event itself.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from durable_sessions.errors import EventNotFoundError, StreamGoneError, StreamNotFoundError
from durable_sessions.search import ref_terms
from durable_sessions.search.index import IndexHit
from durable_sessions.search.service import ReferringEvents, Search
from durable_sessions.sessions.event_directory import Referral, Referrals
from durable_sessions.sessions.event_walks import is_local
from durable_sessions.sessions.graph.graph_nodes import SessionLife
from durable_sessions.sessions.graph.links import EventLink
from durable_sessions.sessions.memory.records import NamedEvent
from durable_sessions.sessions.placed_events import EventQuestion, PlacedEvent, PlacedEvents
from durable_sessions.sessions.reading import EventReader
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView


class ReferTarget(NamedTuple):
    """An event that others may lead to.

    ``ids`` are its own and those that it took over, ``holders`` the sessions that have it, the one that it
    was appended to first, ``streams`` their numbers. ``later`` are the memories that replaced it.
    """

    ids: list[str]
    holders: list[SessionLife]
    streams: list[int]
    later: list[NamedEvent] = []


class HeldEvent(NamedTuple):
    """An event that this partition has, and the later ones that replaced the facts that it says."""

    target: ReferTarget
    replaced_by: list[PlacedEvent]
    is_complete: bool


class EventReferrers:
    """Finds what leads to events, in one partition."""

    def __init__(self, sessions: Sessions, placed: PlacedEvents, search: Search) -> None:
        self._streams = sessions.streams
        self._reader: EventReader = sessions.events
        self._placed = placed
        self._search = search
        self._most = sessions.limits.graph_nodes_max

    async def hold(self, workspace: str, asked: Sequence[EventQuestion]) -> list[HeldEvent | None]:
        """Say which sessions have events; None for those of other partitions."""
        held: list[HeldEvent | None] = []
        turn = self._reader.turns.begin()
        for question in asked:
            view = self._placed.view(workspace, question.session, question.life)
            held.append(None if view is None else await self._held(view, question.id))
            if turn.over:
                await turn.rest()
        return held

    async def refer(self, workspace: str, targets: Sequence[ReferTarget]) -> Referrals:
        """Return the events of this partition that lead to some of any partition."""
        turn = self._reader.turns.begin()
        known: dict[str, None] = {}
        for target in targets:
            known.update(dict.fromkeys(_terms(target)))
            if turn.over:
                await turn.rest()
        terms = list(known)
        if not terms:
            return Referrals([], is_complete=True, more=False)
        hits = await self._search.referring(workspace, terms, self._most)
        numbers: dict[str, list[int]] = {}
        for number, target in enumerate(targets):
            for name in target.ids:
                numbers.setdefault(name, []).append(number)
        later: dict[tuple[str, str | None], list[int]] = {}
        for number, target in enumerate(targets):
            for write in target.later:
                later.setdefault((write.id, write.incarnation), []).append(number)
        found: list[Referral] = []
        for view, hit in hits.events:
            event = await self._read(view, hit)
            if event is not None:
                found += _matches(event, targets, numbers)
                found += [Referral(event, number, "supersedes") for number in later.get(_name(event), ())]
                event.links.clear()  # they are many, and nobody needs them any more
            if turn.over:
                await turn.rest()
        return Referrals(found, hits.is_complete, hits.more)

    async def _held(self, view: StreamView, name: str) -> HeldEvent | None:
        try:
            position, stored = await self._reader.by_id(view, name)
        except EventNotFoundError:
            return None
        event = self._placed.placed(view, position, stored)
        holders = await self._placed.holders(view, position)
        ids = [name, *[one for one in event.adopted if not await self._has(view, one)]]
        lives, streams = [one.life for one in holders], [one.stream for one in holders]
        target = ReferTarget(ids, lives, streams)
        if not event.facts:
            return HeldEvent(target, [], is_complete=True)
        workspace = view.stream.key.workspace
        terms = [ref_terms.fact(number, key) for number in streams for key in event.facts]
        hits = await self._search.referring(workspace, terms, self._most)
        return HeldEvent(target, await self._replacing(event, streams, hits), hits.is_complete)

    async def _has(self, view: StreamView, event: str) -> bool:
        try:
            await self._reader.by_id(view, event)
        except EventNotFoundError:
            return False
        return True

    async def _replacing(
        self, event: PlacedEvent, streams: Sequence[int], hits: ReferringEvents
    ) -> list[PlacedEvent]:
        """Return the first events behind one, in every session that has it, that say the same facts anew."""
        changes: dict[int, list[PlacedEvent]] = {}
        for view, hit in sorted(hits.events, key=lambda one: one[1].position):
            if hit.position > event.position and (read := await self._read(view, hit)) is not None:
                changes.setdefault(hit.stream, []).append(read)
        found: dict[str, PlacedEvent] = {}
        turn = self._reader.turns.begin()
        for number in streams:
            holder = self._streams.peek_id(number)
            if holder is None or holder.tail <= event.position + 1:
                continue
            parts = self._search.chain(holder, event.position + 1, holder.tail)
            behind = [
                change
                for stream, begin, end in parts
                for change in changes.get(stream, ())
                if begin <= change.position < end
            ]
            for key in event.facts:
                first = next((one for one in behind if key in (*one.facts, one.retracted)), None)
                if first is not None and first.retracted is None:
                    found[first.node.id] = first
            if turn.over:
                await turn.rest()
        return list(found.values())

    async def _read(self, view: StreamView, hit: IndexHit) -> PlacedEvent | None:
        try:
            return self._placed.placed(view, hit.position, await self._reader.one(view, hit.position))
        except (StreamNotFoundError, StreamGoneError):
            return None  # it was removed meanwhile


def _name(event: PlacedEvent) -> tuple[str, str | None]:
    return event.id, event.life.life


def _terms(target: ReferTarget) -> Iterator[str]:
    yield from (ref_terms.memory(write.id) for write in target.later)
    for name in target.ids:
        for holder in target.holders:
            yield ref_terms.in_life(holder.life, name)
            yield ref_terms.in_session(holder.session, name)
        for number in target.streams:
            yield ref_terms.in_stream(number, name)


def _matches(
    event: PlacedEvent, targets: Sequence[ReferTarget], numbers: dict[str, list[int]]
) -> Iterator[Referral]:
    for link in event.links:
        for number in numbers.get(link.target.id, ()):
            target = targets[number]
            local = is_local(event, link.target)
            if _leads_to(event, link, target, local=local):
                yield Referral(event, number, link.rel, link.unchecked, local)


def _leads_to(event: PlacedEvent, link: EventLink, target: ReferTarget, *, local: bool) -> bool:
    name, life, session = link.target.id, link.target.life, link.target.session
    if name != target.ids[0] and link.rel != "adopts":
        return False  # events that were taken over are meant only by who takes over the session
    if local:
        return any(holder.life == event.life.life for holder in target.holders)
    if life is not None:
        # By the life that an event was appended to it is meant for ever, also when only forks still have it.
        if life == target.holders[0].life:
            return True
        return any(holder.life == life and not holder.is_gone for holder in target.holders)
    return any(holder.session == session and not holder.is_gone for holder in target.holders)
