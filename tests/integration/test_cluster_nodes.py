"""Nodes of a cluster in one process, with bucket and log in a directory: how partitions change hands."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.cluster.heartbeat import Timing
from durable_sessions.cluster.placement import ClusterPlacement, Placements
from durable_sessions.errors import BucketError
from durable_sessions.ids import RandomIds
from durable_sessions.node import cluster_logs, cluster_node, hand_overs
from durable_sessions.node.cluster_node import ClusterNode
from durable_sessions.partition_id import SYSTEM, PartitionId
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


async def away(*_: object) -> None:
    raise BucketError(reason="it is away")


def let_not_prepare(node: ClusterNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a node read no catalogs: it gets ready for nothing, and takes over what it must all the same."""
    keep = node.shadows.keep

    async def followed(wanted: Mapping[PartitionId, int]) -> None:
        await keep({})
        if wanted:
            await away()

    monkeypatch.setattr(node.shadows, "keep", followed)


async def test_a_partition_stays_where_it_is_until_the_next_owner_is_ready(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("STABLE_SECONDS", 0.0), ("PREPARE_SECONDS_MAX", 1.0), ("RETRY_SECONDS", 0.2)):
        monkeypatch.setattr(hand_overs, name, seconds)
    await nodes.wish(lambda placement: placement.drain("b"))
    a = await nodes.start("a")
    await until(nodes.are_owned)
    b = await nodes.start("b")
    with monkeypatch.context() as patched:
        let_not_prepare(b, patched)
        await nodes.wish(lambda placement: placement.undrain("b").moved(0, "b"))
        await until(lambda: "stays here" in a.problem)
        assert a.problem == "partition 00 stays here: b did not get ready for it in time"
        assert nodes.owners()[0] == ["a"]
        assert a.owned[0].epoch == 1, "it has not changed hands meanwhile"
    await until(lambda: nodes.owners()[0] == ["b"])
    await until(lambda: not a.problem)


async def test_a_node_that_stops_gives_its_partitions_to_one_that_is_ready(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_overs, "PREPARE_SECONDS_MAX", 10.0)
    a = await nodes.start("a")
    await until(nodes.are_owned)
    b, c = await nodes.start("b"), await nodes.start("c")
    await nodes.wish(lambda placement: placement.moved(0, "b").moved(1, "b").moved(SYSTEM, "b"))
    let_not_prepare(b, monkeypatch)
    await until(lambda: a.assigned == dict.fromkeys(a.partitions, b.id))
    epochs = {number: one.epoch for number, one in a.owned.items()}
    await nodes.stop("a")
    await until(lambda: nodes.owners() == {number: ["c"] for number in epochs})
    assert all(one.log.begins_after < epochs[number] < one.epoch for number, one in c.owned.items())


async def test_a_node_without_the_bucket_is_to_own_nothing(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = await nodes.start("a"), await nodes.start("b")
    await until(lambda: set(a.assigned.values()) == {a.id, b.id})
    with monkeypatch.context() as patched:
        patched.setattr(b._placements, "newest", away)
        await until(lambda: set(a.assigned.values()) == {a.id})
        patched.setattr(a._placements, "newest", away)
        await until(lambda: set(a.assigned.values()) == {a.id, b.id})  # then it makes no difference
    await until(lambda: not (a._no_bucket or b._no_bucket))
    await until(nodes.are_owned)
