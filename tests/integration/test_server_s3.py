"""The whole server on real S3: it works, it survives the store's faults, and it refuses a store that lies."""

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.proxy import FaultProxy
from tests.support.s3 import S3Server, rclone, seaweedfs
from tests.support.stored_bytes import files_with, objects_with
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
SMALL = replace(
    DEFAULT_LIMITS,
    memory_bytes_max=5_000,
    flush_bytes_max=5_000,
    flush_retry_seconds=0.1,
    block_cache_bytes_max=0,
    active_streams_max=0,
)


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with seaweedfs(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
async def proxy(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FaultProxy]:
    proxy = FaultProxy(int(s3.endpoint.rpartition(":")[2]), seed=5)
    await proxy.start()
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{proxy.port}")
    yield proxy
    await proxy.stop()


@pytest.fixture
async def server(s3: S3Server, proxy: FaultProxy, tmp_path: Path) -> AsyncIterator[LocalServer]:
    async with local_server(tmp_path / "data", limits=SMALL, bucket=s3.url(tmp_path.name)) as running:
        yield running
        proxy.mode = "pass"


@pytest.fixture
async def client(server: LocalServer) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
        yield client


async def append(client: httpx2.AsyncClient, path: str, number: int) -> bool:
    body = json.dumps({"n": number, "text": "x" * 80})
    answer = await client.post(f"/v1/stream/{path}", headers=JSON, content=body)
    assert answer.status_code in (204, 503), answer.text
    return answer.status_code == 204


async def read(client: httpx2.AsyncClient, path: str) -> list[int] | None:
    """Return the numbers in a stream, or None if it could not be read now; never anything wrong."""
    numbers: list[int] = []
    offset = "-1"
    while True:
        answer = await client.get(f"/v1/stream/{path}?offset={offset}")
        if answer.status_code == 503:
            assert answer.json()["error"]["code"] == "cold_read_failed"
            assert answer.headers["retry-after"]
            return None
        assert answer.status_code == 200, answer.text
        for item in answer.json():
            assert item["text"] == "x" * 80
            numbers.append(item["n"])
        offset = answer.headers["stream-next-offset"]
        if "stream-up-to-date" in answer.headers:
            return numbers


async def test_it_works_and_a_lost_machine_is_no_loss(
    server: LocalServer, client: httpx2.AsyncClient, s3: S3Server, tmp_path: Path
) -> None:
    await client.put("/v1/stream/s", headers=JSON)
    for number in range(200):
        assert await append(client, "s", number)
    assert (await client.post("/v1/admin/flush")).status_code == 200
    assert await read(client, "s") == list(range(200))
    await server.stop()
    async with (
        local_server(tmp_path / "another machine", limits=SMALL, bucket=s3.url(tmp_path.name)) as other,
        httpx2.AsyncClient(base_url=other.url, timeout=PATIENCE_SECONDS) as there,
    ):
        assert await read(there, "s") == list(range(200))
    (tmp_path / "data" / "log").rename(tmp_path / "data" / "old log")  # the other machine has gone on
    await server.start()


async def test_what_was_erased_is_in_no_object_and_no_file(
    s3: S3Server, proxy: FaultProxy, tmp_path: Path
) -> None:
    """Redacted and dropped: in objects, in files of the machine, and in the objects behind a restart."""
    quick = replace(
        DEFAULT_LIMITS,
        maintenance_seconds=0.02,
        delete_within_seconds=1.0,
        garbage_grace_seconds=0.1,
        manifests_kept_max=2,
    )
    url, secret = s3.url(tmp_path.name), b"xylophonesecret"
    said = [
        {"type": "app.note", "id": "redacted", "text": "the xylophonesecret"},
        {"type": "app.row", "id": "dropped", "slot": "a", "text": "a xylophonesecret, too"},
        {"type": "app.note", "id": "kept", "text": "nothing else"},
    ]
    async with (
        local_server(tmp_path / "data", limits=quick, bucket=url, flush_seconds=0.1) as server,
        httpx2.AsyncClient(base_url=server.url + "/v1/sessions/s", timeout=PATIENCE_SECONDS) as session,
    ):
        await session.put("", json={"title": "the xylophonesecret"})
        await session.post("/events", json=said)
        await session.post("/events", json={"type": "app.prune", "slot": "b", "slot_empty": "keep"})
        assert (await session.post(f"{server.url}/v1/admin/flush")).status_code == 200
        assert any(name.endswith(".parquet") for name in await objects_with(url, secret))
        gone = await session.post("/redact", json={"events": ["redacted"], "reason": "asked for"})
        assert gone.status_code == 200, gone.text
        await session.post("/events", json={"type": "app.prune", "slot": "a", "slot_empty": "drop"})

        async def is_gone() -> bool:
            return not files_with(tmp_path / "data", secret) and not await objects_with(url, secret)

        await until(is_gone)
        await server.restart()
        events = (await session.get("/events")).json()["data"]
        marks = [next(name for name in ("redacted", "dropped", "text") if name in one) for one in events[:3]]
        assert marks == ["redacted", "dropped", "text"]
        assert await is_gone()


async def test_the_store_drops_delays_truncates_and_corrupts(
    server: LocalServer, client: httpx2.AsyncClient, proxy: FaultProxy
) -> None:
    accepted: dict[str, list[int]] = {f"s{n}": [] for n in range(3)}
    for path in accepted:
        await client.put(f"/v1/stream/{path}", headers=JSON)
    for mode in ["pass", "drop", "delay", "truncate", "corrupt"] * 2:
        proxy.mode = mode
        before = proxy.faults
        for _ in range(20):
            for path, numbers in accepted.items():
                if await append(client, path, len(numbers)):
                    numbers.append(len(numbers))
        flushed = await client.post("/v1/admin/flush")
        assert flushed.status_code in (200, 503), flushed.text
        for path, numbers in accepted.items():
            found = await read(client, path)
            assert found is None or found == numbers, "what is served is right, whatever the store does"
        assert mode == "pass" or proxy.faults > before
    proxy.mode = "pass"
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (await client.post("/v1/admin/flush")).status_code != 200:
            await asyncio.sleep(0.2)
    for path, numbers in accepted.items():
        assert await read(client, path) == numbers
    await server.restart()
    for path, numbers in accepted.items():
        assert await read(client, path) == numbers


async def test_while_the_store_is_away_appends_and_hot_reads_go_on(
    server: LocalServer, client: httpx2.AsyncClient, proxy: FaultProxy
) -> None:
    await client.put("/v1/stream/cold", headers=JSON)
    for number in range(100):
        await append(client, "cold", number)
    assert (await client.post("/v1/admin/flush")).status_code == 200
    for number in range(100):
        await append(client, "other", number) if number else await client.put(
            "/v1/stream/other", headers=JSON
        )
    proxy.mode = "drop"
    await client.put("/v1/stream/hot", headers=JSON)
    for number in range(5):
        assert await append(client, "hot", number)
    assert await read(client, "hot") == list(range(5))
    assert await read(client, "cold") is None
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "durable_sessions_bucket_failing 1.0" not in (await client.get("/metrics")).text:
            await append(client, "hot", 5)
            await asyncio.sleep(0.1)
    ready = await client.get("/readyz")
    assert ready.status_code == 200
    assert "failing_since_ms" in ready.json()["bucket"]
    proxy.mode = "pass"
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "durable_sessions_bucket_failing 0.0" not in (await client.get("/metrics")).text:
            await asyncio.sleep(0.1)
    assert await read(client, "cold") == list(range(100))


async def test_beyond_the_cap_appends_are_refused_and_it_heals(
    s3: S3Server, proxy: FaultProxy, tmp_path: Path
) -> None:
    limits = replace(SMALL, unflushed_bytes_max=20_000)
    async with (
        local_server(tmp_path / "data", limits=limits, bucket=s3.url(tmp_path.name)) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client,
    ):
        await client.put("/v1/stream/s", headers=JSON)
        proxy.mode = "drop"
        accepted = 0
        while await append(client, "s", accepted):
            accepted += 1
            assert accepted < 1000
        refused = await client.post("/v1/stream/s", headers=JSON, content='"' + "x" * 200 + '"')
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "overloaded")
        proxy.mode = "pass"
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await append(client, "s", accepted):
                await asyncio.sleep(0.1)
        assert await read(client, "s") == list(range(accepted + 1))


