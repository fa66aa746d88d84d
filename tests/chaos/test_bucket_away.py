"""S3 is killed, or hangs, under load: appends and hot reads go on, and all is flushed when it is back."""

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.load import Load
from tests.support.process import ServerProcess
from tests.support.s3 import S3Server, seaweedfs
from tests.support.trial import HASTY, TAIL_OPTIONS, Plan, refusal, restart, trial, until
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

OPTIONS = (*TAIL_OPTIONS, "--flush-bytes", "4KiB", "--flush-seconds", "0.1", "--unflushed-bytes", "32KiB")


@pytest.fixture(scope="module")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with seaweedfs(tmp_path_factory.mktemp("s3")) as server:
        yield server


def server_on(s3: S3Server, directory: Path) -> ServerProcess:
    environment = {**s3.environment, "DURABLE_SESSIONS_BUCKET": s3.url(directory.name)}
    limits = {**HASTY, "block_cache_bytes_max": 0}
    return ServerProcess(directory / "data", *OPTIONS, environment=environment, limits=limits)


async def assert_hot_goes_on_until_the_cap(load: Load) -> None:
    """Appends are acknowledged and reach live tails, until too much waits; then they are refused."""
    before, refused = dict(load.known.done), load.refusals("overloaded")
    for role in ("PlainRole", "ProducerRole", "FollowerRole", "PollerRole"):
        await until(lambda: load.known.done[role] > before.get(role, 0))  # noqa: B023
    await until(lambda: load.refusals("overloaded") > refused)


async def flush_all(server: ServerProcess) -> None:
    """Wait until everything that was durable is in the bucket."""
    await until(
        lambda: (
            httpx2.post(server.url + "/v1/admin/flush", verify=False, timeout=PATIENCE_SECONDS).status_code
            == 200
        )
    )
    await until(lambda: server.metric("bucket_failing") == 0)


async def test_s3_is_killed_and_comes_back(s3: S3Server, tmp_path: Path, plan: Plan) -> None:
    server = server_on(s3, tmp_path)
    async with trial(server, plan) as load:
        async for _ in plan.rounds(1):
            await load.advance(60)
            await flush_all(server)
            await restart(server)  # what was flushed is cold now
            await load.advance()
            s3.stop()
            try:
                await assert_hot_goes_on_until_the_cap(load)
                await until(lambda: server.metric("bucket_failing") == 1)
                ready = httpx2.get(server.url + "/readyz", verify=False)
                assert "failing_since_ms" in ready.json()["bucket"]
                failed = load.refusals("cold_read_failed")
                await until(lambda: load.refusals("cold_read_failed") > failed)  # noqa: B023
                await asyncio.to_thread(server.kill)
                assert "The bucket failed" in await asyncio.to_thread(refusal, server)
            finally:
                s3.start()
            await asyncio.to_thread(s3.wait_for_objects)
            await asyncio.to_thread(server.start)
            await flush_all(server)
            await load.advance()


async def test_s3_hangs_and_goes_on(s3: S3Server, tmp_path: Path, plan: Plan) -> None:
    server = server_on(s3, tmp_path)
    async with trial(server, plan, answer_seconds_max=2) as load:
        async for _ in plan.rounds(1):
            await load.advance()
            s3.process.send_signal(signal.SIGSTOP)
            try:
                await assert_hot_goes_on_until_the_cap(load)
            finally:
                s3.process.send_signal(signal.SIGCONT)
            await flush_all(server)
            await load.advance()
