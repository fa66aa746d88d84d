"""Links of a real cluster: encrypted, and their secret is replaced node by node, under load."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tools.local_cluster import LocalCluster, free_ports

from tests.cluster.conftest import require_servers
from tests.cluster.test_cluster import judged
from tests.support.authority import Authority

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
