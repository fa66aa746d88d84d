"""A real cluster under load through all nodes, while nodes are killed, paused and stopped."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from click.testing import CliRunner
from tools.local_cluster import LocalCluster, Part

from durable_sessions.cli.main import cli
from durable_sessions.cluster.heartbeat import NodeHeartbeat
from durable_sessions.errors import BucketRefusedError, SettingsError
from durable_sessions.log.nats.wire import NatsServers, NatsWire
from durable_sessions.node.cluster_node import ClusterNode
from durable_sessions.node.node import Node
from durable_sessions.settings import Settings
from durable_sessions.testing.checker import assert_correct
from tests.support.load import Load
from tests.support.trial import SOAK_VARIABLE

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

PATIENCE_SECONDS = 60.0
SOAK = SOAK_VARIABLE in os.environ


@asynccontextmanager
async def judged(local: LocalCluster, seed: int) -> AsyncIterator[Load]:
    """Let clients work through all nodes for the length of a block, and judge what they saw."""
    load = Load(local.ports, seed, answer_seconds_max=8)
    try:
        async with load.running():
            yield load
        await load.read_all()
    finally:
        load.close()
    assert_correct(load.recorder.calls)


async def owner(local: LocalCluster, besides: Part | None = None) -> Part:
    """Return the node that tells that it owns the log, when there is one."""
    found: asyncio.Queue[str] = asyncio.Queue()

    async def hear(data: bytes) -> None:
        beat = NodeHeartbeat.decode(data)
        if beat is not None and beat.owns:
            found.put_nowait(beat.name)

    wire = await NatsWire.connect(NatsServers(tuple(local.environment["DURABLE_SESSIONS_NATS"].split(","))))
    try:
        await wire.subscribe("ds.local.node", hear)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                node = local.nodes[int((await found.get()).removeprefix("node-"))]
                if node is not besides:
                    return node
    finally:
        await wire.close()


def ds(*arguments: str) -> tuple[int, str]:
    """Run a command of the operator in this process, and return its status and what it prints."""
    done = CliRunner().invoke(cli, list(arguments))
    return done.exit_code, done.output


async def started(local: LocalCluster, node: Part) -> None:
    node.start()
    await asyncio.to_thread(local.wait_until_ready, [local.nodes.index(node)])


async def test_every_node_takes_every_request(local: LocalCluster) -> None:
    for number in range(3):
        path = f"/v1/stream/any-node-{number}"
        created = httpx2.put(local.url(number) + path, headers={"Content-Type": "application/json"})
        assert created.status_code == 201
        assert httpx2.post(local.url(number) + path, json={"by": number}).status_code == 204
        for other in range(3):
            found = httpx2.get(f"{local.url(other)}{path}?offset=-1")
            assert (found.status_code, found.json()) == (200, [{"by": number}])
            assert found.headers["Stream-Up-To-Date"] == "true"


async def test_a_live_tail_through_another_node(local: LocalCluster) -> None:
    path = "/v1/stream/tailed"
    httpx2.put(local.url(0) + path, headers={"Content-Type": "application/json"})
    async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as client:
        urls = [f"{local.url(number)}{path}?offset=-1&live=long-poll" for number in range(3)]
        waiting = [asyncio.create_task(client.get(url)) for url in urls]
        await asyncio.sleep(0.2)
        assert httpx2.post(local.url(1) + path, json="hello").status_code == 204
        assert [answer.json() for answer in await asyncio.gather(*waiting)] == [["hello"]] * 3


async def test_nothing_is_lost_doubled_or_stale_when_owners_change(local: LocalCluster) -> None:
    async with judged(local, seed=1) as load:
        await load.advance()
        paused = await owner(local)
        paused.pause()
        try:
            await load.advance()  # through the next owner
        finally:
            paused.resume()  # it still believes that it owns the log
        await load.advance()
        stopped = await owner(local, besides=paused)
        status = await asyncio.to_thread(stopped.stop)
        assert status == 0
        await load.advance()
        killed = await owner(local, besides=stopped)
        killed.kill()
        await load.advance()
        await started(local, stopped)
        await started(local, killed)
        await load.advance()


@pytest.mark.skipif(not SOAK, reason="takes minutes; to enable: make soak")
async def test_nothing_is_lost_in_a_soak(local: LocalCluster) -> None:
    ends = time.monotonic() + float(os.environ[SOAK_VARIABLE])
    rounds = 0
    while rounds < 2 or time.monotonic() < ends:
        rounds += 1
        async with judged(local, seed=rounds) as load:
            await load.advance()
            for victim in (await owner(local), local.leader_of("DS_local_0_00"), local.nodes[rounds % 3]):
                victim.kill()
                await load.advance()
                victim.start()
                await asyncio.to_thread(local.wait_for_nats)
                await asyncio.to_thread(local.wait_until_ready)


@pytest.fixture
def environment(local: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in local.environment.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("environment")
async def test_the_operator_sees_owner_and_problems(local: LocalCluster) -> None:
    status, said = await asyncio.to_thread(ds, "cluster", "status")
    assert (status, said.splitlines()[0]) == (0, "cluster local, log in nats")
    assert said.count("owns the log since") == 1
    urls = ",".join(f"http://127.0.0.1:{port}" for port in local.monitoring)
    checked = await asyncio.to_thread(ds, "cluster", "check", "--monitoring", urls)
    assert checked == (0, "Bucket and log are as they must be.\n")
    status, said = await asyncio.to_thread(ds, "cluster", "check", "--monitoring", "http://127.0.0.1:1")
    assert status == 1
    assert "its monitoring cannot be read" in said
    status, said = await asyncio.to_thread(ds, "cluster", "init", "--name", "local")
    assert said.startswith("The cluster local is made; its log is in NATS, on 3 servers.")
    status, said = await asyncio.to_thread(ds, "cluster", "init", "--name", "other")
    assert (status, "it belongs to the cluster local" in said) == (1, True)


@pytest.mark.usefixtures("environment")
async def test_a_server_of_its_own_does_not_take_the_bucket_of_a_cluster(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", bucket=os.environ["DURABLE_SESSIONS_BUCKET"])
    with pytest.raises(BucketRefusedError, match="Start this server with --cluster local"):
        await Node.open(settings)


@pytest.mark.usefixtures("environment")
async def test_a_node_says_what_it_lacks(tmp_path: Path) -> None:
    usual = Settings(
        data=tmp_path / "data",
        bucket=os.environ["DURABLE_SESSIONS_BUCKET"],
        cluster="local",
        cluster_secret="s" * 32,
        nats=("nats://127.0.0.1:1",),
    )
    for wrong, problem in (
        (replace(usual, cluster_secret="short"), "needs the secret that all nodes share"),
        (replace(usual, bucket=""), "give it --bucket"),
        (replace(usual, cluster="other"), "belongs to the cluster local, not other"),
        (replace(usual, nats=()), "say where, with --nats"),
        (replace(usual, workers=2), "leave --workers at 1"),
    ):
        with pytest.raises(SettingsError, match=problem):
            await ClusterNode.open(wrong, wrong.limits())
    found = tuple(os.environ["DURABLE_SESSIONS_NATS"].split(","))
    with pytest.raises(SettingsError, match="the cluster secret is not the one"):
        await ClusterNode.open(replace(usual, nats=found), usual.limits())
