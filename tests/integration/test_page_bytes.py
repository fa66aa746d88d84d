"""A page of any list ends before the item that would make it too large, and the next begins with it."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.limits import DEFAULT_LIMITS, KIB
from durable_sessions.testing.server import local_server

pytestmark = pytest.mark.anyio

ROOM = 64 * KIB
REQUIRED: dict[str, dict[str, str]] = {"agents": {"model": "m"}, "environments": {}}


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    limits = replace(DEFAULT_LIMITS, page_bytes_max=ROOM)
    async with (
        local_server(tmp_path / "data", limits=limits, clock=ManualClock(1_800_000_000_000)) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        yield client


async def pages(api: httpx2.AsyncClient, path: str, **parameters: Any) -> list[list[dict[str, Any]]]:
    """Return the items of each page, and check how large each is."""
    found: list[list[dict[str, Any]]] = []
    token: str | None = None
    while True:
        query = {**parameters, **({} if token is None else {"page": token})}
        answer = await api.get(path, params=query)
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert len(body["data"]) == 1 or len(answer.content) <= ROOM + 200
        found.append(body["data"])
        token = body["next_page"]
        if token is None:
            return found


async def size_of_session(api: httpx2.AsyncClient, name: str) -> int:
    return len((await api.get(f"/v1/sessions/{name}")).content) + 1


async def create(api: httpx2.AsyncClient, name: str, size: int) -> None:
    answer = await api.put(f"/v1/sessions/{name}", json={"metadata": {"text": "x" * size}})
    assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_sessions(api: httpx2.AsyncClient, order: str) -> None:
    await create(api, "s0", 0)
    rest = await size_of_session(api, "s0")
    # Two of these fill a page to the last byte.
    for number in range(1, 5):
        await create(api, f"s{number}", ROOM // 2 - rest)
    await api.delete("/v1/sessions/s0")
    both = await pages(api, "/v1/sessions", order=order)
    names = ["s1", "s2", "s3", "s4"]
    names = names if order == "asc" else names[::-1]
    assert [[one["id"] for one in page] for page in both] == [names[:2], names[2:]]
    # One byte more, and they do not fit together.
    for number in range(1, 5):
        await api.delete(f"/v1/sessions/s{number}")
        await create(api, f"t{number}", ROOM // 2 - rest + 1)
    alone = await pages(api, "/v1/sessions", order=order, limit=1000)
    assert [len(page) for page in alone] == [1, 1, 1, 1]


async def test_a_session_that_is_larger_than_a_page(api: httpx2.AsyncClient) -> None:
    await create(api, "small-1", 10)
    await create(api, "large", 2 * ROOM)
    await create(api, "small-2", 10)
    found = await pages(api, "/v1/sessions")
    assert [[one["id"] for one in page] for page in found] == [["small-2"], ["large"], ["small-1"]]
    filtered = await pages(api, "/v1/sessions", q="xxxxxxxxxxxx")
    assert [one["id"] for page in filtered for one in page] == ["large"]


async def test_going_back_over_large_sessions(api: httpx2.AsyncClient) -> None:
    for number in range(5):
        await create(api, f"s{number}", ROOM // 3)
    seen: list[str] = []
    answer = (await api.get("/v1/sessions")).json()
    while answer["next_page"]:
        answer = (await api.get("/v1/sessions", params={"page": answer["next_page"]})).json()
    seen = [one["id"] for one in answer["data"]]
    while answer["prev_page"]:
        answer = (await api.get("/v1/sessions", params={"page": answer["prev_page"]})).json()
        seen = [one["id"] for one in answer["data"]] + seen
    assert seen == ["s4", "s3", "s2", "s1", "s0"]


async def test_threads_of_a_large_agent(api: httpx2.AsyncClient) -> None:
    agent = (await api.post("/v1/agents", json={"name": "a", "model": "m", "system": "x" * 20_000})).json()
    await api.put("/v1/sessions/s", json={"agent": agent["id"]})
    events = [{"type": "agent.message", "session_thread_id": f"t{number}"} for number in range(10)]
    await api.post("/v1/sessions/s/events", json=events)
    found = await pages(api, "/v1/sessions/s/threads")
    assert [len(page) for page in found] == [3, 3, 3, 2]
    names = [one["id"] for page in found for one in page]
    assert sorted(names[1:]) == sorted(f"t{number}" for number in range(10))
    assert found[1][0]["agent"]["system"] == "x" * 20_000


async def test_resources(api: httpx2.AsyncClient) -> None:
    await api.put("/v1/sessions/s", json={})
    for number in range(5):
        body = {"type": "file", "file_id": str(number), "text": "x" * (ROOM // 2 - 500)}
        await api.post("/v1/sessions/s/resources", json=body)
    found = await pages(api, "/v1/sessions/s/resources")
    assert [[one["file_id"] for one in page] for page in found] == [["0", "1"], ["2", "3"], ["4"]]


@pytest.mark.parametrize("kind", ["agents", "environments"])
async def test_agents_and_environments(api: httpx2.AsyncClient, kind: str) -> None:
    for number in range(5):
        body = {"name": f"{number}", **REQUIRED[kind], "description": "x" * (ROOM // 2 - 1_500)}
        assert (await api.post(f"/v1/{kind}", json=body)).status_code == 200
    found = await pages(api, f"/v1/{kind}", limit=100)
    assert [[one["name"] for one in page] for page in found] == [["4", "3"], ["2", "1"], ["0"]]


@pytest.mark.parametrize("kind", ["agents", "environments"])
async def test_an_agent_or_environment_has_a_largest_size(api: httpx2.AsyncClient, kind: str) -> None:
    most = DEFAULT_LIMITS.registered_document_bytes_max
    body = {"name": "n", **REQUIRED[kind], "description": ""}
    created = (await api.post(f"/v1/{kind}", json=body)).json()
    rest = len(json.dumps(created, separators=(",", ":"))) + (len('"version":1,') if kind != "agents" else 0)
    fits = await api.post(f"/v1/{kind}", json=body | {"description": "x" * (most - rest)})
    assert fits.status_code == 200, fits.text
    for size in (most - rest + 1, most + 1):
        refused = await api.post(f"/v1/{kind}", json=body | {"description": "x" * size})
        assert refused.status_code == 413
        assert refused.json()["error"]["details"]["error_code"] == "document_too_large"


async def test_search_of_large_sessions(api: httpx2.AsyncClient) -> None:
    for number in range(4):
        await create(api, f"s{number}", ROOM // 2)
        await api.post(f"/v1/sessions/s{number}/events", json=[{"type": "user.message", "text": "needle"}])
    found = await pages(api, "/v1/search", q="needle", limit=100)
    names = [one["session"]["id"] for page in found for one in page]
    assert sorted(names) == ["s0", "s1", "s2", "s3"]
    assert all(len(page) == 1 for page in found)
