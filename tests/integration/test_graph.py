"""Graphs over HTTP: of families, and from an event back and on; the same with any number of partitions."""

import asyncio
import random
import shutil
from collections.abc import Iterable
from dataclasses import replace
from graphlib import TopologicalSorter
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest

from durable_sessions.client import AsyncClient, Client
from durable_sessions.client.errors import NotFoundError
from durable_sessions.errors import ColdReadError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions.placed_events import PlacedEvents
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.differential import Rivals, rivals
from tests.support.sessions import code
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

Event = dict[str, Any]
Graph = dict[str, Any]
Edge = tuple[str, str, str]
AROUND = ("in", "by", "ran_in", "forked_from")
SCOPE = "project:calc"


def edges(graph: Graph) -> set[Edge]:
    """Return the refs of a graph."""
    return {(one["from"], one["to"], one["rel"]) for one in graph["edges"] if one["rel"] not in AROUND}


def check(graph: Graph) -> None:
    nodes = [node["id"] for node in graph["nodes"]]
    assert len(nodes) == len(set(nodes))
    assert {one["from"] for one in graph["edges"]} | {one["to"] for one in graph["edges"]} <= set(nodes)
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for one in graph["edges"]:
        sorter.add(one["from"], one["to"])
    sorter.prepare()  # raises if there is a cycle


async def send(api: httpx2.AsyncClient, session: str, *events: Event) -> None:
    answer = await api.post(f"/sessions/{session}/events", json={"events": events})
    assert answer.is_success, answer.text


async def get(api: httpx2.AsyncClient, path: str, **query: Any) -> Graph:
    answer = await api.get(path, params=query)
    assert answer.status_code == 200, answer.text
    graph: Graph = answer.json()
    check(graph)
    return graph


def because(event: str, session: str | None = None, rel: str = "because") -> list[Event]:
    return [{"rel": rel, "id": event} | ({} if session is None else {"session": session})]


def fact(event: str, key: str = "k", **more: Any) -> Event:
    return {"type": "ds.fact", "id": event, "key": key, "value": 1, **more}


# Everything at once -----------------------------------------------------------------------


class _Story:
    """A random life of some sessions, the same for all servers that are compared."""

    def __init__(self, world: Rivals, seed: int) -> None:
        self._world = world
        self._random = random.Random(seed)
        self._events: dict[str, list[str]] = {}
        self._count = 0

    async def run(self, steps: int) -> None:
        for name in ("a", "b", "c"):
            await self._append(name, {"type": "user.message"})
        actions = [self._fact, self._ref, self._call, self._memory, self._free] * 2
        for _ in range(steps):
            await self._random.choice([*actions, self._fork, self._delete])()

    async def _ask(self, method: str, path: str, **given: Any) -> Any:
        status, _, body = await self._world.ask(method, f"/v1{path}", **given)
        assert status < 300, body
        return body

    async def _append(self, session: str, event: Event) -> str:
        self._count += 1
        name = f"e{self._count}"
        await self._ask("POST", f"/sessions/{session}/events", json={"events": [{"id": name, **event}]})
        self._events.setdefault(session, []).append(name)
        if event["type"].startswith("ds.") and "refs" in event:
            # No ref dangles when it is written.
            why = await self._ask("GET", f"/sessions/{session}/events/{name}/why?depth=1")
            named = {(ref["id"], ref.get("session", session)) for ref in event["refs"]}
            assert not named & {(one["id"], one["session"]) for one in why["missing"]}
        return name

    def _session(self) -> str:
        return self._random.choice(sorted(self._events))

    def _target(self, own: str) -> Event:
        other = self._random.choice([own, self._session()])
        found = {"rel": "because", "id": self._random.choice(self._events[other])}
        return found if other == own else {**found, "session": other}

    async def _fact(self) -> None:
        await self._append(self._session(), {"type": "ds.fact", "key": self._random.choice("kl"), "value": 1})

    async def _ref(self) -> None:
        to = self._session()
        paused = {"type": "ds.sandbox", "sandbox": "box", "backend": "local", "status": "ready"}
        await self._append(to, {**paused, "refs": [self._target(to)]})

    async def _free(self) -> None:
        to = self._session()
        await self._append(to, {"type": "note", "refs": [self._target(to)]})

    async def _call(self) -> None:
        to = self._session()
        call = await self._append(to, {"type": "agent.tool_use", "name": "ls"})
        await self._append(to, {"type": "agent.tool_result", "tool_use_id": call})

    async def _memory(self) -> None:
        to = self._session()
        said = {"scope": SCOPE, "key": self._random.choice("xy"), "value": 1, "why": "reflection"}
        write = await self._append(
            to, {"type": "ds.memory.written", **said, "refs": [{**self._target(to), "rel": "because"}]}
        )
        if self._random.random() < 0.5:
            recall = {"scope": SCOPE, "influence": "planning"}
            await self._ask("POST", f"/sessions/{self._session()}/recall", json=recall)
        elif self._random.random() < 0.3:
            undo = {"type": "ds.memory.rolled_back", "write": write, "session": to, "reason": "wrong"}
            await self._append(self._session(), undo)

    async def _fork(self) -> None:
        source = self._session()
        self._count += 1
        name = f"f{self._count}"
        at = self._random.randint(0, len(self._events[source]))
        headers = {"Stream-Forked-From": f"/v1/sessions/{source}"}
        await self._ask("PUT", f"/sessions/{name}", headers=headers)
        self._events[name] = list(self._events[source])
        await self._append(name, {"type": "ds.fact", "key": "k", "value": at})
        if self._random.random() < 0.5:
            adopt = {"session": name, "on_conflict": "theirs"}
            await self._ask("POST", f"/sessions/{source}/adopt", json=adopt)

    async def _delete(self) -> None:
        if len(self._events) > 3:
            name = self._session()
            await self._ask("DELETE", f"/sessions/{name}")
            del self._events[name]
            if self._random.random() < 0.7:
                await self._append(name, {"type": "user.message"})

    @property
    def sessions(self) -> list[str]:
        return sorted(self._events)


