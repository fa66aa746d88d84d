"""The graph of random families: as a plain model has it, without cycles, with both ends of every edge."""

from dataclasses import dataclass, field, replace
from graphlib import TopologicalSorter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions.graph.family_logs import SessionLog, family_graph
from durable_sessions.sessions.graph.graph_builder import LOOKED_UP_PER_NODE, GraphBuilder
from durable_sessions.sessions.graph.graph_nodes import GraphNode, SessionGraph, SessionLife
from durable_sessions.sessions.graph.graph_text import dot, mermaid
from durable_sessions.sessions.graph.happened import Happened
from durable_sessions.sessions.graph.stored import happened
from durable_sessions.times import rfc3339

LIMITS = DEFAULT_LIMITS
DIGEST = "ab" * 32


@dataclass
class _Session:
    """A session as the model keeps it: nothing but its events."""

    name: str
    life: str
    source: "_Session | None" = None
    base: int = 0
    gone: bool = False
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def tail(self) -> int:
        return self.base + len(self.events)

    def chain(self, end: int | None = None) -> list[tuple["_Session", int, dict[str, Any]]]:
        """Return all events with their owners and positions, inherited ones first."""
        end = self.tail if end is None else end
        inherited = [] if self.source is None else self.source.chain(min(end, self.base))
        return inherited + [
            (self, self.base + at, event) for at, event in enumerate(self.events) if self.base + at < end
        ]

    @property
    def life_of(self) -> SessionLife:
        return SessionLife(self.name, self.life, self.gone)

    def log(self) -> SessionLog:
        events = [_read(event, self.base + at) for at, event in enumerate(self.events)]
        return SessionLog(
            self.life_of, events, None if self.source is None else self.source.life_of, self.base
        )


def _read(event: dict[str, Any], position: int) -> Happened:
    return happened(msgspec.json.encode(event), position, 0)


class _World:
    """Sessions that are appended to, forked, deleted and made again under the same id."""

    def __init__(self) -> None:
        self.sessions: list[_Session] = []
        self.clock_ms = 1_000_000
        self.make("s0", None, 0)

    def make(self, name: str, source: _Session | None, base: int) -> None:
        self.sessions.append(_Session(name, f"{len(self.sessions):012x}", source, base))

    @property
    def present(self) -> list[_Session]:
        return [one for one in self.sessions if not one.gone]

    def append(self, to: _Session, event: dict[str, Any]) -> None:
        self.clock_ms += event.pop("_ms", 1)
        front = {"id": f"e{to.tail}", "created_at": rfc3339(self.clock_ms), "actor": "coder"}
        to.events.append(front | event)

    def step(self, draw: st.DataObject) -> None:
        to = draw.draw(st.sampled_from(self.present))
        kind = draw.draw(st.sampled_from(["strict", "strict", "free", "fact", "call", "fork", "again"]))
        if kind == "fork":
            self.make(f"s{len(self.sessions)}", to, draw.draw(st.integers(0, to.tail)))
        elif kind == "again":
            to.gone = True
            self.make(to.name, None, 0)
        elif kind == "fact":
            self.append(to, {"type": "ds.fact", "key": draw.draw(st.sampled_from("ab")), "value": 1})
        elif kind == "call":
            call = f"e{draw.draw(st.integers(0, 9))}"
            result = {"type": "agent.tool_result", "tool_use_id": call}
            self.append(to, draw.draw(st.sampled_from([{"type": "agent.tool_use", "name": "ls"}, result])))
        elif kind == "free":
            named = [one.name for one in self.sessions]
            ref = {"rel": "about", "id": f"e{draw.draw(st.integers(0, 9))}"}
            if draw.draw(st.booleans()):
                ref["session"] = draw.draw(st.sampled_from(named))
            self.append(to, {"type": "note", "refs": [ref], "_ms": draw.draw(st.integers(0, 1))})
        else:
            self._append_strict(to, draw)

    def _append_strict(self, to: _Session, draw: st.DataObject) -> None:
        """Append what the server would: it looked for the target, and noted the life of its session."""
        other = draw.draw(st.sampled_from(self.present))
        event: dict[str, Any] = {"type": "ds.fact", "key": "c", "value": 1}
        if other.tail:
            target = other.chain()[draw.draw(st.integers(0, other.tail - 1))][2]["id"]
            ref = {"rel": "because", "id": target}
            if other is not to:
                ref["session"] = other.name
                event["ref_incarnations"] = [other.life]
            event["refs"] = [ref]
        self.append(to, event)