def test_a_store_that_lies_about_conditions_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rclone(tmp_path) as liar:
        for name, value in liar.environment.items():
            monkeypatch.setenv(name, value)
        command = [
            sys.executable,
            "-m",
            "durable_sessions",
            "serve",
            "--port",
            "0",
            "--data",
            str(tmp_path / "data"),
        ]
        done = subprocess.run(
            [*command, "--bucket", liar.url("p")],
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_SECONDS,
        )
    assert done.returncode == 1
    assert "condition" in done.stderr
    assert "Traceback" not in done.stderr


async def test_artifacts_in_s3_are_whole_or_not_there(proxy: FaultProxy, client: httpx2.AsyncClient) -> None:
    data = bytes(range(256)) * 40_000  # more than one request of an ordinary upload takes
    path = f"/v1/artifacts/{hashlib.sha256(data).hexdigest()}"
    assert (await client.get(path)).status_code == 404
    assert (await client.put(path, content=data, headers={"Content-Type": "x/y"})).status_code == 201
    assert (await client.put(path, content=data)).status_code == 200
    got = await client.get(path, headers={"Range": "bytes=1000-1999"})
    assert (got.status_code, got.content, got.headers["content-type"]) == (206, data[1000:2000], "x/y")
    other = b"while the store is away"
    missing = f"/v1/artifacts/{hashlib.sha256(other).hexdigest()}"
    proxy.mode = "drop"
    for answer in (await client.put(missing, content=other), await client.get(path), await client.head(path)):
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    proxy.mode = "pass"
    assert (await client.get(missing)).status_code in (200, 404)
    assert (await client.put(missing, content=other)).status_code in (200, 201)
    assert (await client.get(missing)).content == other
    assert (await client.get(path)).content == data
