"""Subscriptions in the bucket: a flush writes what has changed, and everything is there after a restore."""

import shutil
from dataclasses import replace
from pathlib import Path

import httpx2
import msgspec
import pytest

from durable_sessions.bucket.manifest import CheckpointInfo
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.storage import batch
from durable_sessions.streams.subscriptions import Subscriptions
from durable_sessions.testing.server import LocalServer, local_server
from durable_sessions.tier import subscription_objects

pytestmark = pytest.mark.anyio

JSON = {"Content-Type": "application/json"}
SUB = "/v1/stream/__ds/subscriptions/sub"
FEW = replace(DEFAULT_LIMITS, subscription_changes_max=3)


def sizes(server: LocalServer) -> list[tuple[str, int]]:
    found = subscription_objects.objects(server.node.engine.archive.manifest)
    return [(info.path.rpartition(".")[2], info.bytes) for info in found]


async def flush(client: httpx2.AsyncClient) -> None:
    assert (await client.post("/v1/admin/flush")).status_code == 200


async def link(client: httpx2.AsyncClient, *paths: str) -> None:
    assert (await client.post(f"{SUB}/streams", json={"streams": paths})).status_code == 204


async def test_one_more_link_does_not_write_the_others_again(tmp_path: Path) -> None:
    paths = [f"streams/{number:04d}/{'x' * 100}" for number in range(1_000)]
    async with (
        local_server(tmp_path / "data", bucket=str(tmp_path / "bucket"), limits=FEW) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        body = {"type": "pull-wake", "streams": paths, "wake_stream": "wakes"}
        assert (await client.put(SUB, json=body)).status_code == 201
        await flush(client)
        assert [kind for kind, _ in sizes(server)] == ["batch"]
        for number in range(3):
            await link(client, f"more/{number}")
            await flush(client)
        written = sizes(server)
        assert [kind for kind, _ in written] == ["batch", "changes", "changes", "changes"]
        assert written[0][1] > 100_000
        assert all(size < 1_000 for _, size in written[1:])
        await link(client, "more/3")
        await flush(client)
        assert [kind for kind, _ in sizes(server)] == ["batch"], "many changes are merged"
        await link(client, "more/4")
        await client.post("/v1/stream/events", headers=JSON, content=b"[1]")
        await flush(client)
        expected = (await client.get(SUB)).json()
        await server.stop()
        shutil.rmtree(tmp_path / "data")
        await server.start()
        assert (await client.get(SUB)).json() == expected
        assert len(expected["streams"]) == 1_005


async def test_what_an_earlier_version_wrote_is_read(tmp_path: Path) -> None:
    """It wrote all subscriptions at every flush, as one object."""
    async with (
        local_server(tmp_path / "data", bucket=str(tmp_path / "bucket")) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        body = {"type": "pull-wake", "streams": ["a", "b"], "wake_stream": "wakes"}
        assert (await client.put(SUB, json=body)).status_code == 201
        await flush(client)
        manifest = server.node.engine.archive.manifest
        assert set(manifest.extra) & {"subscriptions", "subscription_changes"} == {"subscriptions"}
        info = msgspec.json.decode(manifest.extra["subscriptions"], type=CheckpointInfo)
        data = await server.node.engine.archive.bucket.get(info.path)
        known = Subscriptions()
        for effect in batch.effects_of(data):
            known.apply(effect)
        assert b"".join(map(batch.encode, known.snapshot())) == data, "as the earlier version wrote it"
        await server.restart()
        assert [one["path"] for one in (await client.get(SUB)).json()["streams"]] == ["a", "b"]
        await link(client, "c")
        await flush(client)
        await server.restart()
        assert [one["path"] for one in (await client.get(SUB)).json()["streams"]] == ["a", "b", "c"]


async def test_a_merge_that_cannot_read_the_bucket_does_not_stop_the_flush(tmp_path: Path) -> None:
    async with (
        local_server(tmp_path / "data", bucket=str(tmp_path / "bucket"), limits=FEW) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        body = {"type": "pull-wake", "streams": ["a"], "wake_stream": "wakes"}
        await client.put(SUB, json=body)
        for number in range(4):
            await flush(client)
            await link(client, f"more/{number}")
        (whole,) = (tmp_path / "bucket" / "partitions/00/subscriptions").glob("*.batch")
        content = whole.read_bytes()
        whole.unlink()
        await flush(client)
        assert [kind for kind, _ in sizes(server)] == ["batch", *["changes"] * 4]
        whole.write_bytes(content)
        await link(client, "last")
        await flush(client)
        assert [kind for kind, _ in sizes(server)] == ["batch"]
        await server.restart()
        assert len((await client.get(SUB)).json()["streams"]) == 6