def _expected(sessions: list[_Session]) -> tuple[set[str], set[tuple[str, str, str]]]:
    """Return the nodes of events, and the edges between them, found by looking at everything each time."""
    nodes: set[str] = set()
    edges: set[tuple[str, str, str]] = set()
    by_life = {one.life: one for one in sessions}
    for session in sessions:
        for at, event in enumerate(session.events):
            position, kind = session.base + at, event["type"]
            start = session.life_of.event(event["id"])
            if kind.startswith(("ds.", "agent.tool_")):
                nodes.add(start)
            for number, ref in enumerate(event.get("refs", [])):
                life = (event.get("ref_incarnations") or [None])[number]
                holder = session if "session" not in ref else by_life.get(life or "")
                if "session" in ref and life is None:
                    named = [one for one in sessions if one.name == ref["session"] and not one.gone]
                    holder = session if ref["session"] == session.name else next(iter(named), None)
                found = [one for one in (holder.chain() if holder else []) if one[2]["id"] == ref["id"]]
                if holder is not None and holder is not session and holder.gone:
                    inherited = (one for one in session.chain(position) if one[2]["id"] == ref["id"])
                    found = [one for one in inherited if one[0] is holder]
                if kind == "note" and found:
                    is_local = ref.get("session", session.name) == session.name
                    later = found[0][1] >= position
                    if not is_local:
                        later = found[0][2]["created_at"] > event["created_at"]
                    found = [] if later else found
                if found:
                    end = found[0][0].life_of.event(ref["id"])
                elif kind != "note":
                    end = f"event:{ref['session']}~{life}/{ref['id']}"
                else:
                    continue
                nodes |= {start, end}
                edges.add((start, end, ref["rel"]))
            if kind == "agent.tool_result":
                call = event["tool_use_id"]
                found = [one for one in session.chain(position) if one[2]["id"] == call]
                if found:
                    end = found[0][0].life_of.event(call)
                    nodes.add(end)
                    edges.add((start, end, "result_of"))
            if kind == "ds.fact":
                before = [
                    one
                    for one in session.chain(position)
                    if one[2]["type"] == "ds.fact" and one[2]["key"] == event["key"]
                ]
                if before:
                    edges.add((start, before[-1][0].life_of.event(before[-1][2]["id"]), "supersedes"))
    return nodes, edges


def _check(graph: SessionGraph) -> None:
    ids = [node.id for node in graph.nodes]
    assert len(ids) == len(set(ids))
    assert {edge.from_ for edge in graph.edges} | {edge.to for edge in graph.edges} <= set(ids)
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for edge in graph.edges:
        sorter.add(edge.from_, edge.to)
    sorter.prepare()  # raises if there is a cycle


@settings(max_examples=150, deadline=None)
@given(st.data(), st.integers(1, 25))
def test_a_random_family_has_the_graph_of_the_plain_model(draw: st.DataObject, steps: int) -> None:
    world = _World()
    for _ in range(steps):
        world.step(draw)
    graph = family_graph([one.log() for one in world.sessions], "s0", 0, LIMITS)
    _check(graph)
    nodes, edges = _expected(world.sessions)
    shown = {(edge.from_, edge.to, edge.rel) for edge in graph.edges}
    about = {edge for edge in edges if edge[2] == "about"}
    refs = {edge for edge in shown if edge[2] not in ("in", "by", "forked_from")}
    assert {node.id for node in graph.nodes if node.kind == "event"} == nodes
    # Refs of free events to other sessions may lie on a cycle if two were stored in one millisecond.
    assert edges - about <= refs <= edges
    assert not graph.truncated
    forks = {(one.life_of.node, one.source.life_of.node) for one in world.sessions if one.source}
    assert {edge[:2] for edge in shown if edge[2] == "forked_from"} == forks
    assert {edge[0] for edge in shown if edge[2] == "in"} == {
        node.id for node in graph.nodes if node.kind == "event" and not node.missing
    }


def _log(*events: dict[str, Any]) -> SessionLog:
    front = {"created_at": rfc3339(1), "actor": "coder"}
    stored = [{"id": f"e{at}"} | front | event for at, event in enumerate(events)]
    return SessionLog(SessionLife("s", "a" * 12), [_read(event, at) for at, event in enumerate(stored)])


