"""Nodes of a cluster in one process, with bucket and log in a directory: how partitions change hands."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import httpx2
import pytest

from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.cluster.heartbeat import Timing
from durable_sessions.cluster.placement import ClusterPlacement, Placements
from durable_sessions.errors import BucketError
from durable_sessions.http.api.sessions.page_tokens import UNSEALED
from durable_sessions.ids import RandomIds
from durable_sessions.log.shared import boottime
from durable_sessions.node import cluster_logs, cluster_node, hand_overs
from durable_sessions.node.cluster_node import ClusterNode
from durable_sessions.partition_id import SYSTEM, PartitionId
from durable_sessions.settings import Settings
from durable_sessions.tools.cluster.setup import ClusterSetup
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.anyio

TIMING = Timing(beat=0.2, quiet=0.8, suspect=0.8, dead=2.0, proof=1.5)
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
    monkeypatch.setattr(hand_overs, "STABLE_SECONDS", 0.0)
    a, b = await nodes.start("a"), await nodes.start("b")
    await until(lambda: any("b" in owners for owners in nodes.owners().values()))
    with monkeypatch.context() as patched:
        patched.setattr(b._placements, "newest", away)
        await until(lambda: set(a.assigned.values()) == {a.id})
        await until(
            lambda: set(map(tuple, nodes.owners().values())) == {("a",)}
        )  # it has given away the rest
        patched.setattr(a._placements, "newest", away)
        await until(lambda: set(a.assigned.values()) == {a.id, b.id})  # then it makes no difference
    await until(lambda: not (a._no_bucket or b._no_bucket))
    await until(nodes.are_owned)


async def told(node: ClusterNode, path: str) -> httpx2.Response:
    async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as client:
        return await client.get(f"http://127.0.0.1:{node.server.port}{path}")


def figures(metrics: str, name: str) -> dict[str, float]:
    """Return the values of a metric, by their labels as they are written."""
    lines = re.findall(rf"^durable_sessions_{name}(?:{{(.*)}})? (\S+)$", metrics, re.MULTILINE)
    return {labels: float(value) for labels, value in lines}


async def test_metrics_and_readiness_say_what_a_node_owns(nodes: Nodes) -> None:
    a, b = await nodes.start("a"), await nodes.start("b")
    await until(nodes.are_owned)
    await until(lambda: all(x.members.owner(n, boottime()) for x in (a, b) for n in x.partitions))
    for node in (a, b):
        owned = {one.id.digits: one for one in node.owned.values()}
        answer = await told(node, "/readyz")
        assert (answer.status_code, answer.json()["status"]) == (200, "ready"), answer.text
        owners = answer.json()["owners"]
        assert set(owners) == {"00", "01", "sys"}
        for digits, said in owners.items():
            assert said["node"] == (node.name if digits in owned else ({"a", "b"} - {node.name}).pop())
            assert said["epoch"] >= 1
            assert ("proof_age_ms" in said) == ("flushed_through" in said) == (digits in owned)
        metrics = (await told(node, "/metrics")).text
        labels = {f'partition="{digits}"' for digits in owned}
        assert figures(metrics, "partition_owned") == dict.fromkeys(labels, 1.0)
        assert figures(metrics, "partition_epoch") == {
            f'partition="{digits}"': float(one.epoch) for digits, one in owned.items()
        }
        assert set(figures(metrics, "proof_age_seconds")) == labels
        published = figures(metrics, "log_publish_seconds_count")
        assert set(published) == labels
        assert all(published.values()), "at least its claim"
        assert figures(metrics, "takeovers_total") == {'reason="planned"': 0.0, 'reason="dead"': len(owned)}
        for name in ("takeover_seconds", "handover_pause_seconds", "requests_held", "clock_skew_seconds"):
            assert set(figures(metrics, name)) == {""}
        assert figures(metrics, "handovers_total") == figures(metrics, "frames_fenced_total") == {"": 0.0}
    given = len(a.owned)
    await nodes.stop("a")
    await until(nodes.are_owned)
    metrics = (await told(b, "/metrics")).text
    assert figures(metrics, "takeovers_total") == {'reason="planned"': given, 'reason="dead"': 3 - given}


class Unconfirmed:
    """The proof of keys that nobody confirms."""

    def is_fresh(self) -> bool:
        return False

    async def renew(self) -> None:
        pass


async def test_a_node_whose_keys_are_not_confirmed_is_not_ready(
    nodes: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = await nodes.start("a")
    await until(nodes.are_owned)
    assert (await told(node, "/readyz")).status_code == 200
    with monkeypatch.context() as patched:
        patched.setattr(node._process.keys, "proof", Unconfirmed())
        answer = await told(node, "/readyz")
        assert (answer.status_code, answer.json()["status"]) == (503, "not ready")
        assert answer.json()["reason"] == "the keys are not confirmed"
        assert (await told(node, "/livez")).status_code == 200
    assert (await told(node, "/readyz")).status_code == 200


async def test_a_page_token_of_one_node_is_taken_by_all_and_made_by_nobody_else(nodes: Nodes) -> None:
    a, b = await nodes.start("a"), await nodes.start("b")
    await until(nodes.are_owned)
    await until(lambda: a.front is not None and b.front is not None)
    async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as client:
        for name in ("one", "two", "three"):
            url = f"http://127.0.0.1:{a.server.port}/v1/sessions/{name}"
            assert (await client.put(url, json={})).status_code == 201
    first = (await told(a, "/v1/sessions?limit=2")).json()
    second = (await told(b, f"/v1/sessions?limit=2&page={first['next_page']}")).json()
    assert sorted(one["id"] for one in first["data"] + second["data"]) == ["one", "three", "two"]
    forged = await told(b, f"/v1/sessions?page={UNSEALED.token([True, False, [0, 0]])}")
    assert forged.status_code == 400
    assert "page is not one that this server gave" in forged.text
