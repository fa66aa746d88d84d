"""Quotas are of the whole server: what other partitions hold counts as soon as it was heard."""

import hashlib
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.managed_agents.claude_code_hooks import SESSION_PREFIX
from durable_sessions.partition_id import SYSTEM
from durable_sessions.testing.server import LocalServer, local_server
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.anyio

TEXT = {"Content-Type": "text/plain"}
LIMITS = replace(DEFAULT_LIMITS, usage_seconds=0.01, event_bytes_max=2_000)
NAMES = [f"stream-{number}" for number in range(12)]


def client_of(server: LocalServer) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS)


def quotas_of(server: LocalServer) -> list[tuple[int, int]]:
    """Return how many streams and bytes each partition believes that the workspace holds."""
    found = []
    for number, keeper in server.node.keepers.items():
        quotas = keeper.engine.partition._quotas
        assert quotas is not None
        own = quotas.held_here().get("default")
        heard = quotas._elsewhere("default")
        streams = heard.streams + (0 if own is None else own.streams)
        if number != SYSTEM:
            found.append((streams, quotas.held_bytes(quotas.state, "default")))
    return found


async def heard(server: LocalServer, streams: int, held_bytes: int) -> None:
    await until(lambda: set(quotas_of(server)) == {(streams, held_bytes)})


async def test_streams_and_bytes_of_all_partitions_count(tmp_path: Path) -> None:
    async with local_server(
        tmp_path / "data", partitions=3, limits=LIMITS, workspace_streams=6, workspace_bytes=1_000
    ) as server:
        async with client_of(server) as client:
            for number, name in enumerate(NAMES[:6], 1):
                answer = await client.put(f"/v1/stream/{name}", headers=TEXT, content=b"x" * 100)
                assert answer.status_code == 201, answer.text
                await heard(server, number, number * 100)
            for name in NAMES[6:]:
                answer = await client.put(f"/v1/stream/{name}", headers=TEXT)
                assert answer.status_code == 429, "whichever partition it belongs to"
                assert "workspace_streams" in answer.json()["error"]["message"]
            fork = {"Stream-Forked-From": f"/v1/stream/{NAMES[0]}"}
            assert (await client.put(f"/v1/stream/{NAMES[7]}", headers=fork)).status_code == 429
            for name in NAMES[:6]:
                answer = await client.post(f"/v1/stream/{name}", headers=TEXT, content=b"x" * 401)
                assert answer.status_code == 429
                assert "workspace_bytes" in answer.json()["error"]["message"]
            data = b"y" * 400
            url = f"/v1/artifacts/{hashlib.sha256(data).hexdigest()}"
            assert (await client.put(url, headers=TEXT, content=data)).status_code == 201
            await heard(server, 6, 1_000)
        await server.restart()
        await heard(server, 6, 1_000)
        async with client_of(server) as client:
            for name in NAMES[:6]:
                assert (
                    await client.post(f"/v1/stream/{name}", headers=TEXT, content=b"x")
                ).status_code == 429
            assert (await client.delete(url)).status_code == 204
            assert (await client.delete(f"/v1/stream/{NAMES[0]}")).status_code == 204
            await heard(server, 5, 500)
            assert (await client.put(f"/v1/stream/{NAMES[8]}", headers=TEXT)).status_code == 201
            # The note of where a fork lives is no stream of the workspace.
            await heard(server, 6, 500)
            assert (await client.delete(f"/v1/stream/{NAMES[8]}")).status_code == 204
            await heard(server, 5, 500)
            for name in NAMES[6:]:
                fork = {"Stream-Forked-From": f"/v1/stream/{NAMES[1]}"}
                assert (await client.put(f"/v1/stream/{name}", headers=fork)).status_code == 201
                assert (await client.delete(f"/v1/stream/{name}")).status_code == 204
                await heard(server, 5, 500)


async def captured(server: LocalServer) -> list[int]:
    """Capture large prompts of different sessions until the quota refuses one; return the statuses."""
    statuses: list[int] = []
    async with client_of(server) as client:
        while not statuses or statuses[-1] == 200:
            name = f"session-{len(statuses)}"
            hook = {"hook_event_name": "UserPromptSubmit", "session_id": name, "prompt": name * 500}
            statuses.append((await client.post("/v1/ingest/claude-code", json=hook)).status_code)
            await until(lambda: len(set(quotas_of(server))) == 1)
            if statuses[-1] == 200:
                read = await client.get(f"/v1/sessions/{SESSION_PREFIX}{name}/events")
                artifact = next(one["artifact"] for one in read.json()["data"] if "artifact" in one)
                assert (await client.get(artifact["url"])).status_code == 200
    return statuses


async def test_what_is_captured_is_counted_by_the_owner_of_artifacts(tmp_path: Path) -> None:
    found = []
    for partitions in (1, 3):
        async with local_server(
            tmp_path / str(partitions), partitions=partitions, limits=LIMITS, workspace_bytes=60_000
        ) as server:
            found.append(await captured(server))
    assert found[0][-1] == found[1][-1] == 429
    # Within one delivery the owner of artifacts has not heard yet of what the session's partition has stored.
    assert len(found[1]) - len(found[0]) in (0, 1)
    assert len(found[0]) > 3
