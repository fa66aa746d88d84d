"""Memory over HTTP: writes with evidence, reads that are recorded, roll-backs, redactions, search."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.http.api import memory_reads
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, make_secret
from tests.support.sessions import code, read
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

Event = dict[str, Any]
SCOPE = "project:calc"


@pytest.fixture
async def evidence(api: httpx2.AsyncClient) -> str:
    """An event that a session has, which memories rest on."""
    sent = await api.post("/sessions/s/events", json={"type": "agent.tool_result", "id": "result-1"})
    assert sent.status_code == 204, sent.text
    return "result-1"


def written(key: str, value: Any, **more: Any) -> Event:
    because = [{"rel": "because", "id": "result-1"}]
    said = {"type": "ds.memory.written", "scope": SCOPE, "key": key, "value": value, "why": "tool_result"}
    return {**said, "refs": because, **more}


async def send(api: httpx2.AsyncClient, *events: Event, session: str = "s") -> httpx2.Response:
    return await api.post(
        f"/sessions/{session}/events", json={"events": events}, headers={"Prefer": "return=representation"}
    )


async def write(api: httpx2.AsyncClient, *events: Event, session: str = "s") -> list[str]:
    answer = await send(api, *events, session=session)
    assert answer.status_code == 200, answer.text
    return [event["id"] for event in answer.json()["data"]]


async def memory(api: httpx2.AsyncClient, scope: str = SCOPE, **query: Any) -> dict[str, Any]:
    answer = await api.get("/memory", params={"scope": scope, **query})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def values(api: httpx2.AsyncClient, **query: Any) -> dict[str, Any]:
    return {entry["key"]: entry["value"] for entry in (await memory(api, **query))["data"]}


async def log(api: httpx2.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    answer = await api.get("/memory/log", params={"scope": SCOPE, **query})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["data"]
    return found


async def test_a_write_is_in_the_next_read_with_its_evidence(api: httpx2.AsyncClient, evidence: str) -> None:
    assert await memory(api) == {"scope": SCOPE, "at": 0, "data": [], "next_page": None}
    (first,) = await write(api, written("sum", "off by one", kind="failure_pattern", confidence=0.5))
    (second,) = await write(api, written("sum", {"cause": "range"}, why="reflection"))
    found = await memory(api)
    (entry,) = found["data"]
    assert (found["at"], found["next_page"]) == (2, None)
    assert entry.pop("created_at")
    assert entry == {
        "scope": SCOPE,
        "key": "sum",
        "value": {"cause": "range"},
        "kind": "note",
        "why": "reflection",
        "confidence": None,
        "id": second,
        "session": "s",
        "position": 1,
        "actor": "local",
        "because": [{"id": "result-1", "session": "s"}],
        "supersedes": first,
        "reads": 0,
    }
    (before,) = (await memory(api, at=1))["data"]
    assert (before["value"], before["kind"], before["confidence"]) == ("off by one", "failure_pattern", 0.5)
    assert (await api.get("/memory/scopes")).json() == {
        "data": [{"scope": SCOPE, "entries": 1, "position": 2}],
        "next_page": None,
    }
    state = (await api.get("/sessions/s/state")).json()
    assert state["memory"] == {"writes": [first, second], "reads": [], "rolled_back": []}


async def test_a_rolled_back_write_is_in_no_read_but_in_the_past(
    api: httpx2.AsyncClient, evidence: str
) -> None:
    first, second = await write(api, written("sum", 1), written("sum", 2))
    undo = {"type": "ds.memory.rolled_back", "write": second, "reason": "wrong"}
    (undone,) = await write(api, undo)
    assert await values(api) == {"sum": 1}
    assert await values(api, at=2) == {"sum": 2}
    (entry,) = (await memory(api))["data"]
    assert (entry["id"], entry["supersedes"]) == (first, None)
    # Once more is accepted, and changes nothing.
    await write(api, undo)
    assert await values(api) == {"sum": 1}
    # Another session can do it, too.
    await write(api, {**undo, "write": first, "session": "s"}, session="other")
    assert await values(api) == {}
    assert [line["type"] for line in await log(api)] == ["written"] * 2 + ["rolled_back"] * 3
    line = (await log(api, **{"from": 2, "limit": 1}))[0]
    assert (line["id"], line["write"], line["reason"]) == (undone, second, "wrong")
    event = (await read(api, "other"))[0]
    assert event["ref_incarnations"] == [(await api.get("/sessions/s")).json()["incarnation"]]


async def test_a_recall_is_recorded_with_what_it_returned(api: httpx2.AsyncClient, evidence: str) -> None:
    (first,) = await write(api, written("sum", "range is off by one"))
    await write(api, written("name", "call it total"))
    body = {"scope": SCOPE, "q": "range", "influence": "planning", "workflow": "mend"}
    headers = {"Idempotency-Key": "once"}
    await write(api, {"type": "note"}, session="later")
    recalled = await api.post("/sessions/later/recall", json=body, headers=headers)
    assert recalled.status_code == 200, recalled.text
    event, (entry,) = recalled.json()["event"], recalled.json()["data"]
    assert (entry["key"], entry["reads"]) == ("sum", 0)
    assert (event["type"], event["at"], event["query"]) == ("ds.memory.read", 2, "range")
    assert event["returned"] == [{"id": first, "session": "s"}]
    assert event["ref_incarnations"] == [(await api.get("/sessions/s")).json()["incarnation"]]
    assert (await read(api, "later"))[1] == event
    # A repeat is answered as the first time, whatever was written since.
    await write(api, written("sum", "another range"))
    again = await api.post("/sessions/later/recall", json=body, headers=headers)
    assert again.json() == recalled.json()
    assert (await memory(api, at=3))["data"][-1]["reads"] == 1
    (line,) = [line for line in await log(api) if line["type"] == "read"]
    assert (line["session"], line["influence"], line["returned"]) == ("later", "planning", event["returned"])
    state = (await api.get("/sessions/later/state")).json()
    assert state["memory"]["reads"] == [event["id"]]
    # Nothing found is recorded, too; and by key.
    nothing = (await api.post("/sessions/later/recall", json={"scope": SCOPE, "key": "none"})).json()
    assert (nothing["data"], nothing["event"]["returned"], nothing["event"]["key"]) == ([], [], "none")


@pytest.mark.parametrize("at_once", [500, 2], ids=["in-one-ranking", "in-parts"])
async def test_only_live_entries_are_found_the_best_first(
    api: httpx2.AsyncClient, evidence: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where more writes match than the index ranks: then parts of the log are ranked."""
    monkeypatch.setattr(memory_reads, "_FOUND_AT_ONCE", at_once)
    monkeypatch.setattr(memory_reads, "_PART_MAX", at_once)
    monkeypatch.setattr(memory_reads, "DEPTH_MAX", at_once * 5)
    events = [written(f"key-{number}", f"timeout number {number}") for number in range(30)]
    await write(api, *events)
    await write(api, *(written(f"key-{number}", "all is well") for number in range(20)))
    await write(api, written("best", "timeout timeout", kind="failure_pattern"))
    found = await memory(api, q="timeout", limit=6)
    assert found["data"][0]["key"] == "best"
    keys = [entry["key"] for entry in found["data"]]
    while found["next_page"] is not None:
        found = await memory(api, q="timeout", limit=6, page=found["next_page"])
        keys += [entry["key"] for entry in found["data"]]
    assert sorted(keys) == sorted(["best", *(f"key-{number}" for number in range(20, 30))])
    assert keys[1:] == sorted(keys[1:])  # of equal rank: in the order of the log
    assert len((await memory(api, q="timeout", at=30, limit=1000))["data"]) == 30
    (pattern,) = (await memory(api, q="name:failure_pattern timeout"))["data"]
    assert pattern["key"] == "best"
    # Memory is found by its own route only: in sessions, there are the events.
    everywhere = (await api.get("/search", params={"q": "timeout"})).json()
    assert {found["session"]["id"] for found in everywhere["data"]} == {"s"}


