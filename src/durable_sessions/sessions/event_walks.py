"""Walks through a workspace from one event: back to what it rests on, or on to what followed from it."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from itertools import islice

from durable_sessions.limits import Limits
from durable_sessions.sessions.event_directory import EventDirectory, Referral
from durable_sessions.sessions.graph import graph_nodes
from durable_sessions.sessions.graph.graph_builder import LOOKED_UP_PER_NODE, WantedTarget, missing_node
from durable_sessions.sessions.graph.graph_nodes import ImpactGraph, MemoryReader, MissingEvent, WhyGraph
from durable_sessions.sessions.graph.graph_parts import GraphParts
from durable_sessions.sessions.graph.links import EventLink, LinkTarget
from durable_sessions.sessions.memory.records import NamedEvent
from durable_sessions.sessions.placed_events import EventQuestion, PlacedEvent
from durable_sessions.storage.turns import Turn, Turns

_SORTED_AT_ONCE = 1_000
_ASKED_AT_ONCE = 200
"""How many events are looked up in one go."""


@dataclass(slots=True)
class _Walk:
    """The graph so far, and the ids of the events that were reached."""

    parts: GraphParts
    turn: Turn
    reached: set[str] = field(default_factory=set)
    looked_up: int = 0

    def reach(self, event: PlacedEvent) -> bool:
        """Add an event; say whether it was not there before."""
        if event.node.id in self.reached or not self.parts.add_node(event.node):
            return False
        self.parts.nodes[event.node.id] = event.node  # what one event misses, another one may still have
        self.reached.add(event.node.id)
        return True

    async def rest(self) -> None:
        """Let others go first if it is time to."""
        if self.turn.over:
            await self.turn.rest()

    async def discard(self, events: Sequence[PlacedEvent]) -> None:
        """Let go of links in short turns: freeing very many at once takes nearly as long as making them."""
        for event in events:
            event.links.clear()
            await self.rest()


class EventWalks:
    """Walks from the events of a partition, through all sessions of their workspace."""

    def __init__(self, directory: EventDirectory, turns: Turns, limits: Limits) -> None:
        self._directory = directory
        self._turns = turns
        self._limits = limits

    def _begin(self, root: PlacedEvent) -> _Walk:
        parts = GraphParts(self._limits.graph_nodes_max, self._limits.graph_bytes_max)
        walk = _Walk(parts, self._turns.begin())
        walk.reach(root)
        return walk

    # Back -------------------------------------------------------------------------------

    async def why(self, workspace: str, root: PlacedEvent, session: str, offset: str, depth: int) -> WhyGraph:
        """Return what an event rests on, and what of that is missing."""
        walk = self._begin(root)
        missing: dict[MissingEvent, None] = {}
        frontier = [root]
        for _ in range(depth):
            frontier = await self._back(workspace, walk, frontier, missing)
            if not frontier:
                break
        await walk.discard(frontier)
        await _break_cycles(walk)
        parts = walk.parts
        return WhyGraph(
            session, offset, list(parts.nodes.values()), parts.edges(), parts.is_truncated, list(missing)
        )

    async def _back(
        self,
        workspace: str,
        walk: _Walk,
        frontier: Sequence[PlacedEvent],
        missing: dict[MissingEvent, None],
    ) -> list[PlacedEvent]:
        """Follow all links of some events; return the events that were reached for the first time."""
        await self._add_replaced(workspace, frontier)
        wanted: dict[EventQuestion, list[tuple[PlacedEvent, EventLink]]] = {}
        reached: list[PlacedEvent] = []
        for event in frontier:
            for link in event.links:
                if link.target.artifact is not None:
                    await self._lead_to_artifact(workspace, walk, event, link, missing)
                else:
                    wanted.setdefault(_question(event, link), []).append((event, link))
                await walk.rest()
            event.links.clear()
        while wanted and not (walk.parts.is_full and walk.parts.is_truncated):
            part = list(islice(wanted, _ASKED_AT_ONCE))
            walk.looked_up += len(part)
            if walk.looked_up > LOOKED_UP_PER_NODE * self._limits.graph_nodes_max:
                walk.parts.is_truncated = True
                break
            for question, placed in zip(part, await self._directory.find(workspace, part), strict=True):
                for event, link in wanted.pop(question):
                    found = placed or await self._inherited(workspace, event, link.target)
                    if found is None:
                        _miss(walk, event, link, missing)
                    elif _comes_before(event, link, found):
                        if walk.reach(found):
                            reached.append(found)
                        unordered = link.unchecked and not is_local(event, link.target)
                        walk.parts.add_edge(event.node.id, found.node.id, link.rel, unordered=unordered)
                await walk.rest()
        if not wanted:
            return reached
        while wanted:  # the graph is full
            wanted.popitem()
            await walk.rest()
        await walk.discard(reached)
        return []

    async def _inherited(self, workspace: str, event: PlacedEvent, target: LinkTarget) -> PlacedEvent | None:
        """Return a target of a life that is gone if the session that names it has inherited it."""
        if target.life is None or is_local(event, target):
            return None
        (found,) = await self._directory.find(
            workspace, [EventQuestion(event.via.session, event.via.life, target.id)]
        )
        return found if found is not None and found.life.life == target.life else None

    async def _lead_to_artifact(
        self,
        workspace: str,
        walk: _Walk,
        event: PlacedEvent,
        link: EventLink,
        missing: dict[MissingEvent, None],
    ) -> None:
        digest = link.target.artifact or ""
        node = walk.parts.nodes.get(f"artifact:{digest}")
        if node is None:
            state = await self._directory.artifact(workspace, digest)
            if state == "missing":
                _miss(walk, event, link, missing)
                return
            node = graph_nodes.artifact_node(digest, redacted=state == "redacted")
        if walk.parts.add_node(node):
            walk.parts.add_edge(event.node.id, node.id, link.rel)

    async def _add_replaced(self, workspace: str, events: Sequence[PlacedEvent]) -> None:
        """Add to memories what was remembered under the same key before."""
        for scope, writes in _by_scope(events).items():
            names = [write_name(write) for write in writes]
            for write, found in zip(
                writes, await self._directory.replaced(workspace, scope, names), strict=True
            ):
                if found.before is not None:
                    write.links.append(EventLink("supersedes", LinkTarget(*found.before)))

    # On ---------------------------------------------------------------------------------

    async def impact(
        self, workspace: str, root: PlacedEvent, session: str, offset: str, depth: int
    ) -> ImpactGraph:
        """Return what could have flowed from an event."""
        walk = self._begin(root)
        readers: list[MemoryReader] = []
        frontier, is_complete = [root], True
        for step in range(depth):
            found = await self._directory.referring(workspace, frontier)
            is_complete &= found.is_complete
            walk.parts.is_truncated |= found.more
            frontier = await self._on(walk, frontier, found.found, readers if step == 0 else [])
            if not frontier:
                break
        await _break_cycles(walk)
        parts = walk.parts
        return ImpactGraph(
            session,
            offset,
            list(parts.nodes.values()),
            parts.edges(),
            parts.is_truncated,
            readers,
            is_complete,
        )

    async def _on(
        self,
        walk: _Walk,
        frontier: Sequence[PlacedEvent],
        referrals: list[Referral],
        readers: list[MemoryReader],
    ) -> list[PlacedEvent]:
        """Follow what leads to some events; return what was reached first, and add who read a memory."""
        reached: list[PlacedEvent] = []
        async for referral in _in_order(walk, referrals):
            target, event = frontier[referral.target], referral.event
            if referral.rel == "reads" and event.influence is not None:
                readers.append(MemoryReader(event.life.session, event.id, event.influence))
            if referral.unchecked and _is_later(target, event, is_local=referral.is_local):
                continue
            if walk.reach(event):
                reached.append(event)
            unordered = referral.unchecked and not referral.is_local
            walk.parts.add_edge(event.node.id, target.node.id, referral.rel, unordered=unordered)
        return reached


async def _in_order(walk: _Walk, referrals: list[Referral]) -> AsyncIterator[Referral]:
    """Take referrals out, in the same order however many partitions have told them, in short turns."""
    # Sorting them all at once would take too long, and so would freeing them. So parts are sorted, the last
    # first, and merged as they are taken.
    parts: list[list[Referral]] = []
    while referrals:
        parts.append(sorted(referrals[-_SORTED_AT_ONCE:], key=_place, reverse=True))
        del referrals[-_SORTED_AT_ONCE:]
        await walk.rest()
    for referral in merge(*map(_taken, parts), key=_place):
        yield referral
        await walk.rest()


def _taken(part: list[Referral]) -> Iterator[Referral]:
    while part:
        yield part.pop()


def _place(referral: Referral) -> tuple[str, int, str]:
    return referral.event.node.id, referral.target, referral.rel


def write_name(event: PlacedEvent) -> NamedEvent:
    """Return how memory scopes call a write."""
    return NamedEvent(event.id, event.life.session, event.life.life)


def is_local(event: PlacedEvent, target: LinkTarget) -> bool:
    """Say whether an event names one of its own session, inherited ones included."""
    if target.session is None or target.life == event.life.life:
        return True
    return target.life is None and target.session == event.life.session


def _question(event: PlacedEvent, link: EventLink) -> EventQuestion:
    target = link.target
    if is_local(event, target):
        # Asked for where this event can be read now: its own session may be gone, and only forks have it.
        return EventQuestion(event.via.session, event.via.life, target.id)
    return EventQuestion(target.session or "", target.life, target.id, link.rel == "adopts")


def _comes_before(event: PlacedEvent, link: EventLink, found: PlacedEvent) -> bool:
    return not link.unchecked or not _is_later(found, event, is_local=is_local(event, link.target))


def _is_later(target: PlacedEvent, event: PlacedEvent, *, is_local: bool) -> bool:
    """Say whether the target of an edge that nobody checked came later than the event that has it."""
    return target.position >= event.position if is_local else target.at_ms > event.at_ms


def _miss(walk: _Walk, event: PlacedEvent, link: EventLink, missing: dict[MissingEvent, None]) -> None:
    """Name what is not there; of a free event, which may name anything, nothing is missing."""
    if not str(event.node.type).startswith("ds."):
        return
    target = link.target
    node = missing_node(WantedTarget(event.life, target), is_gone=target.life is not None)
    if walk.parts.add_node(node):
        walk.parts.add_edge(event.node.id, node.id, link.rel)
    is_artifact = target.artifact is not None
    missing[MissingEvent(target.id, None if is_artifact else target.session or event.life.session)] = None


def _by_scope(events: Sequence[PlacedEvent]) -> dict[str, list[PlacedEvent]]:
    found: dict[str, list[PlacedEvent]] = {}
    for event in events:
        if event.scope is not None:
            found.setdefault(event.scope, []).append(event)
    return found


async def _break_cycles(walk: _Walk) -> None:
    for _ in walk.parts.break_cycles():
        await walk.rest()
