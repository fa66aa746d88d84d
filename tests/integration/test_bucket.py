"""The second tier under a running server: the data is the user's own, and no reader notices the border."""

import asyncio
import json
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import duckdb
import httpx2
import pyarrow.parquet as pq
import pytest

from durable_sessions.testing.server import LocalServer, local_server
from tests.support.small_tiers import SMALL_TIERS
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}


@pytest.fixture
async def small(tmp_path: Path) -> AsyncIterator[LocalServer]:
    async with local_server(tmp_path / "data", limits=SMALL_TIERS) as server:
        yield server


@pytest.fixture
async def client(small: LocalServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=small.url, timeout=PATIENCE_SECONDS) as client:
        yield client


def event(number: int) -> dict[str, object]:
    return {
        "type": f"kind-{number % 3}",
        "id": f"evt-{number}",
        "name": "bash",
        "n": number,
        "text": "x" * 100,
    }


async def fill(client: httpx2.AsyncClient, streams: int, events: int) -> None:
    for stream in range(streams):
        await client.put(f"/v1/stream/s{stream}", headers=JSON)
    for start in range(0, events, 20):
        body = json.dumps([event(number) for number in range(start, min(start + 20, events))])
        for stream in range(streams):
            answer = await client.post(f"/v1/stream/s{stream}", headers=JSON, content=body)
            assert answer.status_code == 204


async def flush(client: httpx2.AsyncClient) -> None:
    answer = await client.post("/v1/admin/flush")
    assert answer.status_code == 200, answer.text
    assert answer.json()["manifest"] >= 1


async def read(client: httpx2.AsyncClient, path: str, offset: str = "-1") -> list[dict[str, object]]:
    items: list[dict[str, object]] = []
    while True:
        answer = await client.get(f"/v1/stream/{path}?offset={offset}")
        assert answer.status_code == 200, answer.text
        items += answer.json()
        offset = answer.headers["stream-next-offset"]
        if "stream-up-to-date" in answer.headers:
            return items


async def test_a_reader_never_notices_the_borders(client: httpx2.AsyncClient) -> None:
    await fill(client, 3, 400)
    await flush(client)
    for number in range(400, 440):
        await client.post("/v1/stream/s1", headers=JSON, content=json.dumps(event(number)))
    expected = [event(number) for number in range(440)]
    assert await read(client, "s1") == expected
    for start in (0, 1, 199, 399, 400, 401, 439):
        assert await read(client, "s1", f"0000000000000000_{start:016d}") == expected[start:]
    metrics = (await client.get("/metrics")).text
    assert "durable_sessions_bucket_reads_total 0.0" not in metrics
    assert "durable_sessions_unflushed_bytes 0.0" not in metrics


async def test_flushes_come_by_size_and_trim_the_log(small: LocalServer, client: httpx2.AsyncClient) -> None:
    await fill(client, 2, 1000)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while small.node.engine.partition.backlog.bytes_held >= SMALL_TIERS.flush_bytes_max:
            await asyncio.sleep(0.05)
    assert small.node.engine.archive.manifest.number >= 2
    assert await read(client, "s0") == [event(number) for number in range(1000)]


async def test_everything_derived_can_go(small: LocalServer, client: httpx2.AsyncClient) -> None:
    await fill(client, 5, 100)
    await client.post("/v1/stream/s1", headers={"Stream-Closed": "true"})
    fork = {"Stream-Forked-From": "/v1/stream/s2", "Stream-Fork-Offset": "0000000000000000_0000000000000007"}
    await client.put("/v1/stream/f", headers=fork)
    await client.delete("/v1/stream/s2")
    await client.delete("/v1/stream/s3")
    producer = {**JSON, "Producer-Id": "p", "Producer-Epoch": "1", "Producer-Seq": "0"}
    await client.post("/v1/stream/s4", headers=producer, content='"once"')
    before = {path: (await client.get(f"/v1/stream/{path}")).content for path in ("s0", "s1", "s4", "f")}
    for keep in ("everything", "bucket and log"):
        await small.stop()
        if keep == "bucket and log":
            for derived in small.data.glob("catalog.sqlite*"):
                derived.unlink()
        await small.start()
        for path, content in before.items():
            assert (await client.get(f"/v1/stream/{path}")).content == content
        assert (await client.head("/v1/stream/s1")).headers["stream-closed"] == "true"
        assert (await client.get("/v1/stream/s2")).status_code == 410
        assert (await client.get("/v1/stream/s3")).status_code == 404
        assert (await client.post("/v1/stream/s4", headers=producer, content='"once"')).status_code == 204
        assert len(await read(client, "s4")) == 101


async def test_a_bucket_that_does_not_belong_to_the_log_is_refused(
    small: LocalServer, client: httpx2.AsyncClient
) -> None:
    await fill(client, 1, 3000)
    await flush(client)
    await fill(client, 1, 400)
    await small.stop()
    shutil.move(small.data / "bucket", small.data / "elsewhere")
    with pytest.raises(Exception, match="Point --bucket to the bucket"):
        await small.start()
    shutil.rmtree(small.data / "bucket")
    shutil.move(small.data / "elsewhere", small.data / "bucket")
    await small.start()
    assert len(await read(client, "s0")) == 3400