async def test_a_page_has_at_most_memory_page_max_entries(api: httpx2.AsyncClient, evidence: str) -> None:
    most = DEFAULT_LIMITS.memory_page_max
    at_once = DEFAULT_LIMITS.memory_events_per_request_max
    for first in range(0, most, at_once):
        await write(api, *(written(f"key-{number}", number) for number in range(first, first + at_once)))
    await write(api, written("one more", 1))
    assert len((await memory(api, limit=most))["data"]) == most
    refused = await api.get("/memory", params={"scope": SCOPE, "limit": most + 1})
    assert refused.status_code == 400


async def test_pages_show_one_point_in_time(api: httpx2.AsyncClient, evidence: str) -> None:
    await write(api, *(written(f"key-{number}", number) for number in range(25)))
    seen: list[int] = []
    page: dict[str, Any] = {}
    while True:
        found = await memory(api, limit=10, **page)
        seen += [entry["value"] for entry in found["data"]]
        if found["next_page"] is None:
            break
        page = {"page": found["next_page"]}
        await write(api, written("key-0", "later"))
    assert seen == list(range(24, -1, -1))


async def test_memory_outlives_its_session(api: httpx2.AsyncClient, evidence: str) -> None:
    first, _ = await write(api, written("sum", 1), written("other", 2))
    assert (await api.delete("/sessions/s")).status_code == 200
    assert await values(api) == {"sum": 1, "other": 2}
    await write(api, {"type": "note"}, session="later")
    read_event = {"type": "ds.memory.read", "scope": SCOPE, "at": 2}
    returned = [{"id": first, "session": "s"}]
    await write(api, {**read_event, "returned": returned, "backend": "mine"}, session="later")
    undo = {"type": "ds.memory.rolled_back", "write": first, "session": "s", "reason": "wrong"}
    await write(api, undo, session="later")
    assert await values(api) == {"other": 2}


