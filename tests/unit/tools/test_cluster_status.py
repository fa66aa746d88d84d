"""What ``ds cluster status`` and ``check`` find out: who lives, who owns what, and which server is unsafe."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from durable_sessions.bucket.cluster_description import ClusterDescription
from durable_sessions.bucket.partition_layout import PartitionLayout, ensure_layout
from durable_sessions.bucket.store import Bucket
from durable_sessions.cluster.heartbeat import NodeHeartbeat, PartitionBeat, Timing
from durable_sessions.errors import LogError
from durable_sessions.partition_id import PartitionId
from durable_sessions.tools.cluster.servers import server_problems
from durable_sessions.tools.cluster.status import ClusterStatus, cluster_status


@dataclass
class Channel:
    """Gives a list of heartbeats at each opening; the last list stays."""

    heard: list[list[bytes]]

    async def open(self, hear: Callable[[bytes], None]) -> None:
        for data in self.heard.pop(0) if len(self.heard) > 1 else self.heard[0]:
            hear(data)


@dataclass
class Slots:
    """What a log says of itself."""

    begins_after: int = 3
    last: int = 9
    stored_bytes: int = 700


@dataclass
class Logs:
    """The logs of a cluster without the servers behind them."""

    bucket: Bucket
    channel: Channel
    wire: object = None
    timing: Timing = field(
        default_factory=lambda: Timing(beat=0.001, quiet=5.0, suspect=5.0, dead=60.0, proof=3.0)
    )
    description: ClusterDescription = field(
        default_factory=lambda: ClusterDescription(name="blue", log="bucket", lineage="log_1")
    )
    lost: frozenset[int] = frozenset()

    async def slots(self, partition: PartitionId) -> Slots:
        if partition.number in self.lost:
            raise LogError(reason="no servers answer")
        return Slots()


def beat(node: str, number: int, *partitions: PartitionBeat) -> bytes:
    return NodeHeartbeat(node, f"name-{node}", "c:1", number=number, partitions=partitions).encode()


async def status(folder: Path, *heard: list[bytes], **more: Any) -> ClusterStatus:
    bucket = await Bucket.open(folder / "bucket")
    await ensure_layout(bucket, PartitionLayout(partitions=2))
    return await cluster_status(Logs(bucket, Channel(list(heard)), **more), 1_000)  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_in_a_bucket_only_a_heartbeat_that_has_changed_is_of_a_live_node(tmp_path: Path) -> None:
    found = await status(tmp_path, [beat("a", 1), beat("dead", 7), b"{"], [beat("a", 2), beat("dead", 7)])
    assert [node.name for node in found.nodes] == ["name-a"]
    assert found.name == "blue"


@pytest.mark.anyio
async def test_the_owner_is_the_one_with_the_newest_claim(tmp_path: Path) -> None:
    def said(number: int) -> list[bytes]:
        return [
            beat("a", number, PartitionBeat(0, owns=True, epoch=4)),
            beat("b", number, PartitionBeat(0, owns=True, epoch=5, moving_to="c")),
            beat("c", number, PartitionBeat(0, catalog=12)),
        ]

    found = await status(tmp_path, said(1), said(2))
    one = next(partition for partition in found.partitions if partition.number == 0)
    assert (one.owner, one.epoch, one.moving_to, one.shadows) == ("name-b", 5, "name-c", ["name-c"])
    assert (one.log_begins_after, one.log_ends_at, one.log_bytes, one.log_problem) == (3, 9, 700, None)
    other = next(partition for partition in found.partitions if partition.number == 1)
    assert (other.owner, other.epoch, other.shadows, other.manifest) == (None, 0, [], 0)


@pytest.mark.anyio
async def test_a_log_that_cannot_be_asked_leaves_the_others(tmp_path: Path) -> None:
    found = await status(tmp_path, [], lost=frozenset({1}))
    problems = {partition.number: partition.log_problem for partition in found.partitions}
    assert "no servers answer" in str(problems.pop(1))
    assert set(problems.values()) == {None}


# The servers of NATS --------------------------------------------------------------------


@contextmanager
def monitoring(answer: bytes) -> Iterator[str]:
    """Run the monitoring of a server; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/varz" else 404)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


SYNCS = {"jetstream": {"config": {"sync_always": True}}}


@pytest.mark.parametrize(
    ("varz", "problems"),
    [
        ({"version": "2.12.3", **SYNCS}, []),
        ({"version": "2.13.0-RC.1", **SYNCS}, []),
        ({"version": "2.12.2", **SYNCS}, ["it is version 2.12.2; use 2.12.3 or later"]),
        ({"version": "2.12.3"}, ["JetStream is not enabled"]),
        ({"version": "2.12.3", "jetstream": {"config": None}}, ["JetStream is not enabled"]),
        (
            {"version": "2.12.3", "jetstream": {"config": {"sync_interval": 120}}},
            ["it acknowledges before it syncs: set sync_interval: always in its jetstream block"],
        ),
        ({}, ["it is version None; use 2.12.3 or later", "JetStream is not enabled"]),
    ],
)
def test_a_server_that_could_lose_what_it_acknowledged_is_told(
    varz: dict[str, Any], problems: list[str]
) -> None:
    with monitoring(msgspec.json.encode(varz)) as address:
        assert server_problems(address) == problems


def test_a_server_whose_monitoring_cannot_be_read_is_told() -> None:
    with monitoring(b"<html>") as address:
        (problem,) = server_problems(address)
        assert problem.startswith("its monitoring cannot be read: ")
    (problem,) = server_problems(address)
    assert problem.startswith("its monitoring cannot be read: ConnectError")