def _closure(start: str, found: Iterable[Edge], ends: set[Edge], *, forwards: bool) -> set[Edge]:
    """Return all edges on the way from a node, back or on; ``ends`` lead to what is gone for who names it."""
    begin, end = (1, 0) if forwards else (0, 1)
    by_node: dict[str, set[Edge]] = {}
    for edge in found:
        by_node.setdefault(edge[begin], set()).add(edge)
    closed: set[Edge] = set()
    waiting = [start]
    while waiting:
        for edge in by_node.pop(waiting.pop(), ()):
            closed.add(edge)
            if edge not in ends:
                waiting.append(edge[end])
    return closed


def _leads_to_what_is_gone(edge: Edge, sources: dict[str, str]) -> bool:
    """Say whether an event names one of a life that is gone, and that its own session does not have."""
    holder, owner = (name.removeprefix("event:").rpartition("/")[0] for name in edge[:2])
    here: str | None = f"session:{holder}"
    while here is not None:
        if here == f"session:{owner}":
            return False
        here = sources.get(here)
    return "~" in owner


@pytest.mark.parametrize("seed", [3, 6])
async def test_walks_agree_with_graphs_and_one_partition_with_two(tmp_path: Path, seed: int) -> None:
    async with rivals(tmp_path, (1, 2)) as world:
        story = _Story(world, seed)
        await story.run(50)
        everything: set[Edge] = set()
        sources: dict[str, str] = {}
        nodes: dict[str, Event] = {}
        for session in story.sessions:
            _, _, graph = await world.ask("GET", f"/v1/sessions/{session}/graph")
            check(graph)
            assert not graph["truncated"]
            everything |= edges(graph)
            sources |= {one["from"]: one["to"] for one in graph["edges"] if one["rel"] == "forked_from"}
            nodes |= {node["id"]: node for node in graph["nodes"]}
        assert {edge[2] for edge in everything} >= {"because", "supersedes", "result_of", "reads", "adopts"}
        ends = {edge for edge in everything if _leads_to_what_is_gone(edge, sources)}
        asked = 0
        for name, node in sorted(nodes.items()):
            owner, _, event = name.removeprefix("event:").partition("/")
            if node["kind"] != "event" or node.get("missing") or owner not in story.sessions:
                continue
            asked += 1
            path = f"/v1/sessions/{owner}/events/{event}"
            _, _, why = await world.ask("GET", f"{path}/why?depth=50")
            check(why)
            # Through a fork that still exists, what is gone may be reached nevertheless.
            shortest = _closure(name, everything, ends, forwards=False)
            assert shortest <= edges(why) <= _closure(name, everything, set(), forwards=False)
            gone = {one["id"].rpartition("/")[2] for one in why["nodes"] if one.get("missing")}
            assert gone <= {one["id"] for one in why["missing"]}
            _, _, impact = await world.ask("GET", f"{path}/impact?depth=50")
            check(impact)
            assert impact["up_to_date"]
            assert edges(impact) == _closure(name, everything, set(), forwards=True)
        assert asked > 5


