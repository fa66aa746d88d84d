"""Reads from the bucket while it is slow or hangs: bounded in time and memory, and fair to every key."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.bucket.local import LocalStore
from durable_sessions.bucket.store import Bucket
from durable_sessions.limits import DEFAULT_LIMITS, MIB
from durable_sessions.testing.bucket import FaultyBucket
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.keys import BOOTSTRAP, bearer, make_secret

pytestmark = pytest.mark.anyio

TEXT = {"Content-Type": "text/plain"}
READ_BYTES = 5 * MIB
"""What one read takes of the budget: 1 MiB fetched, decoded and answered, and 2 MiB decoded ahead of it."""


@asynccontextmanager
async def cold(data: Path, seconds: float) -> AsyncIterator[tuple[LocalServer, FaultyBucket, str]]:
    """A server whose streams are in the bucket and not in memory, with a bucket that can be told to hang."""
    limits = replace(
        DEFAULT_LIMITS,
        cold_read_seconds_max=seconds,
        cold_read_bytes_max=4 * READ_BYTES,
        memory_bytes_max=1,
        block_cache_bytes_max=1,
    )
    async with local_server(data, limits=limits, api_key=BOOTSTRAP) as server:
        greedy = await make_secret(server.url, "writer", "greedy")
        for secret in (BOOTSTRAP, greedy):
            async with asking(server, secret) as client:
                await client.put("/v1/stream/s", headers=TEXT, content=b"x" * 1000)
        async with asking(server, BOOTSTRAP) as client:
            assert (await client.post("/v1/admin/flush")).status_code == 200
        bucket = server.node.engine.archive.bucket
        assert isinstance(bucket, Bucket)
        faulty = FaultyBucket(bucket._store)
        bucket._store = faulty
        yield server, faulty, greedy
        faulty.heal()


@asynccontextmanager
async def asking(server: LocalServer, secret: str) -> AsyncIterator[httpx2.AsyncClient]:
    pool = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(
        base_url=server.url, headers=bearer(secret), timeout=120, limits=pool
    ) as client:
        yield client


async def test_a_bucket_that_hangs_is_told_in_time_and_writers_go_on(tmp_path: Path) -> None:
    async with cold(tmp_path / "data", 0.3) as (server, faulty, _), asking(server, BOOTSTRAP) as client:
        faulty.order("delay", "get_range", seconds=3600, times=1000)
        answers = await asyncio.gather(*[client.get("/v1/stream/s?offset=-1") for _ in range(30)])
        assert {answer.status_code for answer in answers} == {503}
        assert {answer.json()["error"]["code"] for answer in answers} == {"cold_read_failed"}
        assert {answer.headers["retry-after"] for answer in answers} == {"1"}
        assert (await client.post("/v1/stream/s", headers=TEXT, content="y")).status_code == 204
        assert (await client.post("/v1/admin/flush")).status_code == 200
        assert server.node.engine.archive.cold_reads.held == 0


async def test_reads_under_way_are_bounded_and_shared(tmp_path: Path) -> None:
    async with (
        cold(tmp_path / "data", 600) as (server, faulty, secret),
        asking(server, secret) as greedy,
        asking(server, BOOTSTRAP) as modest,
    ):
        reads = server.node.engine.archive.cold_reads
        faulty.order("delay", "get_range", seconds=1, times=1000)
        many = [asyncio.create_task(greedy.get("/v1/stream/s?offset=-1")) for _ in range(20)]
        while reads.waiting < 18:
            await asyncio.sleep(0.01)
        assert reads.held == 2 * READ_BYTES, "half of the budget"
        assert (await modest.get("/v1/stream/s?offset=-1")).content == b"x" * 1000
        assert not all(task.done() for task in many), "it did not wait behind the others"
        faulty.heal()
        assert {(await task).content for task in many} == {b"x" * 1000}
        assert (reads.held, reads.waiting) == (0, 0)


async def test_a_directory_that_hangs_for_readers_does_not_keep_flushes_waiting(tmp_path: Path) -> None:
    async with cold(tmp_path / "data", 0.5) as (server, faulty, _), asking(server, BOOTSTRAP) as client:
        released = threading.Event()
        store = faulty._inner
        assert isinstance(store, LocalStore)
        read = store._read

        def hanging(path: str, start: int, length: int | None) -> bytes:
            if length is not None:
                released.wait(120)
            return read(path, start, length)

        store._read = hanging  # type: ignore[method-assign]
        try:
            answers = await asyncio.gather(*[client.get("/v1/stream/s?offset=-1") for _ in range(40)])
            assert {answer.status_code for answer in answers} == {503}
            await client.post("/v1/stream/s", headers=TEXT, content="y")
            assert (await client.post("/v1/admin/flush")).status_code == 200
        finally:
            released.set()
