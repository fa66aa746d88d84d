"""Builds the graph of a family of sessions from their events: pure, so that it runs over exports as well.

How to use it::

    builder = GraphBuilder(limits)
    for log in family:                       # a source before its forks
        builder.enter(log.life, log.source, log.base)
        for happened in log.events:          # those that were appended to it, in order
            builder.step(happened)
    for wanted in builder.wanted():          # what edges lead to, and is no node yet
        ...                                  # look it up, then
        builder.found(wanted, life, event_node(life, happened), happened.position, happened.at_ms)
        ...                                  # or found_artifact(wanted), or missing(wanted, is_gone=…)
    for _ in builder.finish(): ...
    graph = builder.graph(session, offset)

:func:`~durable_sessions.sessions.graph.family_logs.family_graph` does all of it for logs that are in memory.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from durable_sessions.limits import Limits
from durable_sessions.sessions.graph import graph_nodes, schemas, strict
from durable_sessions.sessions.graph.graph_nodes import GraphNode, SessionGraph, SessionLife
from durable_sessions.sessions.graph.graph_parts import GraphParts
from durable_sessions.sessions.graph.happened import CALLS, RESULTS, Happened
from durable_sessions.sessions.graph.links import EventLink, LinkTarget, adopted_ids, links
from durable_sessions.streams import offsets

_PLACED = frozenset(("requested", "ready", "suspended"))
"""What is said of a sandbox in which calls run."""
LOOKED_UP_PER_NODE = 4
"""How many targets are looked up for each node that a graph may have: free events name many that are not."""
_SUPERSEDES = EventLink("supersedes", LinkTarget(""))


@dataclass(slots=True, eq=False)
class _Start:
    """An event at which edges begin; its node is added once one of them is certain, if not at once."""

    life: SessionLife
    node: GraphNode
    position: int
    at_ms: int
    is_added: bool = False
    is_held: bool = False


@dataclass(frozen=True, slots=True)
class WantedTarget:
    """What an edge leads to that is no node yet: as the event names it, and the session of that event."""

    named_by: SessionLife
    target: LinkTarget


@dataclass(slots=True, eq=False)
class _Walk:
    """A session that is gone through: what it inherits, and what its events have changed so far.

    A ``silent`` one adds no nodes by itself; others inherit from it.
    """

    life: SessionLife
    source: "_Walk | None"
    base: int
    nodes_max: int
    silent: bool
    facts: dict[str, _Start | None] = field(default_factory=dict)
    changed_facts: list[tuple[int, str, _Start | None]] = field(default_factory=list)
    sandbox: str | None = None

    def facts_before(self, position: int) -> dict[str, _Start | None]:
        """Return which events said the facts that held before a position."""
        parts: list[tuple[_Walk, int]] = []
        walk: _Walk | None = self
        end = position
        while walk is not None:
            # A fork of a fork sees of the oldest session only what lies before every fork point on the way.
            parts.append((walk, end))
            end, walk = min(end, walk.base), walk.source
        facts: dict[str, _Start | None] = {}
        for walk, end in reversed(parts):
            for place, key, said in walk.changed_facts:
                if place >= end:
                    break
                facts[key] = said
        return facts

    def change_fact(self, key: str, position: int, said: _Start | None) -> None:
        """Note that a fact was said, or no longer holds."""
        self.facts[key] = said
        self.changed_facts.append((position, key, said))


class GraphBuilder:
    """Takes the events of sessions one by one, and gives their graph."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.parts = GraphParts(limits.graph_nodes_max, limits.graph_bytes_max)
        self._walks: dict[str, _Walk] = {}
        self._walk: _Walk | None = None
        self._starts: dict[tuple[str, str], _Start] = {}
        self._looked_up: dict[str, _Start] = {}
        self._adopted: dict[tuple[str, str], _Start] = {}
        self._pending: dict[WantedTarget, list[tuple[_Start, EventLink]]] = {}
        self._held = 0
        self.writes: list[tuple[str, SessionLife, str]] = []
        """The memory writes among the events: scope, session, id. What they replace is in the scope's log."""

    @property
    def is_full(self) -> bool:
        """Whether further events add nothing."""
        return self.parts.is_full and self.parts.is_truncated

    def enter(
        self,
        life: SessionLife,
        source: SessionLife | None = None,
        base: int = 0,
        *,
        nodes_max: int | None = None,
        silent: bool = False,
    ) -> None:
        """Begin with the events of another session, a fork of ``source`` from the position ``base`` on.

        With ``nodes_max`` its events become nodes only while there are fewer in all, so that there is room
        for those of others. A ``silent`` session adds nothing but what its forks inherit.
        """
        inherited = None if source is None else self._walks.get(source.life)
        most = self._limits.graph_nodes_max if nodes_max is None else nodes_max
        walk = self._walk = self._walks[life.life] = _Walk(life, inherited, base, most, silent)
        if inherited is not None:
            walk.facts = inherited.facts_before(base)
        if silent:
            return
        self.parts.add_node(graph_nodes.session_node(life))
        if source is not None and self.parts.add_node(graph_nodes.session_node(source)):
            self.parts.add_edge(life.node, source.node, "forked_from")

    def step(self, happened: Happened) -> None:
        """Take the next event of the session that was entered last."""
        walk = self._walk
        assert walk is not None, "enter a session first"
        is_strict, is_call = strict.is_strict(happened.type), happened.type in CALLS
        found = links(happened) if is_strict or _may_link(happened) else []
        if not (is_strict or is_call or found):
            return
        node = graph_nodes.event_node(walk.life, happened)
        start = _Start(walk.life, node, happened.position, happened.at_ms)
        if not walk.silent:
            self._begin(walk, start, happened, found)
        if is_strict:
            self._change(walk, start, happened)

    def _begin(self, walk: _Walk, start: _Start, happened: Happened, found: list[EventLink]) -> None:
        """Add an event as a node, or keep it until it is certain that one of its edges leads anywhere."""
        # Held events count as well: each may become a node when what it names has been looked up.
        if len(self.parts.nodes) + self._held >= walk.nodes_max:
            self.parts.is_truncated = True
            return
        self._starts[walk.life.life, happened.id] = start
        for name in adopted_ids(happened):
            self._adopted[walk.life.life, name] = start
        is_call = happened.type in CALLS
        if is_call or happened.type in RESULTS or strict.is_strict(happened.type):
            self._add(start)
        else:
            start.is_held = True
            self._held += 1
        for link in found:
            self._lead(start, link)
        if is_call and walk.sandbox is not None:
            sandbox = graph_nodes.sandbox_node(walk.sandbox)
            if self.parts.add_node(sandbox):
                self.parts.add_edge(start.node.id, sandbox.id, "ran_in")

    # Edges ------------------------------------------------------------------------------

    def wanted(self) -> Sequence[WantedTarget]:
        """Return what edges lead to and is no node yet."""
        return list(self._pending)

    def found(
        self, wanted: WantedTarget, life: SessionLife, node: GraphNode, position: int, at_ms: int
    ) -> None:
        """Say which event a target is, the session that it was appended to, and its place there."""
        end = self._looked_up.get(node.id)
        if end is None:
            end = self._looked_up[node.id] = _Start(life, node, position, at_ms)
        for start, link in self._pending.pop(wanted, ()):
            self._join(start, link, end)

    def found_artifact(self, wanted: WantedTarget, *, redacted: bool = False) -> None:
        """Say that an artifact is there."""
        node = graph_nodes.artifact_node(wanted.target.artifact or "", redacted=redacted)
        for start, link in self._pending.pop(wanted, ()):
            self._add(start)
            if self.parts.add_node(node):
                self.parts.add_edge(start.node.id, node.id, link.rel)

    def missing(self, wanted: WantedTarget, *, is_gone: bool) -> None:
        """Say that a target is not there; ``is_gone`` if that life of its session is not.

        It is named in the graph, unless a free event named it: that one may name anything.
        """
        node = missing_node(wanted, is_gone=is_gone)
        adopted = None if is_gone else self._adopted.get((wanted.target.life or "", wanted.target.id))
        for start, link in self._pending.pop(wanted, ()):
            if adopted is not None:
                # A branch had taken it over itself: its own adoption is what was adopted.
                self._join(start, link, adopted)
                continue
            if not strict.is_strict(str(start.node.type)):
                continue
            self._add(start)
            if self.parts.add_node(node):
                self.parts.add_edge(start.node.id, node.id, link.rel)

    def replaces(self, life: SessionLife, event: str, target: LinkTarget) -> None:
        """Say which write was live under the key of a memory when another one replaced it."""
        start = self._starts.get((life.life, event))
        if start is not None:
            self._lead(start, EventLink("supersedes", target))

    def finish(self) -> Iterator[None]:
        """Take out what would be a cycle; yields now and then, so that others can go first."""
        return self.parts.break_cycles()

    def graph(self, session: str, position: int) -> SessionGraph:
        """Return the graph of a session as it was after this many events."""
        parts = self.parts
        return SessionGraph(
            session, offsets.encode(position), list(parts.nodes.values()), parts.edges(), parts.is_truncated
        )

    def _lead(self, start: _Start, link: EventLink) -> None:
        target = link.target
        if target.artifact is None:
            end = self._known(start, target)
            if end is not None:
                self._join(start, link, end)
                return
        wanted = WantedTarget(start.life, target)
        if wanted in self._pending:
            self._pending[wanted].append((start, link))
        elif len(self._pending) < LOOKED_UP_PER_NODE * self._limits.graph_nodes_max:
            self._pending[wanted] = [(start, link)]
        else:
            self.parts.is_truncated = True

    def _known(self, start: _Start, target: LinkTarget) -> _Start | None:
        """Return a target that was among the events so far."""
        own = target.session is None or target.life == start.life.life
        own |= target.life is None and target.session == start.life.session
        if own:
            return self._in_chain(self._walks[start.life.life], target.id)
        if target.life is None:
            return None  # resolved in the present life of a session, which only the caller knows
        named = self._walks.get(target.life)
        if named is None or not named.life.is_gone:
            return None if named is None else self._in_chain(named, target.id)
        # By its name nobody finds it any more; but it may be among what the session has inherited.
        known = self._in_chain(self._walks[start.life.life], target.id)
        return known if known is not None and known.life.life == target.life else None

    def _in_chain(self, walk: _Walk | None, event: str) -> _Start | None:
        """Return an event of a session, or one that it inherits."""
        end: int | None = None
        while walk is not None:
            known = self._starts.get((walk.life.life, event))
            if known is not None and (end is None or known.position < end):
                return known
            end = walk.base if end is None else min(end, walk.base)
            walk = walk.source
        return None

    def _join(self, start: _Start, link: EventLink, end: _Start) -> None:
        unordered = False
        if link.unchecked:
            # Nobody looked for the target when this was stored. What came later is not what it rests on.
            is_local = link.target.session in (None, start.life.session)
            unordered = not is_local
            if (end.position >= start.position) if is_local else (end.at_ms > start.at_ms):
                return
        self._add(start)
        self._add(end)
        self.parts.add_edge(start.node.id, end.node.id, link.rel, unordered=unordered)

    def _add(self, start: _Start) -> None:
        if start.is_added:
            return
        start.is_added = True
        self._held -= start.is_held
        parts, node = self.parts, start.node
        if not parts.add_node(node):
            return
        session = graph_nodes.session_node(start.life)
        if parts.add_node(session):
            parts.add_edge(node.id, session.id, "in")
        if isinstance(node.actor, str) and node.actor:
            principal = graph_nodes.principal_node(node.actor)
            if parts.add_node(principal):
                parts.add_edge(node.id, principal.id, "by")

    # What changes -----------------------------------------------------------------------

    def _change(self, walk: _Walk, start: _Start, happened: Happened) -> None:
        """Follow facts and sandboxes, which later events replace or run in without naming an event."""
        match happened.strict:
            case schemas.Fact() as event:
                self._say(walk, start, event.key)
            case schemas.Adopted() as event:
                for fact in event.facts:
                    self._say(walk, start, fact.key)
            case schemas.FactRetracted() as event:
                walk.change_fact(event.key, happened.position, None)
            case schemas.SandboxReported() as event:
                if event.status in _PLACED:
                    walk.sandbox = event.sandbox
                elif walk.sandbox == event.sandbox:
                    walk.sandbox = None
            case schemas.MemoryWritten() as event if start.is_added:
                self.writes.append((event.scope, walk.life, happened.id))

    def _say(self, walk: _Walk, start: _Start, key: str) -> None:
        before = walk.facts.get(key)
        if before is not None and before is not start and start.is_added:
            self._join(start, _SUPERSEDES, before)
        walk.change_fact(key, start.position, start)


def missing_node(wanted: WantedTarget, *, is_gone: bool) -> GraphNode:
    """Return the node of a target that is not there."""
    target = wanted.target
    if target.artifact is not None:
        return graph_nodes.artifact_node(target.artifact, missing=True)
    if target.session is None:
        return graph_nodes.missing_event(wanted.named_by.name, target.id)
    life = SessionLife(target.session, target.life or "", is_gone and target.life is not None)
    return graph_nodes.missing_event(life.name, target.id)


def _may_link(happened: Happened) -> bool:
    return happened.type in RESULTS or b'"refs"' in happened.body
