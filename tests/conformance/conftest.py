"""Outside witnesses: the public conformance suite and the official clients, unmodified."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from durable_sessions.bucket.format import BucketFormat, ensure_format
from durable_sessions.bucket.store import Bucket
from tests.support.npm import installed
from tests.support.process import WORKERS, ServerProcess

HERE = Path(__file__).parent / "node"


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """Return a folder with the pinned packages, the suite and the client."""
    programs = ("server.test.mjs", "vitest.config.mjs", "client.mjs")
    return installed(HERE, "conformance", *programs, missing="the public conformance suite")


# Several workers divide a new directory themselves.
@pytest.fixture(params=[1, 3] if WORKERS == 1 else [1], ids=lambda partitions: f"{partitions} partitions")
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ServerProcess]:
    if request.param > 1:
        asyncio.run(divided(tmp_path / "data", request.param))
    with ServerProcess(tmp_path / "data", "--long-poll-seconds", "1") as running:
        yield running


async def divided(data: Path, partitions: int) -> None:
    """Make a bucket that has several partitions."""
    (data / "bucket").mkdir(parents=True)
    bucket = await Bucket.open(data / "bucket")
    await ensure_format(bucket, BucketFormat(partitions=partitions))