def _edges(graph: SessionGraph, *but: str) -> set[tuple[str, str, str]]:
    found = {(edge.from_, edge.to, edge.rel) for edge in graph.edges if edge.rel not in but}
    return {(start.removeprefix("event:s/"), end.removeprefix("event:s/"), rel) for start, end, rel in found}


def test_members_imply_edges() -> None:
    write = {"scope": "user:a", "key": "k", "value": 1, "why": "reflection"}
    log = _log(
        {"type": "user.message", "content": "hello"},
        {"type": "ds.approval.requested", "question": "ship it?", "refs": [{"rel": "about", "id": "e0"}]},
        {"type": "ds.approval.decided", "request": "e1", "decision": "approve", "reason": "fine"},
        {"type": "ds.checkpoint", "units": 1, "next": "n", "instructions": "i"},
        {"type": "ds.context.reset", "checkpoint": "e3"},
        {"type": "ds.memory.written", **write, "refs": [{"rel": "because", "id": "e0"}]},
        {"type": "ds.memory.read", "scope": "user:a", "at": 1, "returned": [{"id": "e5", "session": "s"}]},
        {"type": "ds.memory.rolled_back", "write": "e5", "reason": "wrong"},
        {"type": "ds.artifact", "sha256": DIGEST, "name": "n", "role": "diff"},
        {"type": "ds.sandbox", "sandbox": "box", "backend": "local", "status": "ready"},
        {"type": "agent.tool_use", "name": "bash"},
        {"type": "agent.tool_result", "tool_use_id": "e10", "is_error": True},
        {"type": "ds.sandbox", "sandbox": "box", "backend": "local", "status": "lost"},
        {"type": "agent.tool_use", "name": "bash"},
    )
    graph = family_graph([log], "s", 14, LIMITS, [DIGEST])
    assert _edges(graph, "in", "by") == {
        ("e1", "e0", "about"),
        ("e2", "e1", "answers"),
        ("e4", "e3", "uses"),
        ("e5", "e0", "because"),
        ("e6", "e5", "reads"),
        ("e7", "e5", "undoes"),
        ("e8", f"artifact:{DIGEST}", "uses"),
        ("e10", "sandbox:box", "ran_in"),
        ("e11", "e10", "result_of"),
    }
    labels = {node.id.removeprefix("event:s/"): node.label for node in graph.nodes}
    assert labels["e0"] == "user.message: hello"
    assert labels["e10"] == "bash"
    assert labels["e11"] == "agent.tool_result (error)"
    assert graph.nodes[1].type == "ds.approval.requested"
    assert graph.nodes[1].actor == "coder"
    _check(graph)


def test_what_a_branch_had_adopted_itself_is_adopted_with_its_adoption() -> None:
    fact = {"key": "k", "value": 1, "kind": "fact", "id": "f"}
    common = {"verdicts": [], "artifacts": [], "position": 1, "type": "ds.adopted", "actor": "coder"}
    lives = [SessionLife(name, name * 12) for name in "abc"]
    logs = [
        SessionLog(lives[0], []),
        SessionLog(lives[1], [], lives[0]),
        SessionLog(lives[2], [_read({"id": "f", "type": "ds.fact", "key": "k", "value": 1}, 0)], lives[1]),
    ]
    by_b = {"id": "b1", **common, "session": "c", "facts": [fact], "ref_incarnations": [lives[2].life]}
    by_a = {"id": "a1", **common, "session": "b", "facts": [fact], "ref_incarnations": [lives[1].life]}
    logs[1] = SessionLog(lives[1], [_read(by_b, 0)], lives[0])
    logs[0] = SessionLog(lives[0], [_read(by_a, 0)])
    graph = family_graph(logs, "a", 1, LIMITS)
    adopts = {(edge.from_, edge.to) for edge in graph.edges if edge.rel == "adopts"}
    assert adopts == {("event:a/a1", "event:b/b1"), ("event:b/b1", "event:c/f")}


