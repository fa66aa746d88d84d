"""A real cluster under load through all nodes, while what it rests on fails: one thing, or two at once."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import httpx2
import pytest
from tools.local_cluster import Part

from durable_sessions.testing.checker import assert_correct
from tests.cluster.conftest import require_servers
from tests.cluster.wired import WiredCluster
from tests.support.client import JSON
from tests.support.load import Load
from tests.support.shim import Shim
from tests.support.trial import SOAK_VARIABLE
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

SOAK = SOAK_VARIABLE in os.environ
HARM_SECONDS = 8.0
"""How long a fault lasts: longer than it takes until a silent node counts as dead."""


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WiredCluster]:
    require_servers()
    cluster = WiredCluster(tmp_path_factory.mktemp("wired"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop(politely=False)


def nodes_by_share(cluster: WiredCluster) -> list[int]:
    """Return the nodes, those that own most first."""
    owners = list(cluster.owners().values())
    return sorted(range(len(cluster.nodes)), key=lambda number: -owners.count(number))


async def harmed(seconds: float) -> None:
    await asyncio.sleep(seconds)


@asynccontextmanager
async def paused(part: Part, seconds: float = HARM_SECONDS) -> AsyncIterator[None]:
    part.pause()
    try:
        yield
        await harmed(seconds)
    finally:
        part.resume()


@asynccontextmanager
async def killed(part: Part, seconds: float = HARM_SECONDS) -> AsyncIterator[None]:
    part.kill()
    try:
        yield
        await harmed(seconds)
    finally:
        part.start()


@asynccontextmanager
async def stopped(part: Part) -> AsyncIterator[None]:
    assert await asyncio.to_thread(part.stop) == 0, part.log.read_text()[-3000:]
    try:
        yield
    finally:
        part.start()


@asynccontextmanager
async def cut(cables: Sequence[object], seconds: float = HARM_SECONDS) -> AsyncIterator[None]:
    for cable in cables:
        cable.cut()  # type: ignore[attr-defined]
    try:
        yield
        await harmed(seconds)
    finally:
        for cable in cables:
            cable.mend()  # type: ignore[attr-defined]


@asynccontextmanager
async def wrong(clock: Shim, seconds: float) -> AsyncIterator[None]:
    clock.move_clock(seconds)
    try:
        yield
        await harmed(HARM_SECONDS)
    finally:
        clock.move_clock(0)


@asynccontextmanager
async def drifting(clock: Shim) -> AsyncIterator[None]:
    """Let a clock run at twice its speed, and jump back."""

    async def drift() -> None:
        for tenth in range(int(10 * HARM_SECONDS)):
            clock.move_clock(tenth / 10)
            await asyncio.sleep(0.1)

    moving = asyncio.create_task(drift())
    try:
        yield
        await moving
    finally:
        moving.cancel()
        clock.move_clock(0)


Fault = Callable[[WiredCluster, random.Random], AbstractAsyncContextManager[None]]


def owner(cluster: WiredCluster) -> Part:
    return cluster.nodes[nodes_by_share(cluster)[0]]


def leader(cluster: WiredCluster, chance: random.Random) -> Part:
    return cluster.leader_of(f"DS_local_0_0{chance.randrange(cluster.partitions)}")


FAULTS: dict[str, Fault] = {
    "owner paused for a second": lambda c, _: paused(owner(c), 1),
    "owner paused for five seconds": lambda c, _: paused(owner(c), 5),
    "owner paused for twenty seconds": lambda c, _: paused(owner(c), 20),
    "owner killed": lambda c, _: killed(owner(c)),
    "another node killed": lambda c, _: killed(c.nodes[nodes_by_share(c)[-1]]),
    "owner stopped": lambda c, _: stopped(owner(c)),
    "NATS leader killed": lambda c, chance: killed(leader(c, chance)),
    "NATS leader paused": lambda c, chance: paused(leader(c, chance)),
    "S3 killed": lambda c, _: killed(s3(c)),
    "S3 paused": lambda c, _: paused(s3(c)),
    "owner cut from NATS": lambda c, _: cut(c.nats_of(nodes_by_share(c)[0])),
    "owner cut from NATS for long": lambda c, _: cut(c.nats_of(nodes_by_share(c)[0]), 20),
    "owner cut from S3": lambda c, _: cut([c.s3_of(nodes_by_share(c)[0])]),
    "owner's clock an hour ahead": lambda c, _: wrong(c.clocks[nodes_by_share(c)[0]], 3600),
    "another clock an hour behind": lambda c, _: wrong(c.clocks[nodes_by_share(c)[-1]], -3600),
    "owner's clock drifts": lambda c, _: drifting(c.clocks[nodes_by_share(c)[0]]),
    "all cut from NATS": lambda c, _: cut([one for number in range(3) for one in c.nats_of(number)]),
}


def s3(cluster: WiredCluster) -> Part:
    assert cluster.s3 is not None
    return cluster.s3


async def under(cluster: WiredCluster, names: Sequence[str], seed: int) -> None:
    """Let faults happen at the same time under load, wait until all is well, and judge what was seen."""
    chance = random.Random(f"{seed} {names}")
    load = Load(cluster.ports, seed, answer_seconds_max=15, prefix=f"{seed}-")
    try:
        async with load.running():
            await load.advance()
            async with AsyncExitStack() as faults:
                for name in names:
                    fault = await asyncio.to_thread(FAULTS[name], cluster, chance)
                    await faults.enter_async_context(fault)
            await asyncio.to_thread(cluster.wait_for_s3)
            await asyncio.to_thread(cluster.wait_for_nats)
            await asyncio.to_thread(cluster.wait_until_ready)
            await asyncio.to_thread(cluster.wait_until_owned)
            await load.advance(100)
            await until(lambda: asyncio.to_thread(is_ready, cluster))
        await load.read_all()
    except BaseException as error:
        error.add_note(f"seed {seed}: {', '.join(names)}")
        raise
    finally:
        load.close()
    assert_correct(load.recorder.calls)


def is_ready(cluster: WiredCluster) -> bool:
    """Say whether no node tells of a problem, any more."""
    urls = [f"{cluster.url(number)}/readyz" for number in range(3)]
    try:
        said = [httpx2.get(url, timeout=PATIENCE_SECONDS).json()["status"] for url in urls]
    except httpx2.TransportError:  # it is being started
        return False
    return said == ["ready"] * 3


def verified(cluster: WiredCluster) -> None:
    """Check every object of the bucket."""
    said = cluster.ds("verify", "--bucket-only", "--bucket", cluster.environment["DURABLE_SESSIONS_BUCKET"])
    assert "damaged" not in said


@pytest.mark.parametrize("names", [("owner cut from NATS", "S3 killed")], ids=" and ".join)
async def test_nothing_is_lost_under_faults(wired: WiredCluster, names: Sequence[str]) -> None:
    await under(wired, names, seed=1)
    verified(wired)


async def test_a_node_without_nats_passes_on_to_the_next_owners(wired: WiredCluster) -> None:
    number = nodes_by_share(wired)[0]
    paths = [f"/v1/stream/passed-on-{each}" for each in range(8)]  # in all partitions
    for path in paths:
        created = httpx2.put(wired.url(number) + path, headers=JSON, timeout=PATIENCE_SECONDS)
        assert created.status_code == 201
    async with cut(wired.nats_of(number), seconds=0), httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as client:

        async def is_passed_on(path: str) -> bool:
            answer = await client.post(wired.url(number) + path, json="through it")
            assert answer.status_code in (204, 503), answer.text
            return answer.status_code == 204

        for path in paths:
            await until(lambda path=path: is_passed_on(path))  # type: ignore[misc]
            assert (await client.get(f"{wired.url(number)}{path}?offset=-1")).status_code == 200
        said = (await client.get(f"{wired.url(number)}/readyz")).json()
        assert said["status"] == "degraded", said
    assert number not in wired.owners().values()
    await until(lambda: asyncio.to_thread(is_ready, wired))


async def test_nodes_say_which_settings_differ(wired: WiredCluster) -> None:
    node = wired.nodes[2]
    async with stopped(node):
        node.environment["DURABLE_SESSIONS_EVENT_BYTES"] = "1000"
    problem = "settings are not those of node-2 (event_bytes)"
    await until(lambda: asyncio.to_thread(lambda: wired.ds("cluster", "status").count(problem) == 2))
    async with stopped(node):
        del node.environment["DURABLE_SESSIONS_EVENT_BYTES"]
    await until(lambda: asyncio.to_thread(is_ready, wired))


@pytest.mark.skipif(not SOAK, reason="takes minutes; to enable: make soak")
@pytest.mark.parametrize("name", FAULTS)
async def test_nothing_is_lost_under_a_fault(wired: WiredCluster, name: str) -> None:
    await under(wired, [name], seed=2 + list(FAULTS).index(name))


@pytest.mark.skipif(not SOAK, reason="takes minutes; to enable: make soak")
async def test_nothing_is_lost_under_pairs_of_faults(wired: WiredCluster) -> None:
    """Pairs of faults until the time is over; ``CLUSTER_SEED`` chooses which."""
    seed = int(os.environ.get("CLUSTER_SEED", "1000"))
    chance, ends = random.Random(seed), time.monotonic() + float(os.environ[SOAK_VARIABLE])
    while time.monotonic() < ends:
        seed += 1
        await under(wired, chance.sample(list(FAULTS), 2), seed)
    verified(wired)
