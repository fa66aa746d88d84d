"""Repartitioning with the bucket on real S3, also from another directory than the one that wrote it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from durable_sessions.bucket.store import Bucket
from durable_sessions.testing.server import local_server
from durable_sessions.tools.repartition import Repartition
from durable_sessions.tools.verify import verify_all
from tests.support.s3 import S3Server, seaweedfs
from tests.support.stopped import stopped
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio
SESSIONS = [f"session-{number}" for number in range(6)]


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with seaweedfs(tmp_path_factory.mktemp("s3")) as server:
        yield server


async def events(data: Path, bucket: str, write: str = "") -> dict[str, list[object]]:
    """Return the events of all sessions as a server shows them, after it has taken one more of each."""
    found: dict[str, list[object]] = {}
    async with (
        local_server(data, bucket=bucket) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=PATIENCE_SECONDS) as client,
    ):
        for name in SESSIONS:
            path = f"/v1/sessions/{name}/events"
            if write:
                event = {"type": "user.message", "text": write}
                assert (await client.post(path, json={"events": [event]})).is_success
            found[name] = (await client.get(path)).json()["data"]
    return found


async def test_a_bucket_on_s3_is_divided_and_joined(
    s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    data, location = tmp_path / "data", s3.url(tmp_path.name)
    before = await events(data, location, "first")
    bucket = await Bucket.open(location)
    for count in (2, 1):
        done = await Repartition(stopped(data), bucket, lambda step: None).run(count)
        findings = await verify_all(bucket, data, done.layout)
        assert findings.problems == []
        assert await events(data, location) == before
        before = await events(data, location, f"with {count}")
        # What was flushed when the server stopped is all that there is: a new directory begins with it.
        shutil.rmtree(data)
        assert await events(data, location) == before