def test_redacted_and_untrusted_events_stay_nodes_and_tell_nothing() -> None:
    mark = {"event": None, "at": rfc3339(1), "reason": "r", "sha256": None, "bytes": 1}
    front = {"id": "e0", "offset": "0", "created_at": rfc3339(1), "processed_at": rfc3339(1), "actor": "a"}
    erased = {**front, "type": "ds.fact", "redacted": mark, "key": "secret", "value": None}
    untrusted = {
        "id": "e1",
        "type": "ds.fact",
        "imported": "untrusted",
        "refs": [{"rel": "about", "id": "e0"}],
    }
    log = SessionLog(SessionLife("s", "a" * 12), [_read(erased, 0), _read(untrusted, 1)])
    graph = family_graph([log], "s", 2, LIMITS)
    events = [node for node in graph.nodes if node.kind == "event"]
    assert [(node.label, node.redacted) for node in events] == [("ds.fact", True), ("ds.fact", False)]
    assert not _edges(graph, "in", "by")


@pytest.mark.parametrize(("limit", "truncated"), [(5, False), (4, True)])
def test_a_graph_ends_at_its_most_nodes(limit: int, truncated: bool) -> None:
    limits = replace(LIMITS, graph_nodes_max=limit)
    log = _log(*({"type": "agent.tool_use", "name": str(at)} for at in range(3)))
    graph = family_graph([log], "s", 3, limits)
    assert len(graph.nodes) == limit  # three calls, their session, and who made them
    assert graph.truncated is truncated
    _check(graph)


def test_a_graph_ends_at_its_most_bytes() -> None:
    log = _log(*({"type": "agent.tool_use", "name": f"{at:0100}"} for at in range(50)))
    whole = family_graph([log], "s", 50, LIMITS)
    size = len(msgspec.json.encode(whole))
    limits = replace(LIMITS, graph_bytes_max=size)
    cut = family_graph([log], "s", 50, limits)
    assert cut.truncated
    assert not whole.truncated
    assert len(msgspec.json.encode(cut)) <= size
    _check(cut)


def test_a_silent_session_only_gives_its_forks_what_they_inherit() -> None:
    builder = GraphBuilder(LIMITS)
    source, fork = SessionLife("s", "a" * 12), SessionLife("f", "b" * 12)
    builder.enter(source, silent=True)
    builder.step(_read({"id": "e0", "type": "ds.fact", "key": "k", "value": 1}, 0))
    builder.step(_read({"id": "e1", "type": "ds.fact", "key": "other", "value": 1}, 1))
    builder.enter(fork, source, 2)
    builder.step(_read({"id": "e2", "type": "ds.fact", "key": "k", "value": 2}, 2))
    graph = builder.graph("f", 3)
    assert ("event:f/e2", "event:s/e0", "supersedes") in {(e.from_, e.to, e.rel) for e in graph.edges}
    assert "event:s/e1" not in {node.id for node in graph.nodes}


def test_targets_of_free_events_are_looked_up_within_a_bound() -> None:
    limits = replace(LIMITS, graph_nodes_max=2)
    most = LOOKED_UP_PER_NODE * 2
    for count, truncated in ((most, False), (most + 1, True)):
        refs = [{"rel": "about", "id": f"nothing-{at}"} for at in range(count)]
        assert family_graph([_log({"type": "note", "refs": refs})], "s", 1, limits).truncated is truncated


HOSTILE = [
    '"]; evil["',
    "end",
    "a\nb\r\x00c",
    "#quot; &lt;b&gt; <script>alert(1)</script>",
    "`code` %% comment",
    "\\",
    '\\"',
    "]]) --> x",
    "\u202eevil\u2028next",
    "😀 ünï",
    "click n0 call alert()",
]


@pytest.mark.parametrize("label", HOSTILE)
def test_no_label_ends_before_its_end(label: str) -> None:
    nodes = [GraphNode("event:s/x", "event", label), GraphNode("artifact:y", "artifact", "y", missing=True)]
    graph = SessionGraph("s", "0", nodes, [], truncated=True)
    drawn = "".join(mermaid(graph)).splitlines()
    assert drawn[0] == "graph TD"
    assert len(drawn) == 4
    inner = drawn[1].removeprefix('  n0["').removesuffix('"]')
    assert all(one.isalnum() or one in " #;" for one in inner)
    text = "".join(dot(graph))
    assert text.startswith("digraph ")
    assert len(text.splitlines()) == 6
    quoted = text.splitlines()[2].partition("label=")[2].partition(", shape=")[0]
    assert quoted[0] == quoted[-1] == '"'
    assert "\\" not in quoted[1:-1].replace("\\\\", "").replace('\\"', "")
    assert '"' not in quoted[1:-1].replace("\\\\", "").replace('\\"', "")
