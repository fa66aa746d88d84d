"""What clients of a real cluster see while a part of it is away, and that all is there when it is back."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

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
        self.name = name
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
    made.environment |= {  # so that a few MiB leave memory, and a few more are all that may wait for S3
        "DURABLE_SESSIONS_MEMORY_BYTES": "1MiB",
        "DURABLE_SESSIONS_FLUSH_SECONDS": "1",
        "DURABLE_SESSIONS_UNFLUSHED_BYTES": "8MiB",
    }
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
        nodes = [part for part in parts if part in cluster.nodes]
        for part in parts:
            if part not in nodes:
                part.start()
        await asyncio.to_thread(cluster.wait_for_s3)
        await asyncio.to_thread(cluster.wait_for_nats)
        for node in nodes:  # they do not start without what they rest on
            node.start()
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


RECORD_BYTES, RECORDS_MAX = 200_000, 200


async def test_without_s3_what_left_memory_is_refused_and_appends_stop_at_a_limit(
    cluster: LocalCluster, client: httpx2.AsyncClient
) -> None:
    (stream, *_) = await streams(cluster, client, "old")
    url = cluster.url(0) + f"/v1/stream/{stream.name}"
    written = 0

    async def write() -> httpx2.Response:
        nonlocal written
        answer = await client.post(url, json=f"{written} {'x' * RECORD_BYTES}")
        written += answer.status_code == 204
        return answer

    while written < 30:
        assert (await write()).status_code == 204
    await until(lambda: asyncio.to_thread(is_flushed, cluster, stream.partition))
    async with away(cluster, [s3(cluster)]):
        old = await client.get(f"{url}?offset=-1")
        assert (old.status_code, old.json()["error"]["code"]) == (503, "cold_read_failed")
        while (answer := await write()).status_code == 204:
            assert written < RECORDS_MAX, "nothing says that too much waits for S3"
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "overloaded")
        assert "appends not yet in the bucket" in answer.text
        head = await client.head(url)
        assert head.status_code == 200
    assert [int(one.split()[0]) for one in (await everything(client, url))[1:]] == list(range(written))


def is_flushed(cluster: LocalCluster, partition: int) -> bool:
    """Say whether the bucket has all of a partition."""
    told = json.loads(cluster.ds("cluster", "status", "--json"))["partitions"]
    (one,) = [one for one in told if one["number"] == partition]
    return bool(one["flushed_through"] == one["log_ends_at"])


async def everything(client: httpx2.AsyncClient, url: str) -> list[Any]:
    """Read a stream from its beginning to its end."""
    found: list[Any] = []
    offset = "-1"
    while True:
        answer = await client.get(f"{url}?offset={offset}")
        assert answer.status_code == 200, answer.text
        found += answer.json()
        if answer.headers.get("Stream-Up-To-Date") == "true":
            return found
        offset = answer.headers["Stream-Next-Offset"]
