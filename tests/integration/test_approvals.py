"""``GET /v1/approvals``: what waits for a person in all sessions, and what was decided."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import local_server
from tests.support.keys import BOOTSTRAP, bearer
from tests.support.sessions import code
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

SMALL = replace(DEFAULT_LIMITS, listed_sessions_max=40, sorted_matches_max=40)
ASK = {"type": "ds.approval.requested", "question": "May I?", "options": ["approve", "reject"]}
CALL = {"type": "agent.tool_use", "name": "bash", "input": {"command": "rm -r x"}}
HOSTILE = "<script>alert(1)</script>\u202e\u0000\u2028"


@pytest.fixture(params=[1, 3], ids=["one partition", "three partitions"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    async with (
        local_server(tmp_path / "data", limits=SMALL, partitions=request.param) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as client,
    ):
        yield client


async def send(api: httpx2.AsyncClient, session: str, *events: dict[str, Any], **headers: str) -> None:
    sent = await api.post(f"/sessions/{session}/events", json={"events": events}, headers=headers)
    assert sent.status_code == 204, sent.text


async def listed(api: httpx2.AsyncClient, **query: Any) -> list[dict[str, Any]]:
    """Return all pages."""
    found: list[dict[str, Any]] = []
    page = None
    while True:
        answer = await api.get("/approvals", params={**query, **({} if page is None else {"page": page})})
        assert answer.status_code == 200, answer.text
        found += answer.json()["data"]
        page = answer.json()["next_page"]
        if page is None:
            return found


async def test_a_request_is_told_with_its_call_and_who_asks(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/deploy", json={"title": HOSTILE})
    call = {**CALL, "id": "c", "effect": "non_idempotent"}
    await send(
        api, "deploy", call, {**ASK, "id": "ask", "question": HOSTILE, "refs": [{"rel": "about", "id": "c"}]}
    )
    (one,) = await listed(api)
    assert (one["session"], one["title"], one["position"]) == ("deploy", HOSTILE, 1)
    assert one["request"] | {"actor": "?"} == {
        "id": "ask",
        "question": HOSTILE,
        "options": ["approve", "reject"],
        "blocking": True,
        "about": "c",
        "actor": "?",
    }
    assert one["call"] == {
        "id": "c",
        "name": "bash",
        "input": {"command": "rm -r x"},
        "effect": "non_idempotent",
        "position": 0,
    }
    event = (await api.get("/sessions/deploy/events/ask")).json()
    assert (one["asked_at"], one["request"]["actor"]) == (event["created_at"], event["actor"])
    assert one["generators"] == [event["actor"]]
    assert one["waiting_seconds"] >= 0


async def test_what_was_decided_waits_no_more_and_is_found_as_decided(api: httpx2.AsyncClient) -> None:
    await send(api, "s", {**ASK, "id": "one"}, {**ASK, "id": "two", "blocking": False})
    assert [one["request"]["id"] for one in await listed(api)] == ["one", "two"]
    said = {
        "type": "ds.approval.decided",
        "id": "d",
        "decision": "approve",
        "reason": HOSTILE,
        "request": "one",
    }
    await send(api, "s", said)
    assert [one["request"]["id"] for one in await listed(api)] == ["two"]
    (decision,) = await listed(api, state="decided")
    assert decision["decision"] | {"actor": "?"} == {
        "id": "d",
        "decision": "approve",
        "reason": HOSTILE,
        "actor": "?",
    }
    assert (decision["session"], decision["request"], decision["position"]) == ("s", {"id": "one"}, 3)


async def test_a_call_that_asks_waits_until_it_is_confirmed(api: httpx2.AsyncClient) -> None:
    asks = {"evaluated_permission": "ask"}
    reason = {"type": "requires_action", "event_ids": ["a", "b", "free", "missing", 7]}
    idle = {"type": "session.status_idle", "stop_reason": reason}
    calls = [{**CALL, **asks, "id": "a"}, {**CALL, **asks, "id": "b"}, {**CALL, "id": "free"}]
    await send(api, "s", *calls, idle)
    assert [one["request"]["id"] for one in await listed(api)] == ["a", "b"]
    await send(api, "s", {"type": "user.tool_confirmation", "tool_use_id": "a", "result": "allow"})
    (one,) = await listed(api)
    assert (one["request"]["id"], one["request"]["options"]) == ("b", ["approve", "reject"])
    state = (await api.get("/sessions/s/state")).json()["approvals"]["pending"]
    assert [one["request"]] == state
    await send(api, "s", {"type": "session.status_running"})
    assert await listed(api) == []


@pytest.mark.parametrize(
    "reason", [None, 7, {"type": "requires_action"}, {"type": "requires_action", "event_ids": {}}]
)
async def test_whatever_a_status_says_is_read(api: httpx2.AsyncClient, reason: object) -> None:
    await send(api, "s", {**CALL, "id": "a", "evaluated_permission": "ask"})
    await send(api, "s", {"type": "session.status_idle", "stop_reason": reason})
    assert await listed(api) == []


async def test_pages_go_on_from_the_one_that_waits_longest(api: httpx2.AsyncClient) -> None:
    for number in range(60):
        await api.put(f"/sessions/plain-{number}", json={})
    names = [f"waits-{number}" for number in range(7)]
    for name in names:
        await send(api, name, {**ASK, "id": f"{name}-1"}, {**ASK, "id": f"{name}-2", "blocking": False})
        await asyncio.sleep(0.002)  # so that the order of times is the order of requests
    expected = [f"{name}-{number}" for name in names for number in (1, 2)]
    for limit in (1, 3, 100):
        assert [one["request"]["id"] for one in await listed(api, limit=limit)] == expected
    await api.post("/sessions/waits-0/archive")
    await api.delete("/sessions/waits-1")
    assert [one["request"]["id"] for one in await listed(api)] == expected[4:]


async def test_more_sessions_than_are_sorted_are_paged(api: httpx2.AsyncClient) -> None:
    for number in range(SMALL.sorted_matches_max + 5):
        await send(api, f"waits-{number}", {**ASK, "id": f"ask-{number}"})
    found = [one["request"]["id"] for one in await listed(api, limit=10)]
    assert sorted(found) == sorted(f"ask-{number}" for number in range(SMALL.sorted_matches_max + 5))


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=101", "state=all", "page=x", "page=asc-next-1-1", "state=decided&page=x", "what=1"],
)
async def test_what_cannot_be_is_refused(api: httpx2.AsyncClient, query: str) -> None:
    refused = await api.get(f"/approvals?{query}")
    assert refused.status_code == 400, refused.text
    assert code(refused) in ("invalid_request", "unknown_parameter")


@pytest.mark.parametrize("partitions", [1, 2])
async def test_a_key_sees_its_workspace_only(tmp_path: Path, partitions: int) -> None:
    async with (
        local_server(tmp_path / "data", api_key=BOOTSTRAP, partitions=partitions) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as client,
    ):
        made = {"principal": "eve", "role": "admin", "workspace": "other"}
        key = (await client.post("/keys", json=made, headers=bearer(BOOTSTRAP))).json()["secret"]
        await send(client, "s", {**ASK, "id": "ask"}, **bearer(BOOTSTRAP))
        await send(client, "t", {**ASK, "id": "ours"}, **bearer(key))
        for state, expected in (("pending", ["ours"]), ("decided", [])):
            seen = await client.get("/approvals", params={"state": state}, headers=bearer(key))
            assert [one["request"]["id"] for one in seen.json()["data"]] == expected
        assert (await client.get("/approvals")).status_code == 401
