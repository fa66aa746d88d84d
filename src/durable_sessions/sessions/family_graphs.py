"""The graph of a session and its family: the sessions that it was forked from, and all their forks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from durable_sessions.sessions.event_directory import EventDirectory
from durable_sessions.sessions.graph.graph_builder import GraphBuilder, WantedTarget
from durable_sessions.sessions.graph.graph_nodes import SessionGraph, SessionLife
from durable_sessions.sessions.graph.links import LinkTarget
from durable_sessions.sessions.graph.stored import happened
from durable_sessions.sessions.memory.records import NamedEvent
from durable_sessions.sessions.placed_events import EventQuestion, PlacedEvent, PlacedEvents
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import StreamView

_ASKED_AT_ONCE = 200


@dataclass(frozen=True, slots=True)
class RelatedSession:
    """A session of a family, and the session through which its own events before ``end`` can be read."""

    stream: StreamView
    through: StreamView
    end: int


class FamilyGraphs:
    """Makes the graphs of the sessions of a partition, in which whole families are."""

    def __init__(self, sessions: Sessions, directory: EventDirectory) -> None:
        self._sessions = sessions
        self._streams = sessions.streams
        self._reader = sessions.events
        self._limits = sessions.limits
        self._placed = PlacedEvents(sessions)
        self._directory = directory

    async def graph(self, durable: StreamView, at: int, *, family: bool = True) -> SessionGraph:
        """Return the graph of the first ``at`` events of a session, and of its family as it is now."""
        builder = GraphBuilder(self._limits)
        through: dict[str, SessionLife] = {}
        ancestors, others = self._ancestors(durable, at), list[RelatedSession]()
        if family:
            ancestors, others = await self._family(durable, at, ancestors, builder)
        # So that long ancestors leave room for the session that was asked for.
        half = self._limits.graph_nodes_max // 2
        left = self._limits.graph_events_max
        turn = self._reader.turns.begin()
        for member in ancestors:
            left = await self._walk(builder, member, through, left, nodes_max=half, silent=not family)
            if turn.over:
                await turn.rest()
        left = await self._walk(builder, RelatedSession(durable, durable, at), through, left)
        for member in others:
            left = await self._walk(builder, member, through, left)
            if turn.over:
                await turn.rest()
        await self._resolve(builder, durable.stream.key.workspace, through)
        for _ in builder.finish():
            if turn.over:
                await turn.rest()
        return builder.graph(session_of(durable.stream.key), at)

    # The family -------------------------------------------------------------------------

    def _ancestors(self, durable: StreamView, at: int) -> list[RelatedSession]:
        """Return what a session was forked from, the oldest first, as far as the session has it."""
        found: list[RelatedSession] = []
        holder: StreamView | None = durable
        end = at
        while holder is not None and holder.stream.parent is not None:
            end = min(end, holder.stream.base)
            holder = self._streams.peek_id(holder.stream.parent)
            if holder is not None:
                found.append(RelatedSession(holder, durable, end))
        found.reverse()
        return found

    async def _family(
        self, durable: StreamView, at: int, ancestors: list[RelatedSession], builder: GraphBuilder
    ) -> tuple[list[RelatedSession], list[RelatedSession]]:
        """Return the ancestors with all of their events, and all other forks, sources first.

        A session that was deleted is among the others only if a fork still has some of its events.
        """
        line = {durable.stream.id, *(one.stream.stream.id for one in ancestors)}
        root = ancestors[0].stream if ancestors else durable
        streams = await self._forks(root, durable, at, line, builder)
        members = {one.stream.stream.id: one for one in ancestors}
        turn = self._reader.turns.begin()
        # Forks come behind their sources in this list, so each is read before its source needs it.
        for stream in reversed(streams):
            if not self._placed.life_of(stream).is_gone and stream is not durable:
                members[stream.stream.id] = RelatedSession(stream, stream, stream.tail)
            self._lend(members, stream)
            if turn.over:
                await turn.rest()
        for one in ancestors:
            if not self._placed.life_of(one.stream).is_gone:
                members[one.stream.stream.id] = RelatedSession(one.stream, one.stream, one.stream.tail)
        outside = members.keys() - line
        others = [members[one.stream.id] for one in streams if one.stream.id in outside]
        return [members[one.stream.stream.id] for one in ancestors], others

    async def _forks(
        self, root: StreamView, durable: StreamView, at: int, line: set[int], builder: GraphBuilder
    ) -> list[StreamView]:
        """Return all forks below a session, but not those of ``durable`` that begin behind ``at``."""
        turn = self._reader.turns.begin()
        found: list[StreamView] = []
        waiting, left = [root], self._limits.graph_sessions_max
        for holder in waiting:
            for number in list(self._streams.forks(holder.stream.id)):
                if turn.over:
                    await turn.rest()
                fork = self._streams.peek_id(number)
                if fork is None or (holder is durable and fork.stream.base > at):
                    continue
                if number not in line:
                    if left == 0:
                        builder.parts.is_truncated = True
                        break
                    left -= 1
                found.append(fork)
                waiting.append(fork)
        return found

    def _lend(self, members: dict[int, RelatedSession], fork: StreamView) -> None:
        """Let the source of a fork be read through it, if the source is gone."""
        member, parent = members.get(fork.stream.id), fork.stream.parent
        if member is None or parent is None:
            return
        source = self._streams.peek_id(parent)
        if source is None or not self._placed.life_of(source).is_gone:
            return
        end = min(fork.stream.base, member.end)
        known = members.get(parent)
        if known is None or known.end < end:
            members[parent] = RelatedSession(source, member.through, end)

    # Events -----------------------------------------------------------------------------

    async def _walk(
        self,
        builder: GraphBuilder,
        member: RelatedSession,
        through: dict[str, SessionLife],
        left: int,
        *,
        nodes_max: int | None = None,
        silent: bool = False,
    ) -> int:
        """Take the own events of a session; return how many more may be read."""
        stream = member.stream
        life = self._placed.life_of(stream)
        through[life.life] = self._placed.life_of(member.through)
        parent = None if stream.stream.parent is None else self._streams.peek_id(stream.stream.parent)
        source = None if parent is None else self._placed.life_of(parent)
        builder.enter(life, source, stream.stream.base, nodes_max=nodes_max, silent=silent)
        checked_from = self._placed.checked_from(stream)
        async for position, event in self._reader.range(member.through, stream.stream.base, member.end):
            if left == 0 or builder.is_full:
                builder.parts.is_truncated = True
                break
            left -= 1
            builder.step(happened(event, position, checked_from))
        return left

    async def _resolve(self, builder: GraphBuilder, workspace: str, through: dict[str, SessionLife]) -> None:
        """Look up what edges lead to outside of what was walked, or among events that are no nodes yet."""
        scopes: dict[str, list[tuple[SessionLife, str]]] = {}
        for scope, life, event in builder.writes:
            scopes.setdefault(scope, []).append((life, event))
        for scope, writes in scopes.items():
            names = [NamedEvent(event, life.session, life.life) for life, event in writes]
            replaced = await self._directory.replaced(workspace, scope, names)
            for (life, event), found in zip(writes, replaced, strict=True):
                if found.before is not None:
                    builder.replaces(life, event, LinkTarget(*found.before))
        events: list[tuple[WantedTarget, EventQuestion]] = []
        turn = self._reader.turns.begin()
        for wanted in builder.wanted():
            if turn.over:
                await turn.rest()
            if (digest := wanted.target.artifact) is None:
                events.append((wanted, question_of(wanted, through)))
                continue
            state = await self._directory.artifact(workspace, digest)
            if state == "missing":
                builder.missing(wanted, is_gone=False)
            else:
                builder.found_artifact(wanted, redacted=state == "redacted")
        for begin in range(0, len(events), _ASKED_AT_ONCE):
            if builder.parts.is_full:
                builder.parts.is_truncated = True
                break
            await self._find(builder, workspace, events[begin : begin + _ASKED_AT_ONCE], through)

    async def _inherited(
        self, workspace: str, wanted: WantedTarget, through: dict[str, SessionLife]
    ) -> PlacedEvent | None:
        """Return a target of a life that is gone if the session that names it has inherited it."""
        if wanted.target.life is None:
            return None
        via = through[wanted.named_by.life]
        (found,) = await self._placed.find(
            workspace, [EventQuestion(via.session, via.life, wanted.target.id)]
        )
        return found if found is not None and found.life.life == wanted.target.life else None

    async def _find(
        self,
        builder: GraphBuilder,
        workspace: str,
        events: Sequence[tuple[WantedTarget, EventQuestion]],
        through: dict[str, SessionLife],
    ) -> None:
        placed = await self._directory.find(workspace, [question for _, question in events])
        for (wanted, _), at_once in zip(events, placed, strict=True):
            found = at_once or await self._inherited(workspace, wanted, through)
            if found is None:
                builder.missing(wanted, is_gone=wanted.target.life is not None)
            else:
                builder.found(wanted, found.life, found.node, found.position, found.at_ms)


def question_of(wanted: WantedTarget, through: Mapping[str, SessionLife]) -> EventQuestion:
    """Return how to ask for a target.

    Events of a session that is gone are found ``through`` one that has them, by its life.
    """
    target, named_by = wanted.target, wanted.named_by
    is_own = target.session is None or target.life == named_by.life
    if is_own or (target.life is None and target.session == named_by.session):
        via = through[named_by.life]
        return EventQuestion(via.session, via.life, target.id)
    return EventQuestion(target.session or "", target.life, target.id, is_adopted=True)