# One thing after the other ----------------------------------------------------------------


async def test_a_session_has_a_graph_at_every_position(api: httpx2.AsyncClient) -> None:
    log = b"1 failed"
    digest = sha256(log).hexdigest()
    assert (await api.put(f"/artifacts/{digest}", content=log)).is_success
    await send(
        api,
        "s",
        {"type": "user.message", "id": "m", "content": "fix it"},
        {"type": "note", "id": "plain"},
        {"type": "ds.sandbox", "id": "box", "sandbox": "box-1", "backend": "local", "status": "ready"},
        {"type": "agent.tool_use", "id": "call", "name": "pytest"},
        {"type": "agent.tool_result", "id": "result", "tool_use_id": "call", "is_error": True},
        fact("cause", refs=because("result")),
        {"type": "note", "id": "free", "refs": because("m", rel="about")},
        {"type": "note", "id": "wrong", "refs": because("nothing")},
        {"type": "ds.artifact", "id": "log", "sha256": digest, "name": "log", "role": "test_log"},
    )
    graph = await get(api, "/sessions/s/graph")
    assert (graph["session"], graph["truncated"]) == ("s", False)
    assert graph["offset"] == (await api.get("/sessions/s")).json()["next_offset"]
    assert edges(graph) == {
        ("event:s/result", "event:s/call", "result_of"),
        ("event:s/cause", "event:s/result", "because"),
        ("event:s/free", "event:s/m", "about"),
        ("event:s/log", f"artifact:{digest}", "uses"),
    }
    around = {(one["from"], one["to"], one["rel"]) for one in graph["edges"]} - edges(graph)
    assert ("event:s/call", "sandbox:box-1", "ran_in") in around
    assert ("event:s/m", "session:s", "in") in around
    assert ("event:s/m", "principal:local", "by") in around
    by_id = {node["id"]: node for node in graph["nodes"]}
    assert by_id["event:s/call"] == {
        "id": "event:s/call",
        "kind": "event",
        "label": "pytest",
        "type": "agent.tool_use",
        "offset": "0000000000000000_0000000000000003",
        "actor": "local",
    }
    assert {node["kind"] for node in graph["nodes"]} == {
        "session",
        "event",
        "artifact",
        "principal",
        "sandbox",
    }
    assert not {"event:s/plain", "event:s/wrong"} & by_id.keys()
    early = await get(api, "/sessions/s/graph", at=5)
    assert edges(early) == {("event:s/result", "event:s/call", "result_of")}
    drawn = await api.get("/sessions/s/graph", params={"format": "mermaid"})
    assert drawn.text.startswith("graph TD\n")
    assert "result of" not in drawn.text
    assert "|result_of|" in drawn.text
    assert drawn.headers["content-type"] == "text/plain; charset=utf-8"
    assert (await api.get("/sessions/s/graph?format=dot")).text.startswith("digraph ")


