"""What clients of a real cluster see while a part of it is away, and that all is there when it is back."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import httpx2
import pytest
from tools.local_cluster import LocalCluster, Part, free_ports

from durable_sessions.partition_id import PartitionId
from durable_sessions.streams.partition_map import home_partition
from tests.cluster.conftest import require_servers
from tests.support.client import JSON
from tests.support.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

CHANGED_NOTHING = ("partition_unavailable", "partition_moved", "ownership_unproven", "keys_unproven")


class Stream:
    """A stream, what was acknowledged of it, and what may be in it besides."""

    def __init__(self, cluster: LocalCluster, client: httpx2.AsyncClient, name: str) -> None:
        self._cluster = cluster
        self._client = client
        self._path = f"/v1/stream/{name}"
        self.partition = home_partition("default", name, cluster.partitions)
        self._acknowledged: list[int] = []
        self._tries = 0

    async def create(self) -> None:
        created = await self._client.put(self._cluster.url(0) + self._path, headers=JSON)
        assert created.status_code == 201

    async def append(self, node: int = 0) -> httpx2.Response:
        """Append the next number; note it if that is acknowledged."""
        self._tries += 1
        answer = await self._client.post(self._cluster.url(node) + self._path, json=self._tries)
        assert answer.status_code in (204, 503), answer.text
        if answer.status_code == 204:
            self._acknowledged.append(self._tries)
        elif not any(code in answer.text for code in CHANGED_NOTHING):
            assert "outcome_unknown" in answer.text
        return answer

    async def read(self, node: int = 0) -> httpx2.Response:
        """Read everything; what is answered has all that was acknowledged, in order."""
        answer = await self._client.get(f"{self._cluster.url(node)}{self._path}?offset=-1")
        assert answer.status_code in (200, 503), answer.text
        if answer.status_code == 200:
            found = answer.json()
            assert [one for one in found if one in self._acknowledged] == self._acknowledged
            assert found == sorted(set(found))
        return answer

    async def appends(self, node: int = 0) -> bool:
        """Say whether an append is acknowledged now."""
        return (await self.append(node)).status_code == 204

    async def is_read(self, node: int = 0) -> bool:
        """Say whether a read is answered now."""
        return (await self.read(node)).status_code == 200


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    require_servers()
    made = LocalCluster(tmp_path_factory.mktemp("degraded"), free_ports(3), partitions=2)
    try:
        made.start()
        yield made
    finally:
        made.stop(politely=False)


@pytest.fixture
async def client() -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as client:
        yield client


async def streams(cluster: LocalCluster, client: httpx2.AsyncClient, name: str) -> list[Stream]:
    """Return a stream in each partition, with an event."""
    found: dict[int, Stream] = {}
    number = 0
    while len(found) < cluster.partitions:
        number += 1
        stream = Stream(cluster, client, f"{name}-{number}")
        if stream.partition not in found:
            found[stream.partition] = stream
            await stream.create()
            await until(stream.appends)
    return list(found.values())


@asynccontextmanager
async def away(cluster: LocalCluster, parts: Sequence[Part]) -> AsyncIterator[None]:
    """Kill parts for the length of a block; afterwards every node answers again."""
    for part in parts:
        part.kill()
    try:
        yield
    finally:
        for part in parts:
            part.start()
        await asyncio.to_thread(cluster.wait_for_s3)
        await asyncio.to_thread(cluster.wait_for_nats)
        await asyncio.to_thread(cluster.wait_until_ready)
        await asyncio.to_thread(cluster.wait_until_owned)


def s3(cluster: LocalCluster) -> Part:
    assert cluster.s3 is not None
    return cluster.s3


async def all_there(found: Sequence[Stream]) -> None:
    """Check that every stream takes appends through any node, and still has what it had acknowledged."""
    for stream in found:
        for node in range(3):
            await until(lambda stream=stream, node=node: stream.appends(node))  # type: ignore[misc]
            await until(lambda stream=stream, node=node: stream.is_read(node))  # type: ignore[misc]


async def test_without_one_nats_server_all_goes_on(cluster: LocalCluster, client: httpx2.AsyncClient) -> None:
    found = await streams(cluster, client, "one-nats")
    async with away(cluster, [cluster.nats[0]]):
        await all_there(found)
    await all_there(found)


async def test_without_a_majority_of_nats_nothing_is_acknowledged_or_read(
    cluster: LocalCluster, client: httpx2.AsyncClient
) -> None:
    found = await streams(cluster, client, "no-nats")
    async with away(cluster, cluster.nats[:2]):
        for stream in found:
            for node in range(3):
                assert not await stream.appends(node)
                await until(lambda stream=stream, node=node: refused(stream, node))  # type: ignore[misc]
    await all_there(found)


async def refused(stream: Stream, node: int) -> bool:
    """Say whether a read is refused; for three seconds it may still be answered, with all there is."""
    answer = await stream.read(node)
    return answer.status_code == 503 and any(code in answer.text for code in CHANGED_NOTHING)


async def test_without_s3_recent_events_are_taken_and_read(
    cluster: LocalCluster, client: httpx2.AsyncClient
) -> None:
    found = await streams(cluster, client, "no-s3")
    async with away(cluster, [s3(cluster)]):
        for stream in found:
            for node in range(3):
                assert await stream.appends(node)
                assert await stream.is_read(node)
    await all_there(found)


async def test_a_take_over_waits_for_s3(cluster: LocalCluster, client: httpx2.AsyncClient) -> None:
    found = await streams(cluster, client, "take-over")
    owners = await asyncio.to_thread(cluster.owners)
    digits = {one.number: one.digits for one in PartitionId(0, cluster.partitions).all()}
    owner = owners[digits[found[0].partition]]
    assert owner is not None
    other = (owner + 1) % len(cluster.nodes)
    async with away(cluster, [s3(cluster), cluster.nodes[owner]]):
        for _ in range(3):  # each waits for an owner as long as a request may
            assert not await found[0].appends(other)
            assert not await found[0].is_read(other)
    await all_there(found)


async def test_without_s3_and_nats_nothing_is_acknowledged_and_nothing_lost(
    cluster: LocalCluster, client: httpx2.AsyncClient
) -> None:
    found = await streams(cluster, client, "neither")
    async with away(cluster, [s3(cluster), *cluster.nats[:2]]):
        for stream in found:
            assert not await stream.appends()
            await until(lambda stream=stream: refused(stream, 1))  # type: ignore[misc]
    await all_there(found)
