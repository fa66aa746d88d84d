"""Quotas of workspaces: refused in time, counted right after restarts, and what is deleted is given back."""

import hashlib
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, make_secret
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

TEXT = {"Content-Type": "text/plain"}
JSON = {"Content-Type": "application/json"}


def ask(server: LocalServer, secret: str = BOOTSTRAP) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.url, headers=bearer(secret), timeout=PATIENCE_SECONDS)


async def put(client: httpx2.AsyncClient, name: str, size: int = 0, **headers: str) -> int:
    answer = await client.put(f"/v1/stream/{name}", headers={**TEXT, **headers}, content=b"x" * size)
    return answer.status_code


async def append(client: httpx2.AsyncClient, name: str, size: int) -> httpx2.Response:
    return await client.post(f"/v1/stream/{name}", headers=TEXT, content=b"x" * size)


async def forget_catalog(server: LocalServer) -> None:
    await server.stop()
    for file in server.data.glob("catalog.sqlite*"):
        file.unlink()
    await server.start()


async def test_the_streams_of_a_workspace_are_bounded(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP, workspace_streams=3) as server:
        secret = await make_secret(server.url, "writer", "other")
        async with ask(server) as ours, ask(server, secret) as others:
            assert [await put(ours, name) for name in "abcd"] == [201, 201, 201, 429]
            assert await put(ours, "a") == 200, "what is there is there"
            refused = await ours.put("/v1/stream/d", headers=TEXT)
            assert (refused.json()["error"]["code"], refused.headers["retry-after"]) == (
                "quota_exceeded",
                "60",
            )
            assert "raise the setting workspace_streams" in refused.json()["error"]["message"]
            fork = await ours.put("/v1/stream/f", headers={"Stream-Forked-From": "/v1/stream/a"})
            assert fork.status_code == 429
            assert [await put(others, name) for name in "abcd"] == [201, 201, 201, 429]
            await make_secret(server.url, "reader", "other")  # the server's own streams have no bound
            assert (await ours.delete("/v1/stream/a")).status_code == 204
            assert [await put(ours, name) for name in "de"] == [201, 429]


@pytest.mark.parametrize("way", ["log", "flush", "both", "catalog"])
async def test_counts_are_right_after_a_restart(tmp_path: Path, way: str) -> None:
    settings: dict[str, Any] = {"api_key": BOOTSTRAP, "workspace_streams": 3, "workspace_bytes": 100}
    async with local_server(tmp_path / "data", **settings) as server, ask(server) as client:
        artifact = b"z" * 10
        digest = hashlib.sha256(artifact).hexdigest()
        assert await put(client, "a", 30) == 201
        assert await put(client, "b", 30) == 201
        if way != "log":
            await client.post("/v1/admin/flush")
        assert (await append(client, "a", 20)).status_code == 204
        assert (await client.delete("/v1/stream/b")).status_code == 204
        assert (await client.put(f"/v1/artifacts/{digest}", content=artifact)).status_code == 201
        if way == "both":
            await client.post("/v1/admin/flush")
        if way == "catalog":
            await client.post("/v1/admin/flush")
            await forget_catalog(server)
        else:
            await server.restart()
        state = server.node.engine.partition._state
        assert state.usages is not None
        assert (state.usages.of("default").streams, state.usages.of("default").record_bytes) == (1, 50)
        assert (await append(client, "a", 41)).status_code == 429
        assert (await append(client, "a", 40)).status_code == 204
        assert (await append(client, "a", 1)).status_code == 429
        assert [await put(client, name) for name in "cde"] == [201, 201, 429]


async def test_the_bytes_of_a_workspace_are_bounded(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP, workspace_bytes=100) as server:
        secret = await make_secret(server.url, "writer", "other")
        async with ask(server) as ours, ask(server, secret) as others:
            assert await put(ours, "a", 101) == 429
            assert await put(ours, "a", 60) == 201
            refused = await append(ours, "a", 41)
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "quota_exceeded")
            assert (await append(ours, "a", 40)).status_code == 204
            closed = await ours.post("/v1/stream/a", headers={"Stream-Closed": "true"})
            assert closed.status_code == 204, "closing takes no room"
            assert (await ours.get("/v1/stream/a")).status_code == 200
            assert await put(others, "a", 100) == 201
            await ours.delete("/v1/stream/a")
            assert await put(ours, "b", 100) == 201


async def test_artifacts_count_once_and_the_refused_not_at_all(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", api_key=BOOTSTRAP, workspace_bytes=100) as server,
        ask(server) as client,
    ):

        async def store(data: bytes) -> int:
            digest = hashlib.sha256(data).hexdigest()
            return (await client.put(f"/v1/artifacts/{digest}", content=data)).status_code

        assert [await store(b"a" * 60) for _ in range(3)] == [201, 200, 200]
        assert await store(b"b" * 41) == 429
        assert (await client.put("/v1/artifacts/" + "0" * 64, content=b"c" * 40)).status_code == 400
        assert await store(b"d" * 40) == 201
        assert await put(client, "s", 1) == 429


async def test_what_the_server_adds_by_itself_is_never_refused(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", api_key=BOOTSTRAP, workspace_bytes=2_000) as server,
        ask(server) as client,
    ):
        await client.put("/v1/stream/wakes", headers=JSON)
        await put(client, "events/a")
        body = {"type": "pull-wake", "pattern": "events/*", "wake_stream": "wakes"}
        await client.put("/v1/stream/__ds/subscriptions/sub", json=body)
        left = 2_000 - server.node.engine.partition._state.subscriptions.bytes_of("default")
        assert (await append(client, "events/a", left - 1)).status_code == 204
        wakes = await client.get("/v1/stream/wakes?offset=-1&live=long-poll")
        assert len(wakes.json()) == 1
        assert (await append(client, "events/a", 1)).status_code == 429, "but it counts"


async def test_meeting_a_quota_is_recorded_once_a_minute(tmp_path: Path) -> None:
    clock = ManualClock()
    async with local_server(tmp_path / "data", clock=clock, api_key=BOOTSTRAP, workspace_streams=1) as server:
        secret = await make_secret(server.url, "admin", "other")
        async with ask(server, secret) as client, ask(server) as operator:
            for wait in (0, 10, 49, 2, 0):
                clock.advance(wait)
                assert 429 in [await put(client, name) for name in "ab"]
            acts = (await client.get("/v1/audit")).json()["data"]
            refused = [act for act in acts if act["type"] == "quota.refused"]
            assert len(refused) == 2
            assert (refused[0]["quota"], refused[0]["most"], refused[0]["workspace"]) == (
                "workspace_streams",
                1,
                "other",
            )
            theirs = (await operator.get("/v1/audit")).json()["data"]
            assert not [act for act in theirs if act["type"] == "quota.refused"]
