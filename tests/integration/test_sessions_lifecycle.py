"""Sessions over HTTP: create, read, update, list, fork, close, archive, delete, expire."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.sessions import START, append, at, code, notes, numbers, read, read_all

pytestmark = pytest.mark.anyio

REQUIRED = {
    "id",
    "type",
    "agent",
    "environment_id",
    "status",
    "title",
    "metadata",
    "created_at",
    "updated_at",
    "archived_at",
    "budget",
    "resources",
    "vault_ids",
    "outcome_evaluations",
    "stats",
    "usage",
    "next_offset",
    "event_count",
    "bytes",
    "lifecycle",
}
AGENT = {
    "id",
    "type",
    "version",
    "name",
    "description",
    "system",
    "model",
    "tools",
    "mcp_servers",
    "skills",
}


async def show(api: httpx2.AsyncClient, session: str) -> dict[str, Any]:
    answer = await api.get(f"/sessions/{session}")
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


# Creating -------------------------------------------------------------------------------


async def test_everything_about_a_new_session_is_optional(api: httpx2.AsyncClient) -> None:
    for body in (b"", b"{}", b'{"title":null,"metadata":null,"agent":null,"initial_events":null}'):
        answer = await api.post("/sessions", content=body)
        assert answer.status_code == 201
        session = answer.json()
        assert session.keys() >= REQUIRED
        assert session["agent"].keys() >= AGENT
        assert session["id"].startswith("sesn_")
        assert (session["type"], session["status"], session["lifecycle"]) == ("session", "idle", "open")
        assert (session["next_offset"], session["event_count"], session["bytes"]) == (START, 0, 0)
        shown = await show(api, session["id"])
        assert {**shown, "stats": None} == {**session, "stats": None}


async def test_a_session_is_created_with_all_that_is_said_of_it(api: httpx2.AsyncClient) -> None:
    said = {
        "id": "run:7@ci-1.a_b",
        "agent": {"id": "agent_elsewhere", "type": "agent", "version": 3},
        "environment_id": "env_elsewhere",
        "title": "Überall",
        "metadata": {"team": "infra", "n": 1, "nested": {"a": [1.50, None]}},
        "initial_events": [{"type": "user.message", "content": []}, {"type": "own"}],
        "budget": {"tokens": 5},
        "resources": [{"type": "file", "file_id": "file_1"}],
        "vault_ids": ["vault_1"],
    }
    answer = await api.post("/sessions", json=said)
    assert answer.status_code == 201, answer.text
    session = answer.json()
    for name in ("id", "environment_id", "title", "metadata", "budget", "vault_ids"):
        assert session[name] == said[name]
    assert session["agent"].keys() >= AGENT
    assert (session["agent"]["id"], session["agent"]["version"]) == ("agent_elsewhere", 3)
    assert session["resources"][0]["file_id"] == "file_1"
    assert session["event_count"] == 3
    types = [event["type"] for event in await read(api, "run:7@ci-1.a_b")]
    assert types == ["ds.budget.set", "user.message", "own"]
    again = await api.post("/sessions", json={"id": said["id"]})
    assert (again.status_code, again.headers["x-should-retry"]) == (409, "false")


async def test_numbers_in_metadata_keep_their_spelling(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", content=b'{"metadata":{"n":1.50,"big":12345678901234567890123}}')
    shown = await api.get("/sessions/s")
    assert b'"n":1.50' in shown.content
    assert b'"big":12345678901234567890123' in shown.content


async def test_put_creates_confirms_or_conflicts(api: httpx2.AsyncClient) -> None:
    body = {
        "title": "t",
        "metadata": {"a": 1},
        "agent": "agent_x",
        "resources": [{"type": "file", "file_id": "f"}],
        "initial_events": [{"type": "user.message"}],
    }
    assert (await api.put("/sessions/s", json=body)).status_code == 201
    assert (await api.put("/sessions/s", json=body)).status_code == 200
    assert (await api.put("/sessions/s")).status_code == 200
    assert len(await read(api, "s")) == 1, "a repeated PUT does not append its events again"
    others: list[dict[str, Any]] = [{"title": "other"}, {"metadata": {"a": 2}}, {"agent": "agent_y"}]
    for other in [*others, {"resources": [{"type": "file", "file_id": "g"}]}]:
        answer = await api.put("/sessions/s", json={**body, **other})
        assert answer.status_code == 409, other
    different = await api.put("/sessions/s", json={"title": "other"})
    assert different.headers["x-should-retry"] == "false"
    assert (await api.put("/sessions/s", json={"id": "t"})).status_code == 400


async def test_ids_that_can_be_used_and_ids_that_cannot(api: httpx2.AsyncClient) -> None:
    for name in ("a", "A-Z.a_z:0@9", "x" * 200, "_", "-", "sesn_1"):
        assert (await api.put(f"/sessions/{name}")).status_code == 201
        assert (await show(api, name))["id"] == name
        assert await append(api, name, {"type": "a"}) == 1
    for name in (".a", "x" * 201, "a%20b", "a%2Fb", "%C3%A9", "a*b", "a%00"):
        assert (await api.put(f"/sessions/{name}")).status_code == 400
        assert (await api.post(f"/sessions/{name}/events", json={"type": "a"})).status_code == 400


async def test_the_first_event_creates_the_session_and_a_read_never_does(api: httpx2.AsyncClient) -> None:
    for path in ("/sessions/s", "/sessions/s/events", "/sessions/s/events?offset=-1&live=long-poll"):
        assert (await api.get(path)).status_code == 404
    for method, path in (("HEAD", "/sessions/s/events"), ("POST", "/sessions/s"), ("DELETE", "/sessions/s")):
        assert (await api.request(method, path)).status_code == 404
    assert (await api.post("/sessions/s/close")).status_code == 404
    assert (await api.post("/sessions/s/archive")).status_code == 404
    assert await append(api, "s", {"type": "a"}) == 1
    assert (await show(api, "s"))["lifecycle"] == "active"


# Updating and following ------------------------------------------------------------------


async def test_update_changes_the_title_and_patches_metadata(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", json={"title": "one", "metadata": {"a": "1", "b": "2"}})
    answer = await api.post("/sessions/s", json={"title": "two", "metadata": {"b": None, "c": "3"}})
    assert answer.status_code == 200
    assert (answer.json()["title"], answer.json()["metadata"]) == ("two", {"a": "1", "c": "3"})
    (event,) = await read(api, "s")
    assert (event["type"], event["title"]) == ("session.updated", "two")
    assert event["metadata"] == {"a": "1", "c": "3"}
    assert (await api.post("/sessions/s", json={"title": "two"})).status_code == 200
    assert len(await read(api, "s")) == 1, "what changes nothing is no event"
    assert (await api.post("/sessions/s", json={"title": None})).json()["title"] is None


async def test_the_session_follows_its_events(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        local_server(tmp_path / "data", clock=clock) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1") as api,
    ):
        await append(api, "s", {"type": "session.status_running"})
        clock.advance(3)
        assert (await show(api, "s"))["status"] == "running"
        usage = {
            "input_tokens": 10,
            "output_tokens": 2,
            "cache_read_input_tokens": 5,
            "cache_creation": {"ephemeral_5m_input_tokens": 7, "ephemeral_1h_input_tokens": 1},
        }
        await append(api, "s", *[{"type": "span.model_request_end", "model_usage": usage}] * 2)
        await append(api, "s", {"type": "session.status_idle", "stop_reason": {"type": "requires_action"}})
        clock.advance(4)
        await server.restart()
        session = await show(api, "s")
        assert (session["status"], session["lifecycle"]) == ("idle", "paused")
        assert session["stats"] == {"active_seconds": 3.0, "duration_seconds": 7.0}
        assert session["usage"] == {
            "input_tokens": 20,
            "output_tokens": 4,
            "cache_read_input_tokens": 10,
            "cache_creation": {"ephemeral_5m_input_tokens": 14, "ephemeral_1h_input_tokens": 2},
        }
        assert (session["event_count"], session["next_offset"]) == (4, at(4))
        assert session["bytes"] > 400
        await append(api, "s", {"type": "session.status_rescheduled"}, {"type": "session.status_terminated"})
        clock.advance(5)
        session = await show(api, "s")
        assert (session["status"], session["stats"]["duration_seconds"]) == ("terminated", 7.0)


async def test_an_imported_outcome_keeps_its_id(api: httpx2.AsyncClient) -> None:
    await append(
        api,
        "s",
        {"type": "user.define_outcome", "description": "old", "outcome_id": "outc_before"},
        {"type": "user.define_outcome", "description": "new", "max_iterations": 3},
        {"type": "span.outcome_evaluation_start", "outcome_id": "outc_before", "iteration": 1},
    )
    old, new, _ = await read(api, "s")
    assert (old["outcome_id"], old["max_iterations"]) == ("outc_before", None)
    assert new["outcome_id"].startswith("outc_")
    assert new["max_iterations"] == 3
    first, second = (await show(api, "s"))["outcome_evaluations"]
    assert (first["outcome_id"], first["result"], first["iteration"]) == ("outc_before", "evaluating", 1)
    assert (second["outcome_id"], second["result"]) == (new["outcome_id"], "pending")


# Listing --------------------------------------------------------------------------------


async def listed(api: httpx2.AsyncClient, **parameters: Any) -> list[str]:
    found: list[str] = []
    while True:
        answer = await api.get("/sessions", params=parameters)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += [session["id"] for session in page["data"]]
        if page["next_page"] is None:
            return found
        parameters["page"] = page["next_page"]


async def test_lists_are_newest_first_and_filtered(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/a", json={"title": "Fix the Build", "metadata": {"team": "infra", "n": 1}})
    await api.put("/sessions/b", json={"agent": {"id": "agent_1", "version": 2}})
    await append(api, "c-build", {"type": "session.status_running"})
    await append(api, "d", {"type": "session.status_idle", "stop_reason": {"type": "requires_action"}})
    await api.put("/sessions/e")
    await api.post("/sessions/e/archive")
    await api.post("/sessions/d/close")
    assert await listed(api) == ["d", "c-build", "b", "a"]
    assert await listed(api, order="asc", limit=1) == ["a", "b", "c-build", "d"]
    assert await listed(api, include_archived="true", limit=3) == ["e", "d", "c-build", "b", "a"]
    assert await listed(api, q="bUILD") == ["c-build", "a"]
    assert await listed(api, q="infra") == ["a"]
    assert await listed(api, **{"metadata[team]": "infra"}) == ["a"]
    assert await listed(api, **{"metadata[n]": "1"}) == ["a"]
    assert await listed(api, **{"metadata[team]": "other"}) == []
    assert await listed(api, agent_id="agent_1") == ["b"]
    assert await listed(api, agent_id="agent_1", agent_version=1) == []
    assert await listed(api, **{"statuses[]": "running"}) == ["c-build"]
    assert await listed(api, lifecycle="archived") == ["e"]
    assert await listed(api, lifecycle="closed") == ["d"]
    assert await listed(api, lifecycle="open") == ["b", "a"]
    assert await listed(api, lifecycle="open,active") == ["c-build", "b", "a"]
    assert await listed(api, **{"created_at[gte]": "2000-01-01T00:00:00Z"}) == ["d", "c-build", "b", "a"]
    assert await listed(api, **{"created_at[lt]": "2000-01-01T00:00:00Z"}) == []


async def test_pages_stay_right_while_sessions_come_and_go(api: httpx2.AsyncClient) -> None:
    for number in range(9):
        await api.put(f"/sessions/s{number}")
    first = (await api.get("/sessions?limit=3")).json()
    assert [one["id"] for one in first["data"]] == ["s8", "s7", "s6"]
    await api.put("/sessions/new")
    await api.delete("/sessions/s6")
    await api.delete("/sessions/s4")
    second = (await api.get(f"/sessions?limit=3&page={first['next_page']}")).json()
    assert [one["id"] for one in second["data"]] == ["s5", "s3", "s2"]
    back = (await api.get(f"/sessions?limit=3&page={second['prev_page']}")).json()
    assert [one["id"] for one in back["data"]] == ["new", "s8", "s7"]
    assert back["prev_page"] is None
    again = (await api.get(f"/sessions?limit=3&page={back['next_page']}")).json()
    assert [one["id"] for one in again["data"]] == ["s5", "s3", "s2"]
    for number in (8, 7):
        await api.delete(f"/sessions/s{number}")
    await api.delete("/sessions/new")
    empty = (await api.get(f"/sessions?limit=3&page={second['prev_page']}")).json()
    assert (empty["data"], empty["prev_page"]) == ([], None)
    onward = (await api.get(f"/sessions?limit=3&page={empty['next_page']}")).json()
    assert [one["id"] for one in onward["data"]] == ["s5", "s3", "s2"]


# The end --------------------------------------------------------------------------------


async def test_a_closed_session_is_read_for_ever_and_takes_nothing(api: httpx2.AsyncClient) -> None:
    await append(api, "a", {"type": "one"})
    closed = await api.post("/sessions/a/close")
    assert (closed.status_code, closed.json()["lifecycle"]) == (200, "closed")
    last = await api.post("/sessions/b/events", json={"type": "last"}, headers={"Stream-Closed": "true"})
    assert (last.status_code, last.headers["stream-closed"]) == (204, "true")
    for session in ("a", "b"):
        refused = await api.post(f"/sessions/{session}/events", json={"type": "more"})
        assert (refused.status_code, refused.headers["x-should-retry"]) == (409, "false")
        assert refused.headers["stream-next-offset"] == at(1)
        page = await api.get(f"/sessions/{session}/events")
        assert (page.status_code, page.headers["stream-closed"]) == (200, "true")
        head = await api.head(f"/sessions/{session}/events")
        assert (head.headers["stream-closed"], head.headers["stream-next-offset"]) == ("true", at(1))
        assert (await api.post(f"/sessions/{session}/close")).status_code == 200, "closing twice is fine"
    assert (await api.post("/sessions/a", json={"title": "still mine"})).json()["title"] == "still mine"


async def test_archive_is_final_and_read_only(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "session.status_running"})
    archived = (await api.post("/sessions/s/archive")).json()
    assert (archived["lifecycle"], archived["status"]) == ("archived", "terminated")
    assert archived["archived_at"] is not None
    assert (await api.post("/sessions/s/archive")).json()["archived_at"] == archived["archived_at"]
    for path, body in (("/sessions/s/events", {"type": "a"}), ("/sessions/s", {"title": "t"})):
        refused = await api.post(path, json=body)
        assert (refused.status_code, refused.headers["x-should-retry"]) == (409, "false")
    types = [event["type"] for event in await read(api, "s")]
    assert types == ["session.status_running", "session.status_terminated"]


async def test_a_deleted_session_is_gone_and_makes_room(api: httpx2.AsyncClient) -> None:
    await append(api, "s", {"type": "old", "id": "mine"})
    deleted = await api.delete("/sessions/s")
    assert (deleted.status_code, deleted.json()) == (200, {"id": "s", "type": "session_deleted"})
    for path in ("/sessions/s", "/sessions/s/events", "/sessions/s/events/mine"):
        assert (await api.get(path)).status_code == 404
    assert await listed(api) == []
    assert await append(api, "s", {"type": "new", "id": "mine"}) == 1
    assert [event["type"] for event in await read(api, "s")] == ["new"]


# Time -----------------------------------------------------------------------------------


async def test_a_session_lives_as_long_as_its_ttl_says(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        local_server(tmp_path / "data", clock=clock) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1") as api,
    ):
        both = {"Stream-TTL": "60", "Stream-Expires-At": "2099-01-01T00:00:00Z"}
        assert (await api.put("/sessions/s", headers=both)).status_code == 400
        assert (await api.put("/sessions/s", headers={"Stream-TTL": "60"})).status_code == 201
        assert (await api.put("/sessions/s", headers={"Stream-TTL": "60"})).status_code == 200
        assert (await api.put("/sessions/s", headers={"Stream-TTL": "61"})).status_code == 409
        assert (await api.head("/sessions/s/events")).headers["stream-ttl"] == "60"
        await append(api, "s", {"type": "first", "id": "mine"})
        for _ in range(3):
            clock.advance(50)
            assert len(await read(api, "s")) == 1, "a read is use"
        clock.advance(61)
        assert (await api.get("/sessions/s")).status_code == 404
        assert await listed(api) == []
        assert await append(api, "s", {"type": "second", "id": "mine"}) == 1, "an expired one makes room"
        assert [event["type"] for event in await read(api, "s")] == ["second"]
        assert "stream-ttl" not in (await api.head("/sessions/s/events")).headers
        at_time = {"Stream-Expires-At": "2023-11-14T22:30:00Z"}
        assert (await api.put("/sessions/t", headers=at_time)).status_code == 201
        told = (await api.head("/sessions/t/events")).headers["stream-expires-at"]
        assert told == "2023-11-14T22:30:00.000Z"
        clock.advance(3600)
        assert (await api.get("/sessions/t")).status_code == 404


# Forks ----------------------------------------------------------------------------------


def stored_bytes(server: LocalServer) -> int:
    return sum(path.stat().st_size for path in server.data.rglob("*") if path.is_file())


async def test_a_fork_is_a_reference(server: LocalServer, api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/big", json={"title": "Big", "metadata": {"a": "b"}})
    for _ in range(4):
        await append(api, "big", *[{"type": "note", "n": n, "text": "x" * 5_000} for n in range(100)])
    before = stored_bytes(server)
    headers = {"Stream-Forked-From": "/v1/sessions/big", "Stream-Fork-Offset": at(150)}
    fork = await api.put("/sessions/fork", headers=headers)
    assert fork.status_code == 201
    assert stored_bytes(server) - before < 2_000, "a fork of 2 MB writes next to nothing"
    session = fork.json()
    assert (session["event_count"], session["next_offset"], session["bytes"]) == (150, at(150), 0)
    assert (session["title"], session["metadata"]) == ("Big", {"a": "b"})
    assert session["forked_from"] == {"session_id": "big", "position": 150}
    inherited = await read_all(api, "fork")
    assert inherited == (await read_all(api, "big"))[:150], "inherited events keep their ids"
    assert await append(api, "fork", {"type": "own"}) == 151
    assert await append(api, "big", {"type": "other"}) == 401
    assert [event["type"] for event in await read(api, "fork", tail=2)] == ["note", "own"]
    assert (await api.get(f"/sessions/fork/events/{inherited[3]['id']}")).json() == inherited[3]
    assert (await api.put("/sessions/fork", headers=headers)).status_code == 200
    other = {**headers, "Stream-Fork-Offset": at(151)}
    assert (await api.put("/sessions/fork", headers=other)).status_code == 409


async def test_the_source_of_a_fork_may_be_named_in_several_ways(api: httpx2.AsyncClient) -> None:
    await append(api, "a", *notes(range(3)))
    for name, source in (("b", "/v1/sessions/a"), ("c", "/v1/stream/sessions/a"), ("d", "sessions/a")):
        headers = {"Stream-Forked-From": source}
        answer = await api.put(f"/sessions/{name}", headers=headers, json={"title": "mine"})
        assert (answer.status_code, answer.json()["title"]) == (201, "mine")
        assert numbers(await read(api, name)) == [0, 1, 2]


async def test_forks_that_cannot_be(api: httpx2.AsyncClient) -> None:
    await append(api, "a", {"type": "x"})
    for source, offset, status in (
        ("/v1/sessions/missing", None, 404),
        ("/v1/sessions/a", at(2), 400),
        ("/v1/sessions/a", "nonsense", 400),
        ("/v1/sessions/a/b", None, 400),
        ("elsewhere", None, 400),
    ):
        headers = {"Stream-Forked-From": source} | ({} if offset is None else {"Stream-Fork-Offset": offset})
        assert (await api.put("/sessions/b", headers=headers)).status_code == status, source
    assert (await api.get("/sessions/b")).status_code == 404


async def test_a_session_that_forks_need_is_gone_but_they_read_on(api: httpx2.AsyncClient) -> None:
    await append(api, "a", *notes(range(3)))
    await api.put("/sessions/b", headers={"Stream-Forked-From": "/v1/sessions/a"})
    assert (await api.delete("/sessions/a")).status_code == 200
    for headers in ({}, {"anthropic-version": "2026-10-21"}):
        for method, path in (
            ("HEAD", ""),
            ("HEAD", "/events"),
            ("GET", ""),
            ("GET", "/events"),
            ("GET", "/events?tail=1"),
            ("GET", "/events?offset=-1&live=sse"),
            ("GET", "/events?offset=-1&live=long-poll"),
            ("GET", "/events/stream"),
            ("GET", "/events/sevt_1"),
            ("GET", "/threads"),
            ("GET", "/resources"),
            ("POST", ""),
            ("POST", "/close"),
            ("POST", "/archive"),
            ("DELETE", ""),
        ):
            answer = await api.request(method, f"/sessions/a{path}", json={}, headers=headers)
            assert answer.status_code == 404, (method, path)
            assert method == "HEAD" or code(answer) == "session_not_found"
    gone = await api.put("/sessions/c", headers={"Stream-Forked-From": "/v1/sessions/a"})
    assert (gone.status_code, code(gone)) == (404, "session_not_found")
    for method in ("GET", "HEAD", "POST", "DELETE"):
        answer = await api.request(
            method,
            "/stream/sessions/a",
            headers={"Content-Type": "application/json"},
            content=b'[{"type":"x"}]' if method == "POST" else b"",
        )
        assert answer.status_code == 404, "the same on the face of the protocol"
    assert [one["id"] for one in (await api.get("/sessions")).json()["data"]] == ["b"]
    assert numbers(await read(api, "b")) == [0, 1, 2]
    await api.delete("/sessions/b")
    assert await append(api, "a", {"type": "x"}) == 1


@pytest.mark.parametrize("way", ["append", "post", "put", "stream"])
async def test_the_id_of_a_deleted_session_is_free_at_once(
    server: LocalServer, api: httpx2.AsyncClient, way: str
) -> None:
    await append(api, "a", *notes(range(3)))
    source = {"Stream-Forked-From": "/v1/sessions/a"}
    assert (await api.put("/sessions/b", headers=source)).status_code == 201
    old = (await api.get("/sessions/a")).json()["incarnation"]
    assert "deleted" not in (await api.get("/sessions/b")).json()["forked_from"]
    await api.delete("/sessions/a")
    if way == "append":
        assert await append(api, "a", {"type": "new"}) == 1
    elif way == "post":
        assert (await api.post("/sessions", json={"id": "a"})).status_code == 201
    elif way == "put":
        assert (await api.put("/sessions/a")).status_code == 201
    else:
        headers = {"Content-Type": "application/json"}
        assert (await api.put("/stream/sessions/a", headers=headers)).status_code == 201
    new = (await api.get("/sessions/a")).json()
    assert new["incarnation"] != old
    shown = (await api.get("/sessions/b")).json()["forked_from"]
    assert shown == {"session_id": "a", "position": 3, "deleted": True}
    listed = {one["id"]: one.get("forked_from") for one in (await api.get("/sessions")).json()["data"]}
    assert listed == {"a": None, "b": shown}
    again = await api.put("/sessions/b", headers=source)
    assert (again.status_code, code(again)) == (409, "session_exists"), "it is no fork of this life"
    while await server.node.engine.partition.flush():
        pass
    assert numbers(await read(api, "b")) == [0, 1, 2]
    await server.restart()
    assert (await api.get("/sessions/a")).json()["incarnation"] == new["incarnation"]
    assert (await api.get("/sessions/b")).json()["forked_from"] == shown
    await api.delete("/sessions/b")
    assert (await api.get("/sessions/a")).json()["incarnation"] == new["incarnation"]
    await api.delete("/sessions/a")
    assert (await api.get("/sessions/a")).status_code == 404


async def test_an_expired_session_that_forks_need_gives_up_its_id(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        local_server(tmp_path / "data", clock=clock) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1") as api,
    ):
        await api.put("/sessions/a", headers={"Stream-TTL": "60"}, json={"initial_events": notes(range(2))})
        fork = {"Stream-Forked-From": "/v1/sessions/a", "Stream-TTL": "600"}
        assert (await api.put("/sessions/b", headers=fork)).status_code == 201
        clock.advance(100)
        assert (await api.get("/sessions/a")).status_code == 404
        assert await append(api, "a", {"type": "x"}) == 1
        assert (await show(api, "b"))["forked_from"]["deleted"] is True
        assert numbers(await read(api, "b")) == [0, 1]


async def test_a_list_is_sorted_by_when_sessions_happened(api: httpx2.AsyncClient) -> None:
    for name, day in (("old", 1), ("new", 3), ("middle", 2)):
        note = {"type": "note", "created_at": f"2020-01-0{day}T00:00:00Z"}
        assert (await api.post(f"/sessions/{name}/events", json=note)).status_code == 204
    await api.post("/sessions/live/events", json={"type": "note"})
    for sort in ("activity", "started_at"):
        first = (await api.get(f"/sessions?sort={sort}&limit=3")).json()
        assert [one["id"] for one in first["data"]] == ["live", "new", "middle"]
        second = (await api.get(f"/sessions?sort={sort}&limit=3&page={first['next_page']}")).json()
        assert ([one["id"] for one in second["data"]], second["next_page"]) == (["old"], None)
        back = (await api.get(f"/sessions?sort={sort}&limit=3&page={second['prev_page']}")).json()
        assert [one["id"] for one in back["data"]] == ["live", "new", "middle"]
        assert back["prev_page"] is None
    oldest = (await api.get("/sessions?sort=activity&order=asc")).json()["data"]
    assert [one["id"] for one in oldest] == ["old", "middle", "new", "live"]
    assert (await api.get("/sessions?sort=created_at")).json()["data"][0]["id"] == "live"
    for wrong in (
        "sort=luck",
        "sort=activity&page=desc-next-1",
        f"sort=updated_at&page={first['next_page']}",
    ):
        assert (await api.get(f"/sessions?{wrong}")).status_code == 400
