"""Whole nodes whose log is in the bucket: nothing is lost, doubled or out of date when owners change."""

import asyncio
from collections.abc import Iterator

import httpx2
import pytest
from tools.local_cluster import LocalCluster, free_ports

from durable_sessions.testing.checker import assert_correct
from tests.cluster.conftest import require_servers
from tests.support.client import JSON
from tests.support.load import Load

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

STREAMS = [f"/v1/stream/kept-{number}" for number in range(6)]


@pytest.fixture(scope="module")
def on_bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    require_servers()
    cluster = LocalCluster(tmp_path_factory.mktemp("on-bucket"), free_ports(3), with_nats=False, partitions=2)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop(politely=False)


async def test_nothing_is_lost_when_owners_are_killed_and_stopped(on_bucket: LocalCluster) -> None:
    async with httpx2.AsyncClient(timeout=120) as client:
        for number, path in enumerate(STREAMS):
            url = on_bucket.url(number % 3) + path
            assert (await client.put(url, headers=JSON)).status_code == 201
            assert (await client.post(url, headers=JSON, json={"written": number})).status_code == 204
    load = Load(on_bucket.ports, seed=7, answer_seconds_max=30, prefix="bucket-")
    try:
        async with load.running():
            await load.advance()
            victim = await asyncio.to_thread(on_bucket.owner, "00")
            assert victim is not None
            on_bucket.nodes[victim].kill()
            await asyncio.to_thread(on_bucket.wait_until_owned)
            await load.advance()
            on_bucket.nodes[victim].start()
            await asyncio.to_thread(on_bucket.wait_until_ready, [victim])
            leaving = await asyncio.to_thread(on_bucket.owner, "01")
            assert leaving is not None
            assert await asyncio.to_thread(on_bucket.nodes[leaving].stop) == 0
            await asyncio.to_thread(on_bucket.wait_until_owned)
            await load.advance()
            on_bucket.nodes[leaving].start()
            await asyncio.to_thread(on_bucket.wait_until_ready, [leaving])
        await load.read_all()
    finally:
        load.close()
    assert_correct(load.recorder.calls)
    async with httpx2.AsyncClient(timeout=120) as client:
        for number, path in enumerate(STREAMS):
            for port in on_bucket.ports:
                found = await client.get(f"http://127.0.0.1:{port}{path}?offset=-1")
                assert (found.status_code, found.json()) == (200, [{"written": number}])


async def test_the_operator_sees_the_nodes_that_live(on_bucket: LocalCluster) -> None:
    said = await asyncio.to_thread(on_bucket.ds, "cluster", "status")
    assert said.startswith("cluster local, log in bucket, 3 partitions")
    for number in range(3):
        assert said.count(f"  node-{number} ") == 1, "those of earlier processes are not shown"
    assert (
        await asyncio.to_thread(on_bucket.ds, "cluster", "check") == "Bucket and log are as they must be.\n"
    )
