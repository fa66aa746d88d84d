"""What keys cost others is bounded, and what a key has opened ends with it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import httpx2
import pytest

from durable_sessions.access.caller import Caller, Role
from durable_sessions.access.key_store import NewKey
from durable_sessions.clock import ManualClock
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, make_key, make_secret
from tests.support.refusals import error_code

pytestmark = pytest.mark.anyio

TEXT = {"Content-Type": "text/plain"}
NEW = {"principal": "p", "role": "reader"}
FOR_EVER = 100_000.0
PATIENT = replace(DEFAULT_LIMITS, sse_seconds_max=FOR_EVER, sse_heartbeat_seconds_max=FOR_EVER)
LIVE = (
    "/v1/stream/s?offset=-1&live=sse",
    "/v1/stream/s?offset=-1&live=long-poll",
    "/v1/sessions/s/events?offset=-1&live=sse",
    "/v1/sessions/s/events?offset=now&live=long-poll",
    "/v1/sessions/s/events/stream",
)


def ask(server: LocalServer, secret: str | None = None) -> httpx2.AsyncClient:
    headers = {} if secret is None else bearer(secret)
    return httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=120)


# What a key has opened ------------------------------------------------------------------


async def _followed(client: httpx2.AsyncClient, path: str) -> int:
    """Open a live read and return its status at its end."""
    async with client.stream("GET", path, timeout=None) as events:
        async for _ in events.aiter_bytes():
            pass
        return events.status_code


@asynccontextmanager
async def live_reads(
    server: LocalServer, client: httpx2.AsyncClient
) -> "AsyncIterator[list[asyncio.Task[int]]]":
    """Open one live read of each kind, and wait until all of them wait."""
    watchers = server.node.keys._watchers
    before = sum(map(len, watchers.values()))
    tasks = [asyncio.create_task(_followed(client, path)) for path in LIVE]
    async with asyncio.timeout(120):
        while sum(map(len, watchers.values())) < before + len(LIVE):
            await asyncio.sleep(0.01)
    yield tasks
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _fill(client: httpx2.AsyncClient) -> None:
    assert (await client.put("/v1/stream/s", headers=TEXT)).status_code == 201
    assert (await client.post("/v1/sessions/s/events", json={"type": "note"})).status_code == 204


async def _ended(reads: "list[asyncio.Task[int]]") -> list[int]:
    async with asyncio.timeout(120):
        return await asyncio.gather(*reads)


async def test_live_reads_end_with_their_key_although_nothing_happens(tmp_path: Path) -> None:
    async with local_server(
        tmp_path / "data", api_key=BOOTSTRAP, long_poll_seconds=FOR_EVER, limits=PATIENT
    ) as server:
        key, other = await make_key(server.url, "reader"), await make_key(server.url, "reader")
        async with (
            ask(server, BOOTSTRAP) as admin,
            ask(server, key["secret"]) as reader,
            ask(server, other["secret"]) as bystander,
        ):
            await _fill(admin)
            async with live_reads(server, reader) as cut, live_reads(server, bystander) as kept:
                assert (await admin.delete("/v1/keys/" + key["id"])).status_code == 200
                assert await _ended(cut) == [200, 401, 200, 401, 200]
                assert not any(task.done() for task in kept), "those of another key go on"


async def test_live_reads_without_a_key_end_when_the_first_is_made(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", long_poll_seconds=FOR_EVER, limits=PATIENT) as server:
        async with ask(server) as client:
            await _fill(client)
            async with live_reads(server, client) as cut:
                local = Caller("default", "local", Role.ADMIN, None)
                store = server.node.engine.access.key_store
                assert store is not None
                await store.create(local, NewKey("default", "ann", Role.ADMIN), "req")
                assert await _ended(cut) == [200, 401, 200, 401, 200]
        assert not server.node.keys._watchers


async def test_a_download_ends_with_its_key(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP) as server:
        key = await make_key(server.url, "writer")
        data = bytes(32 * 1024 * 1024)
        path = "/v1/artifacts/" + sha256(data).hexdigest()
        async with ask(server, key["secret"]) as client, ask(server, BOOTSTRAP) as admin:
            assert (await client.put(path, content=data)).status_code == 201
            got: list[bytes] = []

            async def download() -> None:
                async with client.stream("GET", path) as answer:
                    async for chunk in answer.aiter_raw():
                        if not got:
                            assert (await admin.delete("/v1/keys/" + key["id"])).status_code == 200
                        got.append(chunk)

            with pytest.raises(httpx2.TransportError):
                await download()
            assert 0 < sum(map(len, got)) < len(data)


# How many, how often, how fast ----------------------------------------------------------


async def test_a_workspace_has_so_many_keys_and_operators_have_a_reserve(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, keys_max=8, keys_reserved=3, workspace_keys_max=3)
    async with local_server(tmp_path / "data", limits=limits, api_key=BOOTSTRAP) as server:
        tenants = [await make_secret(server.url, "admin", name) for name in ("a", "b")]
        async with (
            ask(server, tenants[0]) as a,
            ask(server, tenants[1]) as b,
            ask(server, BOOTSTRAP) as admin,
        ):
            made = await asyncio.gather(*[a.post("/v1/keys", json=NEW) for _ in range(5)])
            assert sorted(answer.status_code for answer in made) == [201, 201, 409, 409, 409]
            refused = next(answer for answer in made if answer.status_code == 409)
            assert error_code(refused) == "too_many_keys"
            assert "The workspace a has 3 keys" in refused.text
            assert (await b.post("/v1/keys", json=NEW)).status_code == 201
            refused = await b.post("/v1/keys", json=NEW)
            assert (refused.status_code, error_code(refused)) == (409, "too_many_keys")
            assert "The server has 5 keys" in refused.text
            for _ in range(3):
                assert (await admin.post("/v1/keys", json=NEW)).status_code == 201
            assert (await admin.post("/v1/keys", json=NEW)).status_code == 409
            gone = next(answer for answer in made if answer.status_code == 201).json()["id"]
            assert (await a.delete("/v1/keys/" + gone)).status_code == 200
            assert (await a.post("/v1/keys", json=NEW)).status_code == 201, "a revoked key makes room"
            await server.restart()
            assert (await a.post("/v1/keys", json=NEW)).status_code == 409


async def test_a_workspace_makes_keys_at_a_pace(tmp_path: Path) -> None:
    clock = ManualClock()
    limits = replace(DEFAULT_LIMITS, workspace_keys_per_minute_max=3)
    async with local_server(tmp_path / "data", limits=limits, clock=clock, api_key=BOOTSTRAP) as server:
        tenant = await make_secret(server.url, "admin", "a")
        async with ask(server, tenant) as a, ask(server, BOOTSTRAP) as admin:
            assert [(await a.post("/v1/keys", json=NEW)).status_code for _ in range(3)] == [201] * 3
            refused = await a.post("/v1/keys", json=NEW)
            assert (refused.status_code, error_code(refused)) == (429, "keys_too_fast")
            assert refused.headers["retry-after"] == "20"
            clock.advance(20)
            assert (await a.post("/v1/keys", json=NEW)).status_code == 201
            assert (await a.post("/v1/keys", json=NEW)).status_code == 429
            assert [(await admin.post("/v1/keys", json=NEW)).status_code for _ in range(9)] == [201] * 9


async def test_no_key_is_faster_than_its_maker(tmp_path: Path) -> None:
    async with local_server(tmp_path / "data", api_key=BOOTSTRAP) as server:
        maker = await make_secret(server.url, "admin", "a", requests_per_second=50.0)
        free = await make_secret(server.url, "admin", "b")
        async with ask(server, maker) as a, ask(server, free) as b:
            assert (await a.post("/v1/keys", json=NEW)).json()["requests_per_second"] == 50.0
            slower = await a.post("/v1/keys", json=NEW | {"requests_per_second": 49.5})
            assert slower.json()["requests_per_second"] == 49.5
            same = await a.post("/v1/keys", json=NEW | {"requests_per_second": 50})
            assert same.status_code == 201
            faster = await a.post("/v1/keys", json=NEW | {"requests_per_second": 50.5})
            assert (faster.status_code, error_code(faster)) == (403, "permission_error")
            assert "up to 50" in faster.text
            assert (await b.post("/v1/keys", json=NEW)).json()["requests_per_second"] is None
            assert (await b.post("/v1/keys", json=NEW | {"requests_per_second": 900})).status_code == 201
