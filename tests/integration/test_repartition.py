"""Repartitioning a server's data: everything is as it was, over HTTP and in the bucket."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx2
import pytest

from durable_sessions.bucket.partition_layout import PartitionLayout, read_layout
from durable_sessions.bucket.store import Bucket
from durable_sessions.testing.server import LocalServer, local_server
from durable_sessions.tools.repartition import Repartition, Repartitioned
from durable_sessions.tools.verify import verify
from tests.support.keys import BOOTSTRAP, bearer
from tests.support.stopped import stopped
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio
SESSIONS = [f"session-{number}" for number in (1, *range(3, 12))]
ARTIFACT = f"/v1/artifacts/{sha256(b'artifact').hexdigest()}"
SUBSCRIPTION = "/v1/stream/__ds/subscriptions/sub"


def client_of(server: LocalServer) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS, headers=bearer(BOOTSTRAP))


async def fill(client: httpx2.AsyncClient, text: str) -> None:
    for name in SESSIONS:
        event = {"type": "user.message", "text": text, "id": f"{name}-{text}"}
        answer = await client.post(f"/v1/sessions/{name}/events", json={"events": [event]})
        assert answer.is_success, answer.text
    for number in (0, 2):
        path = f"/v1/stream/plain/{number}"
        await client.put(path, headers={"content-type": "text/plain"})
        answer = await client.post(path, content=text.encode(), headers={"content-type": "text/plain"})
        assert answer.is_success, answer.text


async def relate(client: httpx2.AsyncClient) -> None:
    """Make forks, one of them of a session that is deleted afterwards; a key, a subscription, an artifact."""
    for source, name in (("session-1", "fork-a"), ("fork-a", "fork-b"), ("session-2", "fork-c")):
        headers = {"Stream-Forked-From": f"/v1/sessions/{source}"}
        answer = await client.put(f"/v1/sessions/{name}", headers=headers, json={})
        assert answer.status_code == 201, answer.text
    for name in ("session-0", "session-2"):
        assert (await client.delete(f"/v1/sessions/{name}")).is_success
    headers = {"Stream-Forked-From": "/v1/stream/plain/1"}
    assert (await client.put("/v1/stream/plain/fork", headers=headers)).status_code == 201
    assert (await client.delete("/v1/stream/plain/1")).is_success
    made = await client.post("/v1/keys", json={"principal": "one", "role": "writer"})
    assert made.is_success, made.text
    body = {"type": "pull-wake", "pattern": "plain/*", "streams": ["plain/0"], "wake_stream": "wakes"}
    assert (await client.put(SUBSCRIPTION, json=body)).status_code == 201
    stored = await client.put(ARTIFACT, content=b"artifact", headers={"content-type": "text/plain"})
    assert stored.is_success, stored.text


async def read(client: httpx2.AsyncClient) -> dict[str, Any]:
    """Return what clients see of everything: bodies, ids, offsets, ETags."""
    found: dict[str, Any] = {}
    listed = (await client.get("/v1/sessions", params={"limit": 100})).json()["data"]
    for one in listed:
        one.pop("stats")  # it counts the seconds until now
    found["list"] = sorted(json.dumps(one, sort_keys=True) for one in listed)
    for name in (one["id"] for one in listed):
        answer = await client.get(f"/v1/sessions/{name}/events", params={"limit": 1000})
        found[name] = answer.json()["data"]
        stream = await client.get(f"/v1/stream/sessions/{name}", params={"offset": "-1"})
        found[f"stream of {name}"] = (
            stream.content,
            stream.headers["etag"],
            stream.headers["stream-next-offset"],
        )
    for number in ("0", "1", "2", "fork"):
        stream = await client.get(f"/v1/stream/plain/{number}", params={"offset": "-1"})
        if number == "1":
            assert stream.status_code == 410
            continue
        found[f"plain {number}"] = (
            stream.content,
            stream.headers["etag"],
            stream.headers["stream-next-offset"],
        )
    found["artifact"] = (await client.get(ARTIFACT)).content
    assert found["artifact"] == b"artifact"
    found["keys"] = (await client.get("/v1/keys")).json()["data"]
    subscription = (await client.get(SUBSCRIPTION)).json()
    found["subscription"] = {name: subscription[name] for name in ("type", "wake_stream", "streams")}
    found["links"] = sorted(json.dumps(link, sort_keys=True) for link in subscription["streams"])
    assert found["links"]
    for name in ("session-0", "session-2"):
        assert (await client.get(f"/v1/sessions/{name}")).status_code == 404
    return found


async def lists_all(client: httpx2.AsyncClient, newest: str, among: int) -> None:
    """Check that a list has every session once, the newest first, and the same ones on the way back."""
    pages: list[list[str]] = []
    given = {"limit": "4"}
    while True:
        answer = (await client.get("/v1/sessions", params=given)).json()
        pages.append([one["id"] for one in answer["data"]])
        if answer["next_page"] is None:
            break
        given = {"limit": "4", "page": answer["next_page"]}
    names = [name for page in pages for name in page]
    assert names[0] == newest
    assert len(set(names)) == len(names) == among
    back = answer["prev_page"]
    for page in pages[-2::-1]:
        answer = (await client.get("/v1/sessions", params={"limit": "4", "page": back})).json()
        assert [one["id"] for one in answer["data"]] == page
        back = answer["prev_page"]


async def divided(data: Path, partitions: int) -> Repartitioned:
    """Repartition a directory, and verify both generations."""
    bucket = await Bucket.open(data / "bucket")
    before = await read_layout(bucket)
    assert before is not None
    done = await Repartition(stopped(data), bucket, lambda step: None).run(partitions)
    await sound(data, before, log=False)
    await sound(data, done.layout)
    return done


async def sound(data: Path, layout: PartitionLayout, *, log: bool = True, killed: bool = False) -> None:
    """Verify all partitions. One killed in a flush has a catalog that lags; the next start makes it again."""
    bucket = await Bucket.open(data / "bucket")
    for one in layout.all:
        findings = await verify(bucket, one.directory(data) if log else None, partition=one)
        assert [str(problem) for problem in findings.problems] == []
        assert not log or killed or findings.checked["catalogs"] == 1, findings.notes


@pytest.mark.parametrize("counts", [(2, 1), (3, 2), (2, 3, 1)], ids=str)
async def test_everything_is_as_it_was(tmp_path: Path, counts: tuple[int, ...]) -> None:
    data = tmp_path / "data"
    async with local_server(data, api_key=BOOTSTRAP) as server, client_of(server) as client:
        await fill(client, "flushed")
        for name in ("session-0", "session-2"):
            await client.put(f"/v1/sessions/{name}", json={})
        text = {"content-type": "text/plain"}
        await client.put("/v1/stream/plain/1", headers=text, content=b"source")
        await client.post("/v1/admin/flush")
        await relate(client)
        await fill(client, "in the log")
        before = await read(client)
    for round_, count in enumerate(counts):
        done = await divided(data, count)
        assert (done.layout.partitions, done.layout.generation) == (count, round_ + 1)
        async with local_server(data, api_key=BOOTSTRAP) as server, client_of(server) as client:
            assert len(server.node.keepers) == (count + 1 if count > 1 else 1)
            assert await read(client) == before
            await fill(client, f"round {round_}")
            await client.post("/v1/sessions", json={"id": f"new-{round_}"})
            before = await read(client)
            await lists_all(client, newest=f"new-{round_}", among=len(SESSIONS) + 3 + round_ + 1)
            ids = [event["id"] for name in SESSIONS for event in before[name]]
            assert len(set(ids)) == len(ids)
    async with local_server(data, api_key=BOOTSTRAP) as server, client_of(server) as client:
        assert await read(client) == before
