"""Patterns over many streams: what they do not match is never brought into memory."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.streams.create import Create
from durable_sessions.streams.stream import Key
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, make_secret

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
STREAMS = 60
NOBODY_STAYS = replace(DEFAULT_LIMITS, active_streams_max=0)


def control(name: str) -> str:
    return f"/v1/stream/__ds/subscriptions/{name}"


def pull(pattern: str) -> dict[str, Any]:
    return {"type": "pull-wake", "pattern": pattern, "wake_stream": "wakes"}


async def filled(server: LocalServer, client: httpx2.AsyncClient) -> None:
    """Make streams that are flushed and not in memory."""
    for number in range(STREAMS):
        answer = await client.put(f"/v1/stream/far/{number}", headers=JSON, content=b"[1]")
        assert answer.status_code == 201
    assert (await client.put("/v1/stream/near/one", headers=JSON, content=b"[1]")).status_code == 201
    assert (await client.put("/v1/stream/wakes", headers=JSON)).status_code == 201
    assert (await client.post("/v1/admin/flush")).status_code == 200
    for _ in range(3):
        await server.node.engine.partition.evict_idle()
    assert not in_memory(server, "far/")


def in_memory(server: LocalServer, prefix: str) -> list[str]:
    return [key.path for key in server.node.engine.partition._state.streams if key.path.startswith(prefix)]


async def test_only_streams_that_match_are_loaded(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", limits=NOBODY_STAYS) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        await filled(server, client)
        assert (await client.put(control("none"), json=pull("nothing/**"))).json()["streams"] == []
        some = (await client.put(control("some"), json=pull("near/*"))).json()
        assert [stream["path"] for stream in some["streams"]] == ["near/one"]
        assert in_memory(server, "far/") == []
        await server.restart()
        async with asyncio.timeout(60):
            while any(task.get_name() == "subscriptions" for task in asyncio.all_tasks()):
                await asyncio.sleep(0.01)
        assert in_memory(server, "far/") == []
        await client.post("/v1/stream/near/one", headers=JSON, content=b"[2]")
        claim = await client.post(control("some/claim"), json={"worker": "w"})
        assert [stream["path"] for stream in claim.json()["streams"]] == ["near/one"]


async def test_a_pattern_over_streams_in_memory_and_in_the_bucket(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", limits=NOBODY_STAYS) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        await filled(server, client)
        await client.put("/v1/stream/far/new", headers=JSON)
        await client.delete("/v1/stream/far/7")
        found = (await client.put(control("all"), json=pull("far/*"))).json()["streams"]
        expected = {f"far/{number}" for number in range(STREAMS) if number != 7} | {"far/new"}
        assert {stream["path"] for stream in found} == expected
        assert {stream["acked_offset"][-1] for stream in found if stream["path"] != "far/new"} == {"1"}


async def test_subscriptions_and_their_links_count_for_the_quota(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP, workspace_bytes=6_000) as server:
        secret = await make_secret(server.url, "writer", "tenant")
        async with httpx2.AsyncClient(base_url=server.url, headers=bearer(secret), timeout=60) as client:
            body = {"type": "pull-wake", "streams": ["a", "b"], "wake_stream": "wakes"}
            assert (await client.put(control("one"), json=body)).status_code == 201
            paths = [str(number) for number in range(20)]
            refused = await client.post(control("one/streams"), json={"streams": paths})
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "QUOTA_EXCEEDED")
            assert (await client.post(control("one/streams"), json={"streams": ["c"]})).status_code == 204
            assert (await client.delete(control("one"))).status_code == 204
            assert (await client.put(control("one"), json={**body, "streams": paths[:8]})).status_code == 201


async def test_a_pattern_that_finds_more_than_one_slice(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data") as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        partition = server.node.engine.partition
        count = 1_234
        keys = [Key("default", f"many/{number}") for number in range(count)]
        made = [partition.create(key, Create("text/plain", body=b"x")) for key in keys]
        await asyncio.gather(*made)
        await client.put("/v1/stream/wakes", headers=JSON)
        answer = await client.put(control("many"), json=pull("many/*"))
        assert (answer.status_code, len(answer.json()["streams"])) == (201, count)
        appended = await client.post(
            "/v1/stream/many/1200", headers={"Content-Type": "text/plain"}, content=b"y"
        )
        assert appended.status_code == 204
        assert (await client.put(control("many"), json=pull("many/*"))).status_code == 200
        await server.restart()
        assert len((await client.get(control("many"))).json()["streams"]) == count
        claim = (await client.post(control("many/claim"), json={"worker": "w"})).json()
        assert [one["path"] for one in claim["streams"] if one["has_pending"]] == ["many/1200"]
