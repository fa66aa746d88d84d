"""Lists of sessions by the work on them: forks, routes, leases, outcomes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions import AsyncClient, Client
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing import BackgroundServer
from durable_sessions.testing.server import local_server
from tests.support.sessions import code
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

FEATURE = {"features": [{"id": "f1", "text": "adds"}]}
SMALL = replace(DEFAULT_LIMITS, listed_sessions_max=4, sorted_matches_max=4)


@pytest.fixture(params=[1, 3], ids=["one partition", "three partitions"])
async def api(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """A server that looks at few sessions per page, so that only an index finds what is rare."""
    async with (
        local_server(tmp_path / "data", limits=SMALL, partitions=request.param) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1", timeout=PATIENCE_SECONDS) as client,
    ):
        for number in range(30):
            await client.put(f"/sessions/plain-{number}", json={})
        yield client


async def ids(api: httpx2.AsyncClient, **query: Any) -> set[str]:
    answer = await api.get("/sessions", params=query)
    assert answer.status_code == 200, answer.text
    return {one["id"] for one in answer.json()["data"]}


async def send(api: httpx2.AsyncClient, session: str, *events: dict[str, Any], **headers: str) -> None:
    sent = await api.post(f"/sessions/{session}/events", json={"events": events}, headers=headers)
    assert sent.status_code == 204, sent.text


async def test_by_outcome(api: httpx2.AsyncClient) -> None:
    await api.put("/sessions/todo", json={"outcome": FEATURE})
    await send(api, "todo", {"type": "note", "id": "n"})
    for number in range(30, 40):
        await api.put(f"/sessions/plain-{number}", json={})
    assert (await ids(api, done="false"), await ids(api, done="true")) == ({"todo"}, set())
    refs = [{"rel": "because", "id": "n"}]
    verdict = {"type": "ds.evaluation", "feature": "f1", "verdict": "pass", "refs": refs}
    await send(api, "todo", verdict)
    assert (await ids(api, done="false"), await ids(api, done="true")) == (set(), {"todo"})
    assert await ids(api, done="true", sort="activity") == {"todo"}
    refused = await api.get("/sessions?done=perhaps")
    assert (refused.status_code, code(refused)) == (400, "invalid_request")


async def test_by_route(api: httpx2.AsyncClient) -> None:
    await send(api, "handed", {"type": "ds.routed", "to": "judge", "reason": "look"})
    for number in range(30, 40):
        await api.put(f"/sessions/plain-{number}", json={})
    assert await ids(api, routed_to="judge") == {"handed"}
    assert await ids(api, routed_to="nobody") == set()
    await send(api, "handed", {"type": "ds.routed", "to": "*", "reason": "seen"})
    assert await ids(api, routed_to="judge") == set()


async def test_by_what_waits_for_a_person(api: httpx2.AsyncClient) -> None:
    asked = {"type": "ds.approval.requested", "id": "ask", "question": "May I?", "options": ["approve"]}
    await send(api, "asks", {**asked, "blocking": False})
    call = {"type": "agent.tool_use", "id": "c", "name": "bash", "input": {}, "evaluated_permission": "ask"}
    idle = {"type": "session.status_idle", "stop_reason": {"type": "requires_action", "event_ids": ["c"]}}
    await send(api, "holds-a-call", call)
    await send(api, "holds-a-call", idle)
    await send(api, "ended", asked)
    await api.post("/sessions/ended/close", json={"outcome": "cancelled"})
    for number in range(30, 40):
        await api.put(f"/sessions/plain-{number}", json={})
    assert await ids(api, waits_for="approval") == {"asks", "holds-a-call"}
    assert await ids(api, waits_for="approval", sort="activity", order="asc") == {"asks", "holds-a-call"}
    decided = {"type": "ds.approval.decided", "request": "ask", "decision": "approve", "reason": "yes"}
    sent = await api.post("/sessions/asks/events", json=decided, headers={"Session-Principal": "ann"})
    assert sent.status_code == 204, sent.text
    await send(api, "holds-a-call", {"type": "session.status_running"})
    assert await ids(api, waits_for="approval") == set()


async def test_by_lease(api: httpx2.AsyncClient) -> None:
    for name, seconds in (("long", 600), ("short", 5), ("given-back", 600), ("ended", 5)):
        await send(api, name, {"type": "note"})
        assert (await api.post(f"/sessions/{name}/wake", json={"seconds": seconds})).status_code == 200
    await api.post("/sessions/given-back/release", json={"epoch": 1})
    await api.post("/sessions/ended/close", json={"outcome": "failed"})
    for number in range(30, 40):
        await api.put(f"/sessions/plain-{number}", json={})
    assert "long" in await ids(api, lease="held")

    while await ids(api, lease="expired") != {"short"}:
        await asyncio.sleep(0.1)
    assert await ids(api, lease="held") == {"long"}
    nobodys: set[str] = set()
    page: dict[str, Any] = {}
    while True:
        found = (await api.get("/sessions", params={"lease": "none", **page})).json()
        nobodys |= {one["id"] for one in found["data"]}
        if found["next_page"] is None:
            break
        page = {"page": found["next_page"]}
    assert {"given-back", "ended", "plain-0"} <= nobodys
    assert not {"long", "short"} & nobodys


async def test_by_source_in_its_present_life(api: httpx2.AsyncClient) -> None:
    await send(api, "source", {"type": "note"})
    forked = {"Stream-Forked-From": "/v1/sessions/source"}
    for name in ("old-1", "old-2"):
        assert (await api.put(f"/sessions/{name}", headers=forked)).status_code == 201
    for number in range(30, 40):
        await api.put(f"/sessions/plain-{number}", json={})
    assert await ids(api, forked_from="source") == {"old-1", "old-2"}
    await api.delete("/sessions/source")
    assert await ids(api, forked_from="source") == set()
    await send(api, "source", {"type": "note"})
    assert (await api.put("/sessions/new", headers=forked)).status_code == 201
    assert await ids(api, forked_from="source") == {"new"}
    assert await ids(api, forked_from="nobody") == set()


async def test_through_the_clients(running: BackgroundServer) -> None:
    with Client(running.url) as client:
        session = client.sessions.create("s", goal="Go", outcome=[{"id": "f1", "text": "It adds."}])
        session.fork("b")
        with client.wake("s"):
            assert [one.id for one in client.sessions.list(lease="held")] == ["s"]
        assert {one.id for one in client.sessions.list(done=False)} == {"s", "b"}
        assert [one.id for one in client.sessions.list(forked_from="s")] == ["b"]
    async with AsyncClient(running.url) as later:
        assert [one.id async for one in later.sessions.list(routed_to="judge")] == []
        assert [one.id async for one in later.sessions.list(waits_for="approval")] == []
        assert {one.id async for one in later.sessions.list(lease="none", done=False)} == {"s", "b"}