async def test_families_and_missing_lives_are_named(api: httpx2.AsyncClient) -> None:
    await send(api, "old", {"type": "note", "id": "evidence"})
    life = (await api.get("/sessions/old")).headers["session-incarnation"]
    await send(api, "s", fact("f1"), fact("f2", refs=because("evidence", "old")))
    headers = {"Stream-Forked-From": "/v1/sessions/s"}
    assert (await api.put("/sessions/fork", headers=headers)).status_code == 201
    await send(api, "fork", fact("f3"))
    await send(api, "s", fact("later", "other"))
    assert (await api.delete("/sessions/old")).is_success
    await send(api, "old", {"type": "note", "id": "evidence"})

    family = await get(api, "/sessions/fork/graph")
    gone = f"event:old~{life}/evidence"
    expected = {
        ("event:s/f2", "event:s/f1", "supersedes"),
        ("event:s/f2", gone, "because"),
        ("event:fork/f3", "event:s/f2", "supersedes"),
    }
    assert edges(family) == expected
    assert {"from": "session:fork", "to": "session:s", "rel": "forked_from"} in family["edges"]
    assert "event:s/later" in {node["id"] for node in family["nodes"]}, "of an ancestor, also what came later"
    (missing,) = (node for node in family["nodes"] if node.get("missing"))
    assert missing["id"] == gone, "another life of the id is no evidence"
    assert edges(await get(api, "/sessions/s/graph")) == expected
    assert not edges(await get(api, "/sessions/s/graph", at=1)), "the fork begins behind that"
    headers = {
        "Stream-Forked-From": "/v1/sessions/s",
        "Stream-Fork-Offset": "0000000000000000_0000000000000001",
    }
    assert (await api.put("/sessions/sibling", headers=headers)).status_code == 201
    for member in ("s", "fork", "sibling"):
        assert edges(await get(api, f"/sessions/{member}/graph")) == expected, "each has the same family"
    alone = await get(api, "/sessions/fork/graph", family="false")
    assert edges(alone) == {("event:fork/f3", "event:s/f2", "supersedes")}

    why = await get(api, "/sessions/fork/events/f3/why")
    assert why["missing"] == [{"id": "evidence", "session": "old"}]
    assert edges(why) == expected
    assert edges(await get(api, "/sessions/fork/events/f3/why", depth=1)) == {
        ("event:fork/f3", "event:s/f2", "supersedes")
    }
    assert edges(await get(api, "/sessions/s/events/f1/impact")) == expected - {
        ("event:s/f2", gone, "because")
    }
    assert not (await get(api, "/sessions/old/events/evidence/impact"))["edges"]
    # The source of a fork can be deleted: what the fork has of it is told by the life that it had.
    source = (await api.get("/sessions/s")).headers["session-incarnation"]
    assert (await api.delete("/sessions/s")).is_success
    left = await get(api, "/sessions/fork/graph")
    assert (f"event:s~{source}/f2", f"event:s~{source}/f1", "supersedes") in edges(left)
    assert f"event:s~{source}/later" not in {node["id"] for node in left["nodes"]}
    assert len(edges(await get(api, "/sessions/fork/events/f2/why"))) == 2


async def test_impact_names_who_read_a_memory(api: httpx2.AsyncClient) -> None:
    await send(api, "s", {"type": "note", "id": "evidence"})
    memory = {"type": "ds.memory.written", "scope": SCOPE, "value": 1, "why": "reflection"}
    await send(api, "s", {**memory, "id": "w1", "key": "k", "refs": because("evidence")})
    body = {"scope": SCOPE, "key": "k", "influence": "planning"}
    await send(api, "reader", {"type": "user.message"})
    read = (await api.post("/sessions/reader/recall", json=body)).json()["event"]["id"]
    await send(api, "other", {**memory, "id": "w2", "key": "k", "refs": because(read, "reader")})
    undo = {"type": "ds.memory.rolled_back", "id": "undo", "write": "w1", "session": "s", "reason": "wrong"}
    await send(api, "other", undo)
    impact = await get(api, "/sessions/s/events/w1/impact")
    assert impact["readers"] == [{"session": "reader", "id": read, "influence": "planning"}]
    assert edges(impact) == {
        (f"event:reader/{read}", "event:s/w1", "reads"),
        ("event:other/w2", "event:s/w1", "supersedes"),
        ("event:other/w2", f"event:reader/{read}", "because"),
        ("event:other/undo", "event:s/w1", "undoes"),
    }
    why = await get(api, "/sessions/other/events/w2/why")
    assert ("event:s/w1", "event:s/evidence", "because") in edges(why)
    assert not why["missing"]


async def test_redacted_evidence_shows_as_such(api: httpx2.AsyncClient) -> None:
    await send(
        api, "s", {"type": "user.message", "id": "m", "content": "secret"}, fact("f", refs=because("m"))
    )
    redacted = await api.post("/sessions/s/redact", json={"events": ["m", "f"], "reason": "private"})
    assert redacted.is_success, redacted.text
    for path in ("graph", "events/f/why", "events/m/impact"):
        graph = await get(api, f"/sessions/s/{path}")
        assert edges(graph) == {("event:s/f", "event:s/m", "because")}, path
        shown = {node["id"]: node for node in graph["nodes"]}
        assert shown["event:s/m"]["redacted"]
        assert shown["event:s/f"]["redacted"]
        assert "secret" not in str(graph)


