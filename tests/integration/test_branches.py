"""Branches of sessions: how they differ, what is adopted from them, and repeats of verbs."""

from hashlib import sha256
from typing import Any

import httpx2
import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.client.errors import ConflictError
from durable_sessions.testing import BackgroundServer
from tests.support.sessions import at, code, read

pytestmark = pytest.mark.anyio

CODER = {"Session-Principal": "coder"}
JUDGE = {"Session-Principal": "judge"}
OUTCOME = {"features": [{"id": "f1", "text": "adds"}, {"id": "f2", "text": "divides"}]}


async def send(
    api: httpx2.AsyncClient, session: str, *events: dict[str, Any], **headers: str
) -> httpx2.Response:
    return await api.post(f"/sessions/{session}/events", json={"events": events}, headers=headers)


async def fork(api: httpx2.AsyncClient, name: str, source: str = "s") -> None:
    made = await api.put(f"/sessions/{name}", headers={"Stream-Forked-From": f"/v1/sessions/{source}"})
    assert made.status_code == 201, made.text


async def adopt(api: httpx2.AsyncClient, branch: str, **body: Any) -> httpx2.Response:
    return await api.post("/sessions/s/adopt", json={"session": branch, **body})


async def facts(api: httpx2.AsyncClient, session: str = "s") -> dict[str, Any]:
    state = (await api.get(f"/sessions/{session}/state")).json()
    return {key: fact["value"] for key, fact in state["facts"].items()}


def fact(key: str, value: Any, name: str | None = None) -> dict[str, Any]:
    said = {"type": "ds.fact", "key": key, "value": value}
    return said if name is None else {**said, "id": name}


