"""Documents of agents, environments and sessions: what takes much memory leaves it, and is read back."""

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.testing.server import local_server

pytestmark = pytest.mark.anyio

DOCUMENT_BYTES = 100_000


async def register(client: httpx2.AsyncClient) -> httpx2.Response:
    body = {"name": "large", "model": "m", "system": "s" * DOCUMENT_BYTES}
    return await client.post("/v1/agents", json=body)


async def test_documents_leave_memory_by_their_bytes(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, attribute_bytes_max=5 * DOCUMENT_BYTES, era_seconds=0.2)
    async with (
        local_server(tmp_path / "data", limits=limits, flush_seconds=0.2) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        state = server.node.engine.partition._state
        agents = []
        for _ in range(60):
            answer = await register(client)
            while answer.status_code == 503:  # it is faster than the flushes
                await asyncio.sleep(0.05)
                answer = await register(client)
            assert answer.status_code == 200, answer.text
            agents.append(answer.json()["id"])
        async with asyncio.timeout(60):
            while state.attribute_bytes > limits.attribute_bytes_max:
                await asyncio.sleep(0.05)
        for agent in agents:
            found = (await client.get(f"/v1/agents/{agent}")).json()
            assert len(found["system"]) == DOCUMENT_BYTES
        assert state.attribute_bytes == sum(
            len(value) for stream in state.by_id.values() for value in stream.attributes.values()
        ), "what is counted is what is there"


async def test_documents_that_cannot_leave_are_refused_in_time(tmp_path: Path) -> None:
    limits = replace(DEFAULT_LIMITS, attribute_bytes_max=DOCUMENT_BYTES)
    async with (
        local_server(tmp_path / "data", limits=limits, flush_seconds=3600) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        state = server.node.engine.partition._state
        while (answer := await register(client)).status_code == 200:
            assert state.attribute_bytes <= 8 * limits.attribute_bytes_max
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert "attribute_bytes_max" in answer.json()["error"]["message"]
        assert state.attribute_bytes > 4 * limits.attribute_bytes_max
        assert (
            await client.put("/v1/stream/other", headers={"Content-Type": "text/plain"})
        ).status_code == 201
        assert (await client.post("/v1/admin/flush")).status_code == 200
        async with asyncio.timeout(60):
            while (await register(client)).status_code == 503:
                await asyncio.sleep(0.05)