@pytest.mark.parametrize(
    ("path", "status", "refused"),
    [
        ("s/graph?format=png", 400, "invalid_request"),
        ("s/graph?family=maybe", 400, "invalid_request"),
        ("s/graph?at=99", 400, "offset_beyond_tail"),
        ("s/graph?depth=1", 400, "unknown_parameter"),
        ("none/graph", 404, "session_not_found"),
        ("s/events/m/why?depth=0", 400, "invalid_request"),
        (f"s/events/m/why?depth={DEFAULT_LIMITS.graph_depth_max + 1}", 400, "invalid_request"),
        (f"s/events/m/impact?depth={DEFAULT_LIMITS.graph_depth_max + 1}", 400, "invalid_request"),
        ("s/events/none/why", 404, "event_not_found"),
        ("s/events/none/impact", 404, "event_not_found"),
        ("none/events/m/why", 404, "session_not_found"),
    ],
)
async def test_what_cannot_be_answered_is_refused(
    api: httpx2.AsyncClient, path: str, status: int, refused: str
) -> None:
    await send(api, "s", {"type": "user.message", "id": "m"})
    answer = await api.get(f"/sessions/{path}")
    assert (answer.status_code, code(answer)) == (status, refused)
    most = DEFAULT_LIMITS.graph_depth_max
    assert (await api.get(f"/sessions/s/events/m/why?depth={most}")).status_code == 200


async def test_without_bucket_or_index_there_is_no_smaller_graph(
    api: httpx2.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(api, "s", {"type": "user.message", "id": "m"}, fact("f", refs=because("m")))

    async def away(*given: object) -> None:
        raise ColdReadError(reason="the bucket is away")

    monkeypatch.setattr(PlacedEvents, "find", away)
    for path in ("graph", "events/f/why"):
        answer = await api.get(f"/sessions/s/{path}")
        assert (answer.status_code, code(answer)) == (503, "view_unavailable")
        assert answer.headers["retry-after"]
    monkeypatch.setattr("durable_sessions.search.service.Search.referring", away)
    assert code(await api.get("/sessions/s/events/m/impact")) == "view_unavailable"


async def test_the_index_is_made_again_with_its_refs(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data") as server:
        async with httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api:
            await send(api, "s", {"type": "user.message", "id": "m"}, fact("f", refs=because("m")))
            before = await get(api, "/sessions/s/events/m/impact")
            await server.stop()
            for index in (tmp_path / "data").rglob("search"):
                shutil.rmtree(index)
            await server.start()
        async with httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api:
            assert await get(api, "/sessions/s/events/m/impact") == before
            assert edges(before)


@pytest.mark.parametrize(
    ("limits", "truncated"),
    [
        ({"graph_events_max": 3}, False),
        ({"graph_events_max": 2}, True),
        ({"graph_sessions_max": 2}, False),
        ({"graph_sessions_max": 1}, True),
    ],
    ids=str,
)
async def test_a_graph_says_that_it_is_truncated(
    tmp_path: Path, limits: dict[str, int], truncated: bool
) -> None:
    async with (
        local_server(tmp_path / "data", limits=replace(DEFAULT_LIMITS, **limits)) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        await send(api, "s", fact("f1"))
        for name in ("a", "b"):
            headers = {"Stream-Forked-From": "/v1/sessions/s"}
            assert (await api.put(f"/sessions/{name}", headers=headers)).status_code == 201
            await send(api, name, fact(f"f-{name}"))
        assert (await get(api, "/sessions/s/graph"))["truncated"] is truncated


async def test_an_impact_ends_at_its_most_nodes(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", limits=replace(DEFAULT_LIMITS, graph_nodes_max=4)) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        await send(api, "s", {"type": "user.message", "id": "m"})
        for number in range(4):
            graph = await get(api, "/sessions/s/events/m/impact")
            assert (len(graph["nodes"]), graph["truncated"]) == (number + 1, False)
            await send(api, "s", {"type": "note", "id": f"n{number}", "refs": because("m")})
        cut = await get(api, "/sessions/s/events/m/impact")
        assert (len(cut["nodes"]), cut["truncated"]) == (4, True)


async def test_the_client_asks_for_graphs(server: LocalServer) -> None:
    async with AsyncClient(server.url) as client:
        session = client.session("s")
        await session.append([{"type": "user.message", "id": "m/1"}, fact("f", refs=because("m/1"))])
        graph = await session.graph()
        assert isinstance(graph, dict)
        assert edges(graph) == {("event:s/f", "event:s/m/1", "because")}
        assert str(await session.graph("dot", family=False)).startswith("digraph ")
        assert edges(await session.why("f", depth=1)) == edges(graph)
        assert edges(await session.impact("m/1")) == edges(graph)

    def ask() -> None:
        with Client(server.url) as client:
            session = client.session("s")
            assert session.graph() == graph
            assert not edges(cast("Graph", session.graph(at=1)))
            assert str(session.graph("mermaid")).startswith("graph ")
            assert edges(session.why("f")) == edges(session.impact("m/1")) == edges(graph)
            with pytest.raises(NotFoundError):
                session.why("nothing")

    await asyncio.to_thread(ask)