async def test_duckdb_and_pyarrow_read_every_event(small: LocalServer, client: httpx2.AsyncClient) -> None:
    await fill(client, 3, 300)
    await client.put("/v1/stream/raw", headers={"Content-Type": "image/png"}, content=bytes(range(256)))
    await flush(client)
    pattern = str(small.data / "bucket" / "events" / "**" / "*.parquet")
    database = duckdb.connect()
    rows = database.execute(
        f"select session, position, id, type, name, epoch_ms(created_at), body from '{pattern}'"
        " where content_type = 'application/json' order by session, position"
    ).fetchall()
    assert len(rows) == 900
    for at, (session, position, identity, kind, name, created_at, body) in enumerate(rows):
        number = at % 300
        assert (session, position) == (f"s{at // 300}", number)
        assert json.loads(body) == event(number)
        assert (identity, kind, name) == (f"evt-{number}", f"kind-{number % 3}", "bash")
        assert abs(created_at / 1000 - time.time()) < 60
    counts = database.execute(f"select type, count(*) from '{pattern}' group by 1 order by 1").fetchall()
    assert counts[:3] == [("kind-0", 300), ("kind-1", 300), ("kind-2", 300)]
    table = pq.read_table(small.data / "bucket" / "events")
    raw = [row["data"] for row in table.to_pylist() if row["session"] == "raw"]
    assert raw == [bytes(range(256))]
    sessions = pq.read_table(small.data / "bucket" / "sessions").to_pylist()
    assert {row["session"] for row in sessions} == {"s0", "s1", "s2", "raw"}


async def test_expiry_reaches_streams_that_left_memory(
    client: httpx2.AsyncClient, small: LocalServer
) -> None:
    await client.put("/v1/stream/brief", headers={**JSON, "Stream-TTL": "8"}, content="[1]")
    await flush(client)
    partition = small.node.engine.partition
    for _ in range(3):
        await partition.evict_idle()
    assert not partition._state.by_id
    assert (await client.head("/v1/stream/brief")).headers["stream-ttl"] == "8"
    async with asyncio.timeout(PATIENCE_SECONDS):  # its time, and the lag that is granted on top
        while partition.stream_count:
            partition.expire()
            await partition.settled()
            await asyncio.sleep(0.1)
    assert (await client.get("/v1/stream/brief")).status_code == 404


async def test_live_segments_are_exact_while_the_server_writes_and_merges(tmp_path: Path) -> None:
    limits = replace(SMALL_TIERS, compaction_segments_min=3, maintenance_seconds=0.05)
    async with (
        local_server(tmp_path / "data", limits=limits) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client,
    ):
        await client.put("/v1/stream/s", headers=JSON)
        written = 0

        async def write() -> None:
            nonlocal written
            while True:
                body = json.dumps([event(number) for number in range(written, written + 20)])
                await client.post("/v1/stream/s", headers=JSON, content=body)
                written += 20
                if written % 200 == 0:
                    await flush(client)

        writer = asyncio.create_task(write())
        looks = 0
        async with asyncio.timeout(PATIENCE_SECONDS):
            while server.node.engine.maintenance.compactor.merges < 5 or looks < 10:
                await asyncio.sleep(0.05)
                looks += await asyncio.to_thread(look, tmp_path / "data" / "bucket")
        writer.cancel()
        assert server.node.engine.maintenance.failure is None


def look(bucket: Path) -> bool:
    """Read what the newest manifest names with DuckDB: positions from 0 on, each once, every body right."""
    manifests = sorted((bucket / "partitions/00/manifest").glob("*.json"))
    if not manifests:
        return False
    live = [str(bucket / one["path"]) for one in json.loads(manifests[-1].read_text())["segments"]]
    if not live:
        return False
    query = "select position, body from read_parquet(?) order by position"
    rows = duckdb.connect().execute(query, [live]).fetchall()
    assert [position for position, _ in rows] == list(range(len(rows)))
    assert all(json.loads(body) == event(position) for position, body in rows)
    return True


async def test_a_new_machine_on_an_old_bucket_loses_nothing_it_acknowledges(
    small: LocalServer, client: httpx2.AsyncClient, tmp_path: Path
) -> None:
    await fill(client, 1, 100)
    await small.stop()
    async with (
        local_server(tmp_path / "new", limits=SMALL_TIERS, bucket=str(small.data / "bucket")) as other,
        httpx2.AsyncClient(base_url=other.url, timeout=PATIENCE_SECONDS) as there,
    ):
        for number in range(100, 110):
            await there.post("/v1/stream/s0", headers=JSON, content=json.dumps(event(number)))
        for _ in range(2):
            await other.restart()
            assert await read(there, "s0") == [event(number) for number in range(110)]
    with pytest.raises(Exception, match="a server with another data directory has become its writer"):
        await small.start()
    shutil.rmtree(small.data / "log")
    await small.start()
    assert len(await read(client, "s0")) == 110