async def test_a_fork_can_name_what_it_inherits(api: httpx2.AsyncClient, evidence: str) -> None:
    (first,) = await write(api, written("sum", 1))
    forked = await api.put("/sessions/fork", headers={"Stream-Forked-From": "/v1/sessions/s"})
    assert forked.status_code == 201
    read_event = {"type": "ds.memory.read", "scope": SCOPE, "at": 1}
    await write(api, {**read_event, "returned": [{"id": first, "session": "fork"}]}, session="fork")
    await write(api, {"type": "ds.memory.rolled_back", "write": first, "reason": "no"}, session="fork")
    assert await values(api) == {}
    state = (await api.get("/sessions/fork/state")).json()["memory"]
    assert (state["writes"], len(state["reads"]), len(state["rolled_back"])) == ([], 1, 1)


async def test_events_of_one_request_may_name_each_other(api: httpx2.AsyncClient, evidence: str) -> None:
    await write(
        api,
        written("sum", 1, id="w-1"),
        {"type": "ds.memory.read", "scope": SCOPE, "at": 1, "returned": [{"id": "w-1", "session": "s"}]},
        {"type": "ds.memory.rolled_back", "write": "w-1", "reason": "no"},
    )
    assert await values(api) == {}
    assert (await memory(api, at=2))["data"][0]["reads"] == 1
    # Also the first events of a session.
    events = [{"type": "note", "id": "n"}, {**written("a", 1), "refs": [{"rel": "because", "id": "n"}]}]
    made = await api.put("/sessions/new", json={"initial_events": events})
    assert made.status_code == 201, made.text
    assert await values(api) == {"a": 1}


