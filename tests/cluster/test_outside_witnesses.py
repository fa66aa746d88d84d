"""The public conformance suite, unmodified, against a cluster: each of its connections is to another node."""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tools.local_cluster import LocalCluster, free_ports

from tests.cluster.conftest import require_servers
from tests.conformance.conftest import node_modules as node_modules
from tests.conformance.test_suite import suite_failures
from tests.support.cable import Cable
from tests.support.trial import SOAK_VARIABLE

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.conformance,
    pytest.mark.skipif(SOAK_VARIABLE not in os.environ, reason="takes minutes; to enable: make soak"),
]


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[LocalCluster]:
    """A cluster whose long-polls end soon, as the suite wants it."""
    require_servers()
    cluster = LocalCluster(tmp_path / "cluster", free_ports(3))
    cluster.environment["DURABLE_SESSIONS_LONG_POLL_SECONDS"] = "1"
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop(politely=False)


async def test_the_public_suite_passes_whole(
    impatient: LocalCluster, node_modules: Path, tmp_path: Path
) -> None:
    entrance = Cable(*impatient.ports)
    try:
        report = tmp_path / "report.json"
        failed = await asyncio.to_thread(suite_failures, entrance.url, node_modules, report)
    finally:
        entrance.close()
    assert not failed, "\n".join(failed)
