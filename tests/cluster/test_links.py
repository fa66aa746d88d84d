"""Links of a real cluster: encrypted, their secret replaced node by node under load, and one of them away."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path

import httpx2
import msgspec
import pytest
from tools.local_cluster import CLUSTER, LocalCluster, free_ports

from durable_sessions.bucket.store import Bucket
from durable_sessions.cluster.placement import NO_PLACEMENT, Placements
from durable_sessions.partition_id import SYSTEM
from durable_sessions.streams.partition_map import home_partition
from tests.cluster.conftest import require_servers
from tests.cluster.test_cluster import judged
from tests.support.authority import Authority
from tests.support.client import JSON
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

SECRET, FILE = "DURABLE_SESSIONS_CLUSTER_SECRET", "DURABLE_SESSIONS_CLUSTER_SECRET_FILE"
PREVIOUS = "DURABLE_SESSIONS_CLUSTER_SECRET_PREVIOUS"


class EncryptedCluster(LocalCluster):
    """Nodes with certificates of one authority, whose secret is in a file."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, free_ports(3))
        self.authority = Authority(directory / "authority")
        self.old = self.environment.pop(SECRET)
        self.environment[FILE] = str(directory.absolute() / "secret")

    def node_environment(self, number: int) -> Mapping[str, str]:
        certificate, key = self.authority.certify(f"node-{number}")
        return {
            **self.environment,
            "DURABLE_SESSIONS_LINK_CA": str(self.authority.file),
            "DURABLE_SESSIONS_LINK_CERTIFICATE": str(certificate),
            "DURABLE_SESSIONS_LINK_KEY": str(key),
        }

    async def restart(self, **changed: str | None) -> None:
        """Restart one node after the other with other settings; None takes one away."""
        for number, node in enumerate(self.nodes):
            assert await asyncio.to_thread(node.stop) == 0
            for name, value in changed.items():
                node.environment.pop(name, None)
                if value is not None:
                    node.environment[name] = value
            node.start()
            await asyncio.to_thread(self.wait_until_ready, [number])
            await asyncio.to_thread(self.wait_until_owned)

    def problems(self) -> list[str]:
        """Return what the nodes tell that is wrong with them."""
        return [one.get("problem", "") for one in json.loads(self.ds("cluster", "status", "--json"))["nodes"]]


@pytest.fixture
def encrypted(tmp_path: Path) -> Iterator[EncryptedCluster]:
    require_servers()
    cluster = EncryptedCluster(tmp_path / "cluster")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop(politely=False)


async def test_a_secret_is_replaced_without_a_pause_on_encrypted_links(encrypted: EncryptedCluster) -> None:
    new = "the new secret of this cluster".replace(" ", "-") + "-0123456789"
    async with judged(encrypted, seed=5) as load:
        await load.advance()
        await encrypted.restart(**{FILE: None, SECRET: new, PREVIOUS: encrypted.old})
        await load.advance()
        assert await asyncio.to_thread(encrypted.problems) == ["", "", ""]
        await encrypted.restart(**{PREVIOUS: None})
        await load.advance()
    assert await asyncio.to_thread(encrypted.problems) == ["", "", ""]


class PartedCluster(LocalCluster):
    """Nodes with an authority each; the first and the second do not trust that of each other."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, free_ports(3), partitions=2)
        self._authorities = [Authority(directory / f"authority-{number}") for number in range(3)]

    def node_environment(self, number: int) -> Mapping[str, str]:
        distrusted = {0: 1, 1: 0}.get(number)
        trusted = [one for other, one in enumerate(self._authorities) if other != distrusted]
        bundle = self.directory / f"trusted-{number}.pem"
        bundle.write_bytes(b"".join(one.file.read_bytes() for one in trusted))
        certificate, key = self._authorities[number].certify(f"node-{number}")
        return {
            **self.environment,
            "DURABLE_SESSIONS_LINK_CA": str(bundle.absolute()),
            "DURABLE_SESSIONS_LINK_CERTIFICATE": str(certificate.absolute()),
            "DURABLE_SESSIONS_LINK_KEY": str(key.absolute()),
        }


OWNERS = {0: "node-0", 1: "node-1", SYSTEM: "node-2"}


@pytest.fixture
async def parted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PartedCluster]:
    """A cluster in which each node owns one partition, and the third is reached by both others."""
    require_servers()
    cluster = PartedCluster(tmp_path / "cluster")
    try:
        await asyncio.to_thread(cluster.start_servers)
        cluster.ds("cluster", "init", "--name", CLUSTER, "--partitions", "2")
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        bucket = await Bucket.open(cluster.environment["DURABLE_SESSIONS_BUCKET"])
        wanted = msgspec.structs.replace(NO_PLACEMENT, number=1, overrides=OWNERS)
        assert await Placements(bucket).replace(wanted)
        await asyncio.to_thread(cluster.start_nodes)
        await until(lambda: asyncio.to_thread(is_placed, cluster))
        yield cluster
    finally:
        await asyncio.to_thread(cluster.stop, politely=False)


def is_placed(cluster: LocalCluster) -> bool:
    return cluster.owners() == {"00": 0, "01": 1, "sys": 2}


async def test_without_a_link_only_what_is_behind_it_is_refused(parted: PartedCluster) -> None:
    names = {home_partition("default", name, 2): name for name in map(str, range(20))}
    async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as client:

        async def append(node: int, partition: int) -> httpx2.Response:
            return await client.post(f"{parted.url(node)}/v1/stream/{names[partition]}", json=node)

        for partition in (0, 1):
            path = f"/v1/stream/{names[partition]}"
            assert (await client.put(parted.url(2) + path, headers=JSON)).status_code == 201
            other = 1 - partition  # whose link to the owner is away
            assert (await append(partition, partition)).status_code == 204
            assert (await append(2, partition)).status_code == 204
            refused = await append(other, partition)
            assert (refused.status_code, "partition_unavailable" in refused.text) == (503, True)
            read = await client.get(f"{parted.url(other)}{path}?offset=-1")
            assert (read.status_code, "partition_unavailable" in read.text) == (503, True)
            for node in (partition, 2):
                read = await client.get(f"{parted.url(node)}{path}?offset=-1")
                assert read.json() == [partition, 2], "what was refused changed nothing"
    assert await asyncio.to_thread(is_placed, parted), "the owners live, so nobody takes over"
