"""Nodes of a cluster in one process, with bucket and log in a directory: how partitions change hands."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.cluster.heartbeat import Timing
from durable_sessions.cluster.placement import ClusterPlacement, Placements
from durable_sessions.ids import RandomIds
from durable_sessions.node import cluster_logs, cluster_node
from durable_sessions.node.cluster_node import ClusterNode
from durable_sessions.partition_id import SYSTEM
from durable_sessions.settings import Settings
from durable_sessions.tools.cluster.setup import ClusterSetup
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

TIMING = Timing(beat=0.2, suspect=0.8, dead=2.0, proof=1.5)
"""Faster than nodes are on a bucket."""
SECRET = "of thirty-two characters or more"


class Nodes:
    """Nodes by name on one bucket."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.running: dict[str, ClusterNode] = {}

    async def make(self) -> None:
        bucket = await Bucket.open(str(self._directory / "bucket"))
        await ClusterSetup(bucket, None, SystemClock(), RandomIds()).run("c", 10_000_000, 1, 2)

    async def start(self, name: str) -> ClusterNode:
        settings = Settings(
            data=self._directory / name,
            bucket=str(self._directory / "bucket"),
            cluster="c",
            cluster_secret=SECRET,
            node_name=name,
            link="127.0.0.1:0",
            port=0,
        )
        node = await ClusterNode.open(settings, settings.limits())
        await node.listen()
        self.running[name] = node
        return node

    async def stop(self, name: str) -> None:
        await self.running.pop(name).close()

    async def wish(self, change: Callable[[ClusterPlacement], ClusterPlacement]) -> None:
        """Change what the operator wishes."""
        placements = Placements(await Bucket.open(str(self._directory / "bucket")))
        assert await placements.replace(change(await placements.newest()))

    def owners(self) -> dict[int, list[str]]:
        """Return who answers for each partition."""
        return {
            number: [name for name, node in self.running.items() if node.serving(number) is not None]
            for number in (0, 1, SYSTEM)
        }

    def are_owned(self) -> bool:
        """Say whether every partition has an owner."""
        return all(self.owners().values())


@pytest.fixture
async def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Nodes]:
    monkeypatch.setattr(cluster_logs, "BUCKET_TIMING", TIMING)
    monkeypatch.setattr(cluster_node, "PLACEMENT_SECONDS", TIMING.beat)
    nodes = Nodes(tmp_path)
    await nodes.make()
    yield nodes
    for name in list(nodes.running):
        await nodes.stop(name)


async def test_a_node_that_is_drained_while_it_takes_partitions_over_claims_none(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = asyncio.Event()
    late = await nodes.start("late")
    finish = late.shadows.finish

    async def slowly(partition: int) -> None:
        await may_go_on.wait()
        await finish(partition)

    monkeypatch.setattr(late.shadows, "finish", slowly)
    await until(lambda: set(late._taking) == set(late.partitions))
    other = await nodes.start("other")
    await nodes.wish(lambda placement: placement.drain("late"))
    await until(nodes.are_owned)
    may_go_on.set()
    await until(lambda: not late._taking)
    assert not late.owned
    assert {one.epoch for one in other.owned.values()} == {1}, "each log was claimed once"
    assert nodes.owners() == {number: ["other"] for number in other.partitions}


async def test_a_node_that_stood_still_listens_before_it_claims(nodes: Nodes) -> None:
    """After a pause all others look dead, which says nothing about them."""
    node = await nodes.start("a")
    await until(nodes.are_owned)
    listened_since = max(one._listens_since for one in node._successions.values())
    assert all(node._is_wanted(number) for number in node.partitions)
    node._awake_at -= TIMING.dead
    assert not any(node._is_wanted(number) for number in node.partitions)
    await until(lambda: min(one._listens_since for one in node._successions.values()) > listened_since)
    assert all(node._is_wanted(number) for number in node.partitions)
