"""A real cluster under load through all nodes, while nodes are killed, paused and stopped."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx2
import msgspec
import pytest
from click.testing import CliRunner
from tools.local_cluster import LocalCluster, Part

from durable_sessions.cli.main import cli
from durable_sessions.cluster.assignment import assign
from durable_sessions.cluster.heartbeat import NodeHeartbeat
from durable_sessions.errors import BucketRefusedError, SettingsError
from durable_sessions.http.api.first_key_file import FILE, HEADER
from durable_sessions.log.nats.wire import NatsServers, NatsWire
from durable_sessions.node.cluster_node import ClusterNode
from durable_sessions.node.node import Node
from durable_sessions.partition_id import SYSTEM, PartitionId
from durable_sessions.settings import Settings
from durable_sessions.testing.checker import assert_correct
from tests.support.load import Load
from tests.support.trial import SOAK_VARIABLE

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

PATIENCE_SECONDS = 120.0
SOAK = SOAK_VARIABLE in os.environ


@asynccontextmanager
async def judged(local: LocalCluster, seed: int) -> AsyncIterator[Load]:
    """Let clients work through all nodes for the length of a block, and judge what they saw."""
    load = Load(local.ports, seed, answer_seconds_max=8, prefix=f"load-{seed}-")
    try:
        async with load.running():
            yield load
        await load.read_all()
    finally:
        load.close()
    assert_correct(load.recorder.calls)


async def owner(local: LocalCluster, partition: int = SYSTEM, besides: Part | None = None) -> Part:
    """Return the node that tells that it owns a partition, when there is one."""
    found: asyncio.Queue[str] = asyncio.Queue()

    async def hear(data: bytes) -> None:
        beat = NodeHeartbeat.decode(data)
        said = None if beat is None else beat.partition(partition)
        if beat is not None and said is not None and said.owns:
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
        paused = await owner(local, SYSTEM)
        paused.pause()
        try:
            await owner(local, SYSTEM, besides=paused)
            await load.advance()  # through the next owners
        finally:
            paused.resume()  # it still believes that it owns the log
        await load.advance()
        stopped = await owner(local, 0)
        status = await asyncio.to_thread(stopped.stop)
        assert status == 0
        await load.advance()
        killed = await owner(local, 1, besides=stopped)
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
            partition = rounds % local.partitions
            leader = local.leader_of(f"DS_local_0_0{partition}")
            for victim in (await owner(local, partition), leader, local.nodes[rounds % 3]):
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
    assert (status, said.splitlines()[0]) == (0, "cluster local, log in nats, 4 partitions")
    assert said.count("since") == 4
    await until(lambda: ds("cluster", "status")[1].count("next node-") == 4)
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
async def test_a_partition_moves_and_a_node_is_drained_under_load(local: LocalCluster) -> None:
    await until(lambda: is_balanced(local))
    async with judged(local, seed=2) as load:
        await load.advance()
        before = await owner(local, 2)
        target = next(node for node in local.nodes if node is not before)
        assert await asyncio.to_thread(ds, "cluster", "move", "02", target.name) == (
            0,
            f"Partition 02 goes to {target.name}.\n",
        )
        await until(lambda: local.owner("02") == local.nodes.index(target))
        await load.advance()
        status, _ = await asyncio.to_thread(ds, "cluster", "drain", target.name)
        assert status == 0
        await until(lambda: owned_by(local, target) == 0)
        await load.advance()  # also through the node that owns nothing
        assert (await asyncio.to_thread(ds, "cluster", "undrain", target.name))[0] == 0
        await until(lambda: owned_by(local, target) > 0)
        await load.advance()


async def until(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await asyncio.to_thread(is_so):
            await asyncio.sleep(0.1)


def is_balanced(local: LocalCluster) -> bool:
    """Say whether every partition is where it should be, so that none moves by itself."""
    names = [node.name for node in local.nodes]
    wanted = assign(range(local.partitions), names, light=(SYSTEM,))
    digits = {one.number: one.digits for one in PartitionId(0, local.partitions).all()}
    return local.owners() == {digits[number]: names.index(name) for number, name in wanted.items()}


def owned_by(local: LocalCluster, node: Part) -> int:
    owners = local.owners()
    return 99 if None in owners.values() else list(owners.values()).count(local.nodes.index(node))


@pytest.mark.usefixtures("environment")
async def test_a_command_names_what_there_is(local: LocalCluster) -> None:
    status, said = await asyncio.to_thread(ds, "cluster", "move", "07", "node-0")
    assert (status, "There is no partition 07: there are 00, 01, 02, sys." in said) == (1, True)
    status, said = await asyncio.to_thread(ds, "cluster", "drain", "node-9")
    assert (status, "There is no node node-9: there are node-0, node-1, node-2." in said) == (1, True)


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
        (replace(usual, workers=2), "leave --workers at 1. To use more cores of a machine, start more nodes"),
        (replace(usual, routing="redirect"), "set public_url to this node's URL"),
    ):
        with pytest.raises(SettingsError, match=problem):
            await ClusterNode.open(wrong, wrong.limits())
    found = tuple(os.environ["DURABLE_SESSIONS_NATS"].split(","))
    with pytest.raises(SettingsError, match="the cluster secret is not the one"):
        await ClusterNode.open(replace(usual, nats=found), usual.limits())


async def test_a_key_counts_at_every_node_and_a_revoked_one_at_none(local: LocalCluster) -> None:
    """The last test on this cluster: from the first key on, every request needs one."""
    await until(lambda: is_balanced(local))
    system = await owner(local, SYSTEM)
    ticket = msgspec.json.decode(await asyncio.to_thread((local.directory / system.name / FILE).read_bytes))
    async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as client:

        async def made(headers: dict[str, str], principal: str, number: int) -> tuple[str, str]:
            wanted = {"role": "admin", "principal": principal}
            answer = await client.post(local.url(number) + "/v1/keys", json=wanted, headers=headers)
            assert answer.status_code == 201, answer.text
            assert answer.json()["everywhere"] is True
            return answer.json()["id"], answer.json()["secret"]

        async def statuses(key: str) -> list[int]:
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            urls = [f"{local.url(number)}/v1/whoami" for number in range(3)]
            return [(await client.get(url, headers=headers)).status_code for url in urls]

        _, admin = await made({HEADER: ticket["token"]}, "admin", 1)
        headers = {"Authorization": f"Bearer {admin}"}
        assert await statuses(admin) == [200, 200, 200]
        assert await statuses("") == [401, 401, 401]
        other = ""
        for number in range(3):
            key_id, other = await made(headers, f"other {number}", number)
            assert await statuses(other) == [200, 200, 200]
            url = f"{local.url((number + 1) % 3)}/v1/keys/{key_id}"
            revoked = await client.delete(url, headers=headers)
            assert (revoked.status_code, revoked.json()["everywhere"]) == (200, True)
            assert await statuses(other) == [401, 401, 401]
        system.kill()  # the next owner of the keys has them all
        await until(lambda: None not in local.owners().values())
        rest = [number for number in range(3) if local.nodes[number] is not system]
        urls = [f"{local.url(number)}/v1/whoami" for number in rest]
        for url in urls:
            answer = await client.get(url, headers={"Authorization": f"Bearer {admin}"})
            assert answer.status_code == 200, answer.text
            answer = await client.get(url, headers={"Authorization": f"Bearer {other}"})
            assert answer.status_code == 401, answer.text