async def test_what_a_branch_found_is_taken_over(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", json={"outcome": OUTCOME})
    await send(api, "s", fact("old", 1), {"type": "agent.message", "id": "work"}, **CODER)
    await fork(api, "b")
    data = b"a patch"
    digest = sha256(data).hexdigest()
    await api.put(f"/artifacts/{digest}", content=data)
    await send(
        api,
        "b",
        fact("cause", "off by one", "why"),
        {"type": "ds.artifact", "id": "patch", "sha256": digest, "name": "p", "role": "diff"},
    )
    refs = [{"rel": "because", "id": "work"}]
    verdict = {"type": "ds.evaluation", "id": "v1", "feature": "f1", "verdict": "pass", "refs": refs}
    assert (await send(api, "b", verdict, **JUDGE)).status_code == 204
    before = await read(api, "b")
    taken = await adopt(api, "b")
    assert taken.status_code == 200, taken.text
    event = taken.json()["event"]
    life = (await api.get("/sessions/b")).json()["incarnation"]
    assert (event["type"], event["session"], event["position"]) == ("ds.adopted", "b", 6)
    assert event["ref_incarnations"] == [life]
    assert event["facts"] == [{"key": "cause", "value": "off by one", "kind": "fact", "id": "why"}]
    assert event["verdicts"] == [{"feature": "f1", "verdict": "pass", "id": "v1", "by": "judge"}]
    assert event["artifacts"] == [{"id": "patch", "sha256": digest, "name": "p", "role": "diff"}]
    state = (await api.get("/sessions/s/state")).json()
    assert await facts(api) == {"old": 1, "cause": "off by one"}
    assert [one["passing"] for one in state["outcome"]["features"]] == [True, False]
    assert state["artifacts"][0]["id"] == "patch"
    assert (await read(api, "s"))[-1]["type"] == "ds.adopted", "the transcript was not merged"
    again = (await adopt(api, "b")).json()["event"]
    assert (again["facts"], again["verdicts"], again["artifacts"]) == ([], [], [])
    assert await read(api, "b") == before, "the branch is as it was"


async def test_a_fact_that_both_changed_is_a_conflict(api: httpx2.AsyncClient) -> None:
    await send(api, "s", fact("a", 0), fact("b", 0), fact("same", 0))
    await fork(api, "b")
    await send(api, "b", fact("a", {"x": 1, "y": 2}), fact("b", 1), fact("same", {"x": 1, "y": 2}))
    await send(api, "s", fact("a", 2), fact("same", {"y": 2, "x": 1}))
    refused = await adopt(api, "b")
    assert (refused.status_code, code(refused)) == (409, "adopt_conflict")
    assert refused.json()["error"]["details"]["conflicts"] == ["a"]
    assert refused.headers["x-should-retry"] == "false"
    assert len(await read(api, "s")) == 5
    assert (await adopt(api, "b", on_conflict="ours")).status_code == 200
    assert await facts(api) == {"a": 2, "b": 1, "same": {"x": 1, "y": 2}}
    assert (await adopt(api, "b", on_conflict="theirs")).status_code == 200
    assert (await facts(api))["a"] == {"x": 1, "y": 2}
    # What came from the branch is no change of the session's own.
    await send(api, "b", fact("a", 9))
    assert (await adopt(api, "b")).status_code == 200
    assert (await facts(api))["a"] == 9


async def test_who_works_on_the_session_does_not_judge_it_by_way_of_a_branch(
    api: httpx2.AsyncClient,
) -> None:
    await api.put("/sessions/s", json={"outcome": OUTCOME})
    await send(api, "s", {"type": "note", "id": "n"})
    await fork(api, "b")
    refs = [{"rel": "because", "id": "n"}]
    verdict = {"type": "ds.evaluation", "feature": "f1", "verdict": "pass", "refs": refs}
    assert (await send(api, "b", verdict, **JUDGE)).status_code == 204
    await send(api, "s", {"type": "agent.message"}, **JUDGE)
    assert (await adopt(api, "b")).json()["event"]["verdicts"] == []


async def test_what_cannot_be_adopted(api: httpx2.AsyncClient) -> None:
    await send(api, "s", fact("k", 1))
    await send(api, "other", {"type": "note"})
    await fork(api, "b")
    assert (await adopt(api, "nobody")).status_code == 404
    stranger = await adopt(api, "other")
    assert (stranger.status_code, code(stranger)) == (400, "not_a_fork")
    assert code(await adopt(api, "b", at=99)) == "offset_beyond_tail"
    assert code(await adopt(api, "b", on_conflict="both")) == "invalid_request"
    assert code(await adopt(api, "b", foo=1)) == "invalid_request"
    stale = await api.post("/sessions/s/adopt", json={"session": "b"}, headers={"Session-Epoch": "1"})
    assert code(stale) == "lease_lost"
    early = await adopt(api, "b", at=at(1))
    assert early.json()["event"]["facts"] == []
    await fork(api, "c", "b")
    await send(api, "c", fact("k", 2))
    assert (await adopt(api, "c")).json()["event"]["facts"][0]["value"] == 2, "a fork of a fork"


async def test_verbs_are_answered_again_as_the_first_time(api: httpx2.AsyncClient) -> None:
    await send(api, "s", fact("k", 1))
    await fork(api, "b")
    await send(api, "b", fact("k", 2))
    once = {"Idempotency-Key": "adopt-1"}
    body = {"session": "b"}
    first = (await api.post("/sessions/s/adopt", json=body, headers=once)).json()
    await send(api, "s", fact("k", 3))
    await send(api, "b", fact("k", 4))
    assert (await api.post("/sessions/s/adopt", json=body, headers=once)).json() == first
    other = await api.post("/sessions/s/adopt", json={"session": "c"}, headers=once)
    assert code(other) == "idempotency_mismatch", "a repeat is recognised before its session is looked for"
    other = await api.post("/sessions/s/adopt", json={**body, "at": 1}, headers=once)
    assert code(other) == "idempotency_mismatch"
    await api.post("/sessions/s/wake", json={}, headers=CODER)
    released = [
        await api.post("/sessions/s/release", json={"epoch": 1}, headers=CODER | {"Idempotency-Key": "r"})
        for _ in range(2)
    ]
    assert released[0].status_code == released[1].status_code == 200
    assert released[0].json() == released[1].json()
    assert code(await api.post("/sessions/s/release", json={"epoch": 1}, headers=CODER)) == "lease_lost"
    count = len(await read(api, "s"))
    for _ in range(2):
        end = {"outcome": "completed"}
        closed = await api.post("/sessions/s/close", json=end, headers={"Idempotency-Key": "e"})
        assert (closed.status_code, closed.json()["status"]) == (200, "terminated")
    assert len(await read(api, "s")) == count + 2
    assert code(await api.post("/sessions/s/close", json={"outcome": "failed"})) == "stream_closed"
    assert (await api.post("/sessions/s/adopt", json=body, headers=once)).json() == first, "also if closed"


async def test_how_two_branches_differ(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/s", json={"outcome": OUTCOME})
    await send(api, "s", fact("k", 1), {"type": "agent.tool_use", "name": "old"})
    await fork(api, "a")
    await fork(api, "b")
    effects = [{"kind": "write", "target": "calc.py"}, {"kind": "odd"}, {"target": "app.py"}]
    await send(
        api,
        "a",
        fact("k", 2),
        {"type": "agent.tool_use", "id": "c", "name": "edit"},
        {"type": "agent.tool_result", "tool_use_id": "c", "is_error": True, "effects": effects},
        {"type": "agent.tool_result", "effects": 7},
        {"type": "span.model_request_end", "model_usage": {"input_tokens": 7}, "cost_usd": 0.5},
    )
    await send(api, "b", fact("only", True), {"type": "note", "id": "n"})
    refs = [{"rel": "because", "id": "n"}]
    await send(api, "b", {"type": "ds.evaluation", "feature": "f2", "verdict": "fail", "refs": refs}, **JUDGE)
    found = (await api.get("/sessions/a/diff?with=b")).json()
    assert found["common"] == {"session": "s", "position": 3}
    assert found["facts"] == [{"key": "k", "a": 2, "b": 1}, {"key": "only", "a": None, "b": True}]
    assert found["verdicts"] == [{"feature": "f2", "a": None, "b": "fail"}]
    one = found["a"]
    assert (one["session"], one["offset"], one["events"], one["tools"]) == ("a", at(8), 5, {"edit": 1})
    assert (one["failed_calls"], one["files"], one["done"]) == (1, ["app.py", "calc.py"], False)
    assert (one["usage"]["input_tokens"], one["usage"]["cost_usd"]) == (7, 0.5)
    assert one["memory"] == {"writes": 0, "reads": 0}
    assert found["b"]["events"] == 3
    late = {"type": "agent.message", "content": "Done.", "processed_at": "2026-01-02T03:04:05Z"}
    await send(api, "timed", {**late, "processed_at": "2026-01-02T03:00:00Z"}, late)
    timed = (await api.get("/sessions/timed/diff?with=b")).json()["a"]
    assert timed["seconds"] == 245, "as the events say, not as they were stored"
    source = (await api.get("/sessions/s/diff?with=a&at=2&with_at=4")).json()
    assert source["common"] == {"session": "s", "position": 2}
    assert (source["a"]["events"], source["b"]["events"]) == (0, 2)
    await send(api, "stranger", {"type": "note"})
    assert (await api.get("/sessions/a/diff?with=stranger")).json()["common"] is None
    assert (await api.get("/sessions/a/diff?with=nobody")).status_code == 404
    for query in ("", "?with=b&foo=1", "?with=b&with_at=99"):
        assert (await api.get(f"/sessions/a/diff{query}")).status_code == 400


async def test_through_the_clients(running: BackgroundServer) -> None:
    with Client(running.url) as client:
        session = client.sessions.create("s", goal="Go")
        branch = session.fork("b")
        branch.append({"type": "ds.fact", "key": "k", "value": 1})
        assert [one["key"] for one in session.diff(branch)["facts"]] == ["k"]
        with client.wake("s") as work:
            assert work.adopt(branch)["facts"][0]["key"] == "k"
            work.fact("k", 2)
            branch.append({"type": "ds.fact", "key": "k", "value": 3})
            with pytest.raises(ConflictError):
                work.adopt(branch)
    async with AsyncClient(running.url) as later:
        one = later.session("s")
        assert (await one.adopt("b", on_conflict="theirs"))["facts"][0]["value"] == 3
        assert (await one.diff("b"))["facts"] == []
