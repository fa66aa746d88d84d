"""A disk that fails under a running server: nothing is acknowledged that is not durable."""

import asyncio
import errno
from pathlib import Path

import httpx2
import pytest

from durable_sessions.testing.disk import FaultyDisk
from durable_sessions.testing.server import local_server

pytestmark = pytest.mark.anyio

TEXT = {"Content-Type": "text/plain"}


@pytest.mark.parametrize("operation", ["write", "sync"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
async def test_a_failed_write_or_sync_stops_acknowledging(tmp_path: Path, operation: str, error: int) -> None:
    disk = FaultyDisk()
    async with (
        local_server(tmp_path, disk=disk) as server,
        httpx2.AsyncClient(base_url=server.url) as client,
    ):
        await client.put("/v1/stream/s", headers=TEXT, content="kept")
        disk.fail(operation, error)
        unknown = await client.post("/v1/stream/s", headers=TEXT, content="-lost-")
        assert (unknown.status_code, unknown.json()["error"]["code"]) == (503, "outcome_unknown")
        assert unknown.headers["retry-after"] == "1"
        for request in (
            client.post("/v1/stream/s", headers=TEXT, content="x"),
            client.put("/v1/stream/new", headers=TEXT),
            client.delete("/v1/stream/s"),
        ):
            refused = await request
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "partition_stopped")
        assert (await client.get("/v1/stream/s")).text == "kept"
        ready = await client.get("/readyz")
        assert ready.status_code == 503
        assert "reason" in ready.json()
        assert (await client.get("/livez")).status_code == 200
        assert "durable_sessions_partition_stopped 1.0" in (await client.get("/metrics")).text
        await server.restart()
        assert (await client.get("/readyz")).status_code == 200
        assert (await client.get("/v1/stream/s")).text in ("kept", "kept-lost-")
        assert (await client.post("/v1/stream/s", headers=TEXT, content=".")).status_code == 204


async def test_power_loss_under_load_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    for seed in range(8):
        disk = FaultyDisk(seed)
        async with (
            local_server(tmp_path / str(seed), disk=disk) as server,
            httpx2.AsyncClient(base_url=server.url) as client,
        ):
            await client.put("/v1/stream/s", headers={"Content-Type": "application/json"})
            disk.cut_power(10 + seed)

            async def write(number: int, client: httpx2.AsyncClient = client) -> tuple[int, httpx2.Response]:
                headers = {"Content-Type": "application/json"}
                return number, await client.post("/v1/stream/s", headers=headers, content=str(number))

            acknowledged = {}
            for turn in range(10):
                answers = await asyncio.gather(*[write(turn * 10 + number) for number in range(10)])
                for number, answer in answers:
                    if answer.status_code == 204:
                        acknowledged[number] = int(answer.headers["stream-next-offset"][17:]) - 1
            disk.crash()
            await server.restart()
            items = (await client.get("/v1/stream/s")).json()
            assert acknowledged
            assert all(items[position] == number for number, position in acknowledged.items())
            assert len(set(items)) == len(items)
