"""Two servers on one data directory and one bucket, each with a partition of its own."""

from pathlib import Path

import httpx2
import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.errors import BucketRefusedError
from durable_sessions.partition_id import PartitionId
from durable_sessions.testing.server import LocalServer, local_server
from durable_sessions.tools.verify import verify
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio

ZERO, FIVE = PartitionId(0, of=8), PartitionId(5, of=8)


async def filled(server: LocalServer) -> tuple[list[str], str]:
    """Write to a session, flush, write more; return the ids of its events, and its ETag."""
    async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
        for text in ("flushed", "in the log"):
            answer = await client.post(
                "/v1/sessions/same/events", json={"events": [{"type": "user.message", "text": text}]}
            )
            assert answer.is_success, answer.text
            if text == "flushed":
                assert (await client.post("/v1/admin/flush")).is_success
        return await read(client)


async def read(client: httpx2.AsyncClient) -> tuple[list[str], str]:
    events = (await client.get("/v1/sessions/same/events")).json()["data"]
    (found,) = (await client.get("/v1/search", params={"q": "flushed"})).json()["data"]
    assert [hit["id"] for hit in found["hits"]] == [events[0]["id"]]
    stream = await client.get("/v1/stream/sessions/same", params={"offset": "-1"})
    return [event["id"] for event in events], stream.headers["etag"]


async def test_two_engines_have_everything_but_the_bucket_apart(tmp_path: Path) -> None:
    data, clock = tmp_path / "data", ManualClock()
    async with (
        local_server(data, clock=clock, partition=ZERO) as zero,
        local_server(data, clock=clock, partition=FIVE) as five,
    ):
        told = [await filled(server) for server in (zero, five)]
        assert len(told[0][0]) == len(told[1][0]) == 2
        assert set(told[0][0]).isdisjoint(told[1][0])
        assert told[0][1] != told[1][1]
        for server, before in zip((zero, five), told, strict=True):
            await server.restart()
            async with httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client:
                assert await read(client) == before
        for server, own in ((zero, ZERO), (five, FIVE)):
            streams = server.node.engine.partition._state.by_id
            assert [number for number in streams if streams[number].key.workspace] == [own.streams.start]
    bucket = five.node.engine.archive.bucket
    for own in (ZERO, FIVE):
        assert (await verify(bucket, own.directory(data), partition=own)).problems == []
        files = {path.name for path in own.directory(data).iterdir()}
        assert files >= {"catalog.sqlite", "log", "search"}
    with pytest.raises(BucketRefusedError, match="it has 8 partitions, not 1"):
        async with local_server(data):
            pass
