"""A single server becomes a cluster and is one again; a cluster goes on whose NATS has lost everything."""

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from tools.local_cluster import CLUSTER, LocalCluster, free_ports

from durable_sessions.testing.server import local_server
from tests.cluster.conftest import require_servers
from tests.integration.test_repartition import client_of, fill, read, relate
from tests.support.keys import BOOTSTRAP, bearer
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio


@pytest.fixture
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalCluster]:
    """NATS and S3; one node is started later."""
    require_servers()
    cluster = LocalCluster(tmp_path / "cluster", free_ports(1))
    try:
        cluster.start_servers()
        cluster.environment["DURABLE_SESSIONS_API_KEY"] = BOOTSTRAP
        for name, value in cluster.environment.items():
            if name.startswith("AWS_"):
                monkeypatch.setenv(name, value)
        yield cluster
    finally:
        cluster.stop(politely=False)


async def seen(url: str) -> dict[str, Any]:
    async with httpx2.AsyncClient(
        base_url=url, timeout=PATIENCE_SECONDS, headers=bearer(BOOTSTRAP)
    ) as client:
        return await read(client)


async def test_a_server_becomes_a_cluster_and_is_one_again(servers: LocalCluster, tmp_path: Path) -> None:
    bucket = servers.environment["DURABLE_SESSIONS_BUCKET"]
    data, later = tmp_path / "data", tmp_path / "later"
    async with (
        local_server(data, bucket=bucket, api_key=BOOTSTRAP) as server,
        client_of(server) as client,
    ):
        for name in ("session-0", "session-2"):
            await client.post(f"/v1/sessions/{name}/events", json={"events": [{"type": "note"}]})
        await client.put("/v1/stream/plain/1", headers={"content-type": "text/plain"})
        await fill(client, "one")
        await relate(client)
        before = await read(client)

    said = await asyncio.to_thread(
        servers.ds, "cluster", "init", "--name", CLUSTER, "--partitions", "2", "--from-data", str(data)
    )
    assert "The cluster local is made; its log is in NATS, on 3 servers." in said
    assert f"--data {data}" in said
    with pytest.raises(Exception, match="--cluster local"):
        async with local_server(tmp_path / "other", bucket=bucket):
            pass
    with pytest.raises(RuntimeError, match="belongs to the cluster local already"):
        servers.ds("cluster", "init", "--name", "other", "--from-data", str(data))

    await asyncio.to_thread(servers.start_nodes)
    assert await seen(servers.url(0)) == before
    with pytest.raises(RuntimeError, match="nodes of its cluster run: node-0"):
        servers.ds("cluster", "dissolve", "--data", str(later))
    async with httpx2.AsyncClient(base_url=servers.url(0), headers=bearer(BOOTSTRAP)) as client:
        await fill(client, "two")
        during = await read(client)
    servers.nodes[0].kill()  # what was not flushed is in NATS only

    said = await asyncio.to_thread(servers.ds, "cluster", "dissolve", "--data", str(later))
    assert f"ds serve --data {later}" in said
    with pytest.raises(RuntimeError, match="belongs to no cluster yet"):
        servers.ds("cluster", "status")
    async with local_server(later, bucket=bucket, api_key=BOOTSTRAP) as server:
        assert await seen(server.url) == during
        async with client_of(server) as client:
            await fill(client, "three")
    servers.ds("verify", "--data", str(later), "--bucket", bucket)

    await asyncio.to_thread(
        servers.ds, "cluster", "init", "--name", "second", "--partitions", "1", "--from-data", str(later)
    )
    assert servers.ds("cluster", "status").startswith("cluster second, log in nats, 1 partitions")


async def test_what_was_flushed_is_left_when_nats_has_lost_everything(servers: LocalCluster) -> None:
    servers.ds("cluster", "init", "--name", CLUSTER, "--partitions", "2")
    await asyncio.to_thread(servers.start_nodes)
    async with httpx2.AsyncClient(base_url=servers.url(0), headers=bearer(BOOTSTRAP)) as client:
        for name in ("one", "two", "three"):
            event = {"type": "note", "id": f"first-{name}"}
            answer = await client.post(f"/v1/sessions/{name}/events", json={"events": [event]})
            assert answer.is_success, answer.text
    assert "Every partition has its log" not in renewed(servers, fails="nodes of its cluster run: node-0")
    assert await asyncio.to_thread(servers.nodes[0].stop) == 0  # flushes
    assert renewed(servers) == "Every partition has its log; nothing was changed.\n"

    for server in servers.nats:
        server.kill()
    for number, server in enumerate(servers.nats):
        shutil.rmtree(servers.directory / f"nats-{number}")
        server.start()
    servers.wait_for_nats()
    assert "the stream does not exist" in renewed(servers, "status")
    said = renewed(servers)
    assert said.count("goes on from its bucket") == 3
    assert renewed(servers) == "Every partition has its log; nothing was changed.\n"

    servers.nodes[0].start()
    servers.wait_until_ready()
    servers.wait_until_owned()
    async with httpx2.AsyncClient(base_url=servers.url(0), headers=bearer(BOOTSTRAP)) as client:
        for name in ("one", "two", "three"):
            events = (await client.get(f"/v1/sessions/{name}/events")).json()["data"]
            assert [event["id"] for event in events] == [f"first-{name}"]
            event = {"type": "note", "id": f"second-{name}"}
            assert (await client.post(f"/v1/sessions/{name}/events", json={"events": [event]})).is_success


def renewed(servers: LocalCluster, command: str = "init", fails: str = "") -> str:
    """Run the command that makes lost logs anew, or another one, and return what it says."""
    options = ("--name", CLUSTER, "--from-bucket") if command == "init" else ()
    if not fails:
        return servers.ds("cluster", command, *options)
    with pytest.raises(RuntimeError, match=fails):
        servers.ds("cluster", command, *options)
    return ""
