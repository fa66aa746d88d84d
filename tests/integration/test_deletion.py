"""What is deleted is gone from the bucket of a running server, and what is held is not deleted."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pyarrow.parquet as pq
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.log.disk import REAL_DISK
from durable_sessions.settings import load
from durable_sessions.testing.server import LocalServer
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
QUICK = replace(
    DEFAULT_LIMITS,
    maintenance_seconds=0.02,
    delete_within_seconds=1.0,
    garbage_grace_seconds=0.1,
    expiry_sweep_seconds=0.02,
    compaction_segments_min=4,
)
POLICIES = """
port = 0
flush_seconds = 0.1
[[retention]]
prefix = "idle/"
idle_days = 0.00001
[[retention]]
prefix = "legal/"
hold = true
"""


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[LocalServer]:
    file = tmp_path / "ds.toml"
    file.write_text(POLICIES)
    server = LocalServer(load({"data": tmp_path / "data"}, {}, file), QUICK, None, REAL_DISK)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url + "/v1/stream", timeout=PATIENCE_SECONDS) as client:
        yield client


def holding(server: LocalServer, text: str) -> list[Path]:
    """Return the objects in the bucket that hold a text."""
    found = []
    for path in (server.data / "bucket").rglob("*.parquet"):
        try:
            if text in str(pq.read_table(path).to_pylist()):
                found.append(path)
        except FileNotFoundError:
            continue  # it was removed while we looked
    return found


async def eventually_gone(server: LocalServer, text: str) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while holding(server, text):
            await asyncio.sleep(0.05)


async def test_records_and_name_of_a_deleted_stream_are_gone_in_the_end(
    server: LocalServer, client: httpx2.AsyncClient
) -> None:
    for path in ("kept", "secret-name"):
        await client.put(path, headers=JSON)
        await client.post(path, headers=JSON, content=f'{{"text":"records of {path}"}}')
    await server.node.engine.flusher.flush_all()
    assert holding(server, "records of secret-name")
    assert (await client.delete("secret-name")).status_code == 204
    await server.node.engine.flusher.flush_all()
    await eventually_gone(server, "secret-name")
    assert (await client.get("kept")).json() == [{"text": "records of kept"}]
    await server.restart()
    assert (await client.get("kept")).json() == [{"text": "records of kept"}]
    assert (await client.get("secret-name")).status_code == 404


async def test_many_flushes_leave_few_segments_and_every_record(
    server: LocalServer, client: httpx2.AsyncClient
) -> None:
    await client.put("s", headers=JSON)
    for number in range(30):
        await client.post("s", headers=JSON, content=str(number))
        await server.node.engine.flusher.flush_all()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(list((server.data / "bucket" / "events").rglob("*.parquet"))) > 4:
            await asyncio.sleep(0.05)
    assert (await client.get("s")).json() == list(range(30))


async def test_idle_streams_go_and_held_ones_stay(server: LocalServer, client: httpx2.AsyncClient) -> None:
    await client.put("idle/s", headers=JSON, content="[1]")
    await client.put("legal/s", headers={**JSON, "Stream-TTL": "1"}, content='["evidence"]')
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await client.head("idle/s")).status_code == 200:
            await asyncio.sleep(0.1)
    await asyncio.sleep(1)
    refused = await client.delete("legal/s")
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "legal_hold"
    assert (await client.get("legal/s")).json() == ["evidence"]
