"""Nodes that send clients to the owner of what they ask for."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import httpx2
import pytest
from tools.local_cluster import LocalCluster, free_ports

from durable_sessions.partition_id import PartitionId
from durable_sessions.streams.partition_map import home_partition
from tests.cluster.conftest import require_servers
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.chaos

KEY = "a key of all nodes, for this test".replace(" ", "-")
HEADERS = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"}


class RedirectingCluster(LocalCluster):
    """Nodes that clients reach one by one; their log is in the bucket."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, free_ports(3), with_nats=False)

    def node_environment(self, number: int) -> Mapping[str, str]:
        return {
            **self.environment,
            "DURABLE_SESSIONS_ROUTING": "redirect",
            "DURABLE_SESSIONS_PUBLIC_URL": self.url(number),
            "DURABLE_SESSIONS_API_KEY": KEY,
        }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RedirectingCluster]:
    require_servers()
    made = RedirectingCluster(tmp_path / "cluster")
    try:
        made.start()
        yield made
    finally:
        made.stop(politely=False)


def test_a_client_is_sent_to_the_owner_of_what_it_asks_for(cluster: RedirectingCluster) -> None:
    owners = cluster.owners()
    digits = {one.number: one.digits for one in PartitionId(0, cluster.partitions).all()}
    with httpx2.Client(timeout=PATIENCE_SECONDS, headers=HEADERS) as client:
        for name in ("one", "two", "three", "four", "five", "six"):
            path = f"/v1/stream/{name}"
            owner = owners[digits[home_partition("default", name, cluster.partitions)]]
            assert owner is not None
            for node in range(3):
                answer = client.put(cluster.url(node) + path)
                if node == owner:
                    assert answer.status_code in (200, 201), answer.text
                else:
                    assert (answer.status_code, answer.headers["Location"]) == (
                        307,
                        cluster.url(owner) + path,
                    )
                    assert client.put(answer.headers["Location"]).status_code in (200, 201)
            assert client.post(cluster.url(owner) + path, json=name).status_code == 204
            away = client.get(f"{cluster.url((owner + 1) % 3)}{path}?offset=-1")
            assert away.headers["Location"] == f"{cluster.url(owner)}{path}?offset=-1"
            assert client.get(away.headers["Location"]).json() == [name]
        for node in range(3):
            assert client.get(cluster.url(node) + "/v1/sessions").status_code == 200, (
                "it is about all partitions"
            )
            assert (
                client.get(
                    cluster.url(node) + "/v1/stream/one", headers={"Authorization": "Bearer no"}
                ).status_code
                == 401
            )
