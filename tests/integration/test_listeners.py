"""What is derived fails when it is told of a change: appends go on, and afterwards nothing is missing."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.search.feed import Feed
from durable_sessions.storage.wakeups import Wakeups
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.trial import until

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
LIMITS = replace(DEFAULT_LIMITS, task_restart_seconds=0.05, task_restart_seconds_max=0.1)
CALLS = ("stream_created", "streams_appended", "stream_removed")
LISTENERS: dict[str, type] = {"search": Feed, "subscriptions": Wakeups}
"""Those whose failure a client would notice; what follows the list of sessions only ends it."""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LocalServer]:
    async with local_server(tmp_path, limits=LIMITS) as server:
        yield server


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        yield client


def spoil(listener: str, patch: pytest.MonkeyPatch) -> None:
    """Let everything that a listener is told fail from now on."""

    def fail(*_: Any) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    for call in CALLS:
        patch.setattr(LISTENERS[listener], call, fail)


async def new_session(client: httpx2.AsyncClient, word: str) -> str:
    answer = await client.post("/v1/sessions", json={})
    assert answer.is_success, answer.text
    path = f"/v1/sessions/{answer.json()['id']}"
    answer = await client.post(f"{path}/events", json={"events": [{"type": "note", "text": word}]})
    assert answer.is_success, answer.text
    return path


async def found(client: httpx2.AsyncClient, word: str) -> int:
    answer = await client.get("/v1/search", params={"q": word})
    assert answer.status_code in {200, 503}, answer.text
    return len(answer.json()["data"]) if answer.status_code == 200 else -1


async def sees(client: httpx2.AsyncClient, word: str, sessions: int) -> None:
    async with asyncio.timeout(120):
        while await found(client, word) != sessions:
            await asyncio.sleep(0.05)


def test_these_are_all_listeners() -> None:
    assert {listener.name for listener in LISTENERS.values()} == set(LISTENERS)  # type: ignore[attr-defined]


@pytest.mark.parametrize("listener", LISTENERS)
async def test_a_listener_that_fails_is_told_and_stops_nothing(
    listener: str, server: LocalServer, client: httpx2.AsyncClient
) -> None:
    assert set(server.node.engine.partition._published.listeners.failures) == {*LISTENERS, "live list"}
    with pytest.MonkeyPatch.context() as patch:
        spoil(listener, patch)
        patch.setattr(LISTENERS[listener], "reconcile", lambda _: 1 / 0)
        for number in range(3):
            made = await client.put(f"/v1/stream/s{number}", headers=JSON, content=b"[1]")
            assert made.status_code == 201
            assert (await client.post(f"/v1/stream/s{number}", headers=JSON, content=b"[2]")).is_success
            assert (await client.get(f"/v1/stream/s{number}")).json() == [1, 2]
            assert (await client.delete(f"/v1/stream/s{number}")).is_success
        ready = await client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["status"] == "degraded"
        assert [one["listener"] for one in ready.json()["listeners"]] == [listener]
        metrics = (await client.get("/metrics")).text
        assert f'durable_sessions_listener_failures_total{{listener="{listener}"}}' in metrics
        assert server.node.engine.partition._published.listeners.failures[listener] >= 9
    await until(lambda: not server.node.engine.partition.failing_listeners)
    assert (await client.get("/readyz")).json()["status"] == "ready"


async def test_search_finds_what_it_was_not_told_and_forgets_what_is_gone(
    server: LocalServer, client: httpx2.AsyncClient
) -> None:
    kept, gone = await new_session(client, "apple"), await new_session(client, "apple")
    await sees(client, "apple", 2)
    with pytest.MonkeyPatch.context() as patch:
        spoil("search", patch)
        await new_session(client, "pear")
        assert (await client.delete(gone)).is_success
        answer = await client.post(f"{kept}/events", json={"events": [{"type": "note", "text": "pear"}]})
        assert answer.is_success
    await sees(client, "pear", 2)
    await sees(client, "apple", 1)


async def test_a_subscription_is_woken_for_what_it_was_not_told(
    server: LocalServer, client: httpx2.AsyncClient
) -> None:
    pulled = {"type": "pull-wake", "pattern": "**", "wake_stream": "wakes"}
    assert (await client.put("/v1/stream/__ds/subscriptions/all", json=pulled)).is_success
    assert (await client.put("/v1/stream/wakes", headers=JSON)).is_success
    with pytest.MonkeyPatch.context() as patch:
        spoil("subscriptions", patch)
        assert (await client.put("/v1/stream/missed", headers=JSON, content=b"[1]")).is_success
    claimed = {"worker": "w"}
    async with asyncio.timeout(120):
        while True:
            answer = await client.post("/v1/stream/__ds/subscriptions/all/claim", json=claimed)
            if answer.is_success and "missed" in answer.text:
                return
            await asyncio.sleep(0.05)