@pytest.mark.parametrize(
    ("event", "expected", "path"),
    [
        ({**written("k", 1), "refs": []}, "invalid_event", "refs"),
        (written("k", 1, scope="team:x"), "invalid_event", "scope"),
        (written("k", 1, scope="project:a b"), "invalid_event", "scope"),
        (written("", 1), "invalid_event", "key"),
        (written("k", 1, why="guess"), "invalid_event", "why"),
        (written("k", 1, why="api"), "invalid_event", "why"),
        (written("k", 1, kind="fact"), "invalid_event", "kind"),
        (written("k", 1, confidence=1.1), "invalid_event", "confidence"),
        (written("k", "x" * 16_400), "invalid_event", "value"),
        (written("k", 1, vlaue=2), "invalid_event", "vlaue"),
        (written("k", 1, refs=[{"rel": "because", "id": "nowhere"}]), "unresolved_reference", "refs[0]"),
        (
            {"type": "ds.memory.rolled_back", "write": "result-1", "reason": "r"},
            "unresolved_reference",
            "write",
        ),
        (
            {"type": "ds.memory.rolled_back", "write": "w", "session": "gone", "reason": "r"},
            "unresolved_reference",
            "write",
        ),
        (
            {
                "type": "ds.memory.read",
                "scope": SCOPE,
                "at": 0,
                "returned": [{"id": "result-1", "session": "s"}],
            },
            "unresolved_reference",
            "returned[0]",
        ),
        ({"type": "ds.memory.read", "scope": SCOPE, "at": 9, "returned": []}, "invalid_event", "at"),
        (
            {
                "type": "ds.memory.read",
                "scope": SCOPE,
                "at": 0,
                "returned": [],
                "influence": "much",
            },
            "invalid_event",
            "influence",
        ),
        ({"type": "ds.memory.writen"}, "unknown_event_type", None),
    ],
    ids=str,
)
async def test_what_does_not_fit_is_refused_and_stores_nothing(
    api: httpx2.AsyncClient, evidence: str, event: Event, expected: str, path: str | None
) -> None:
    refused = await send(api, written("good", 1), event)
    assert (refused.status_code, code(refused)) == (400, expected), refused.text
    if path is not None:
        assert refused.json()["error"]["details"]["path"] == path
    assert await memory(api) == {"scope": SCOPE, "at": 0, "data": [], "next_page": None}
    assert len(await read(api, "s")) == 1


@pytest.mark.parametrize(
    "query",
    [
        {},
        {"scope": "nobody:x"},
        {"scope": "project:"},
        {"scope": SCOPE, "key": ""},
        {"scope": SCOPE, "key": "k" * 501},
        {"scope": SCOPE, "key": "k", "q": "w"},
        {"scope": SCOPE, "q": " "},
        {"scope": SCOPE, "at": "1"},
        {"scope": SCOPE, "at": "-1"},
        {"scope": SCOPE, "limit": "0"},
        {"scope": SCOPE, "limit": "1001"},
        {"scope": SCOPE, "page": "x"},
        {"scope": SCOPE, "page": "9-9"},
        {"scope": SCOPE, "kind": "note"},
    ],
    ids=str,
)
async def test_a_read_that_makes_no_sense_says_what_to_send(
    api: httpx2.AsyncClient, query: dict[str, str]
) -> None:
    refused = await api.get("/memory", params=query)
    assert refused.status_code == 400, refused.text


async def test_the_log_is_read_in_pages_and_not_beyond_its_end(
    api: httpx2.AsyncClient, evidence: str
) -> None:
    await write(api, *(written(f"key-{number}", number) for number in range(5)))
    seen: list[int] = []
    page: dict[str, Any] = {"from": 1}
    while page:
        answer = await api.get("/memory/log", params={"scope": SCOPE, "limit": 2, **page})
        seen += [record["position"] for record in answer.json()["data"]]
        following = answer.json()["next_page"]
        page = {} if following is None else {"from": 1, "page": following}
    assert seen == [1, 2, 3, 4]
    assert await log(api, **{"from": 5}) == []
    for scope, query, said in (
        (SCOPE, {"from": 6}, "from=6 is beyond the end of the scope; send 0 to 5."),
        ("project:none", {"from": 1}, "from=1 is beyond the end of the scope; send 0 to 0."),
        (SCOPE, {"page": "6"}, "page is not one that this list gave"),
        (SCOPE, {"page": "x"}, "page is not one that this list gave"),
    ):
        refused = await api.get("/memory/log", params={"scope": scope, **query})
        assert refused.status_code == 400
        assert said in refused.json()["error"]["message"]


async def test_a_request_and_a_scope_take_as_much_as_their_bounds(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, memory_scopes_per_request_max=2, memory_bytes_per_scope_max=2_000)
    async with (
        local_server(tmp_path / "data", limits=limits) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        await api.post("/sessions/s/events", json={"type": "note", "id": "result-1"})
        scopes = [written("k", 1, scope=f"project:{number}") for number in range(3)]
        await write(api, *scopes[:2])
        assert code(await send(api, *scopes)) == "invalid_event"
        await write(api, written("k", "x" * 1_500))
        full = await send(api, written("k", "x" * 500))
        assert (full.status_code, code(full)) == (409, "memory_scope_full")
        assert (await memory(api))["at"] == 1


async def test_redaction_reaches_memory_at_once(api: httpx2.AsyncClient, evidence: str) -> None:
    first, second = await write(api, written("sum", "hunter2 is the secret"), written("b", "harmless"))
    (undo,) = await write(api, {"type": "ds.memory.rolled_back", "write": second, "reason": "hunter2 too"})
    assert len((await memory(api, q="hunter2"))["data"]) == 1
    redacted = await api.post("/sessions/s/redact", json={"events": [first, undo], "reason": "a password"})
    assert redacted.status_code == 200, redacted.text
    (entry,) = (await memory(api))["data"]
    assert (entry["value"], entry["key"], entry["redacted"]["reason"]) == (None, "sum", "a password")
    assert (await memory(api, q="hunter2"))["data"] == []
    for answer in (
        await api.get("/memory/log", params={"scope": SCOPE}),
        await api.get("/sessions/s/events"),
    ):
        assert "hunter2" not in answer.text
    assert await values(api, at=2) == {"sum": None, "b": "harmless"}
    again = await api.post("/sessions/s/redact", json={"events": [first], "reason": "a password"})
    assert again.json() == redacted.json()


async def test_imports_do_not_reach_memory(api: httpx2.AsyncClient, evidence: str) -> None:
    sent = await api.post(
        "/sessions/s/events", json={"events": [written("k", 1)]}, headers={"Session-Import": "other"}
    )
    assert sent.status_code == 204, sent.text
    assert (await memory(api))["data"] == []
    assert (await api.get("/sessions/s/state")).json()["memory"]["writes"] != []


async def test_everything_is_there_after_a_restart(server: LocalServer, evidence: str) -> None:
    async with httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api:
        await write(api, *(written(f"key-{number}", f"word{number}") for number in range(5)))
        before = await memory(api), await log(api)
    await server.restart()
    async with httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api:
        assert (await memory(api), await log(api)) == before
        assert [entry["key"] for entry in (await memory(api, q="word3"))["data"]] == ["key-3"]
        await write(api, written("key-0", "new"))
        assert (await memory(api))["at"] == 6


async def test_workspaces_and_roles_are_kept_apart(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", api_key=BOOTSTRAP) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as api,
    ):
        api.headers.update(bearer(BOOTSTRAP))
        await api.post("/sessions/s/events", json={"type": "note", "id": "result-1"})
        (first,) = await write(api, written("k", "theirs"))
        reader = bearer(await make_secret(server.url, "reader"))
        assert (await api.get("/memory", params={"scope": SCOPE}, headers=reader)).status_code == 200
        recalled = await api.post("/sessions/s/recall", json={"scope": SCOPE}, headers=reader)
        assert code(recalled) == "permission_error"
        other = bearer(await make_secret(server.url, "admin", "other"))
        api.headers.update(other)
        assert (await memory(api))["data"] == []
        assert (await api.get("/memory/scopes")).json()["data"] == []
        await api.post("/sessions/t/events", json={"type": "note"})
        undo = {"type": "ds.memory.rolled_back", "write": first, "session": "s", "reason": "r"}
        assert code(await send(api, undo, session="t")) == "unresolved_reference"
        unkeyed = await api.get("/memory", params={"scope": SCOPE}, headers={"Authorization": ""})
        assert unkeyed.status_code == 401
