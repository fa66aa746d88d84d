"""A disk that is full, fails or is slow under a real server and load: fail stop, fail loud, lose nothing."""

import asyncio
import errno
from pathlib import Path

import httpx2
import pytest

from tests.support.load import Load
from tests.support.process import ServerProcess
from tests.support.shim import Shim
from tests.support.trial import (
    HASTY,
    HASTY_OPTIONS,
    TAIL_OPTIONS,
    Plan,
    newest_segment,
    refusal,
    trial,
    until,
)
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]

MIB = 2**20
BINARY = {"Content-Type": "application/octet-stream"}


def ready(server: ServerProcess) -> httpx2.Response:
    return httpx2.get(server.url + "/readyz", verify=False)


async def assert_stopped(server: ServerProcess, load: Load, reason: str) -> None:
    """Nothing is accepted any more, the server says so and why, and what was durable can still be read."""
    await until(lambda: ready(server).status_code == 503)
    assert reason in (await asyncio.to_thread(ready, server)).json()["reason"]
    assert await asyncio.to_thread(server.metric, "partition_stopped") == 1
    assert httpx2.get(server.url + "/livez", verify=False).status_code == 200
    before, appended = load.known.done["ReaderRole"], load.appended
    await until(lambda: load.known.done["ReaderRole"] > before + 20)
    assert load.appended == appended, "nothing is acknowledged that cannot be durable"


async def assert_heals(server: ServerProcess, load: Load, reopenings: float) -> None:
    """The same process takes appends again."""
    assert server.process is not None
    pid = server.process.pid
    await until(lambda: ready(server).status_code == 200)
    assert await asyncio.to_thread(server.metric, "log_reopenings_total") > reopenings
    assert await asyncio.to_thread(server.metric, "partition_stopped") == 0
    appended = load.appended
    await until(lambda: load.appended > appended + 20)
    assert server.process.poll() is None
    assert server.process.pid == pid


async def test_the_disk_is_full(tmp_path: Path, plan: Plan, shim: Shim) -> None:
    server = ServerProcess(tmp_path / "data", *TAIL_OPTIONS, environment=shim.environment)
    chance = plan.chance()
    async with trial(server, plan) as load:
        async for _ in plan.rounds():
            await load.advance()
            shim.limit_space(chance.randrange(20_000))
            await assert_stopped(server, load, "log failed")
            assert load.refusals("partition_stopped")
            await asyncio.to_thread(server.kill)
            assert "No space left on device" in await asyncio.to_thread(refusal, server)
            shim.free_space()
            await asyncio.to_thread(server.start)
        await load.advance()


async def test_a_full_disk_that_has_space_again_heals_without_a_restart(
    tmp_path: Path, plan: Plan, shim: Shim
) -> None:
    options = (*TAIL_OPTIONS, *HASTY_OPTIONS)
    server = ServerProcess(tmp_path / "data", *options, environment=shim.environment, limits=HASTY)
    chance = plan.chance()
    async with trial(server, plan) as load:
        async for number in plan.rounds():
            await load.advance()
            reopenings = await asyncio.to_thread(server.metric, "log_reopenings_total")
            shim.limit_space(chance.randrange(20_000))
            await assert_stopped(server, load, "log failed")
            if number % 2:  # it has been tried in vain, and that is told
                await until(lambda: "reopening" in ready(server).json())
            assert httpx2.get(server.url + "/livez", verify=False).status_code == 200
            shim.free_space()
            await assert_heals(server, load, reopenings)
        await load.advance()


async def test_a_sync_that_fails_once_heals_without_a_restart(tmp_path: Path, plan: Plan, shim: Shim) -> None:
    shim.control.directory = str(tmp_path / "data" / "log").encode()
    options = (*TAIL_OPTIONS, *HASTY_OPTIONS)
    server = ServerProcess(tmp_path / "data", *options, environment=shim.environment, limits=HASTY)
    async with trial(server, plan) as load:
        async for _ in plan.rounds():
            await load.advance()
            reopenings = await asyncio.to_thread(server.metric, "log_reopenings_total")
            shim.fail_syncs(1, errno.EIO)
            await until(lambda: server.metric("log_reopenings_total") > reopenings)  # noqa: B023
            await assert_heals(server, load, reopenings)
        await load.advance()


async def test_a_log_that_cannot_be_opened_again_ends_the_process(tmp_path: Path, shim: Shim) -> None:
    server = ServerProcess(tmp_path / "data", *TAIL_OPTIONS, environment=shim.environment)
    with server:
        for number in range(3):
            made = httpx2.put(
                f"{server.url}/v1/stream/s{number}", headers=BINARY, content=bytes(100), verify=False
            )
            assert made.status_code == 201
        shim.limit_space(0)
        answer = httpx2.post(f"{server.url}/v1/stream/s0", headers=BINARY, content=bytes(100), verify=False)
        assert answer.json()["error"]["code"] == "outcome_unknown"
        damaged = newest_segment(server.data)
        content = bytearray(damaged.read_bytes())
        content[60] ^= 0xFF  # in the first frame, which was acknowledged, and valid ones follow
        damaged.write_bytes(content)
        shim.free_space()
        assert server.process is not None
        assert await asyncio.to_thread(server.process.wait, 120) == 1
        said = server.log.read_text()
        assert "log_cannot_be_opened_again" in said
        assert "Traceback" not in said
        damaged.write_bytes(bytes(byte if at != 60 else byte ^ 0xFF for at, byte in enumerate(content)))
        await asyncio.to_thread(server.start)
        tail = httpx2.head(f"{server.url}/v1/stream/s0", verify=False)
        assert tail.status_code == 200


async def test_only_the_bucket_is_full(tmp_path: Path, plan: Plan, shim: Shim) -> None:
    shim.control.directory = str(tmp_path / "data" / "bucket").encode()
    options = (*TAIL_OPTIONS, *HASTY_OPTIONS, "--unflushed-bytes", "32KiB")
    server = ServerProcess(tmp_path / "data", *options, environment=shim.environment, limits=HASTY)
    async with trial(server, plan) as load:
        async for _ in plan.rounds():
            await load.advance()
            shim.limit_space(0)
            appended, refused = load.appended, load.refusals("overloaded")
            await until(lambda: load.refusals("overloaded") > refused)  # noqa: B023
            assert load.appended > appended, "until the cap appends go on"
            await until(lambda: server.metric("bucket_failing") == 1)
            shim.free_space()
            await until(lambda: server.metric("bucket_failing") == 0)
            await load.advance()


async def test_a_sync_fails(tmp_path: Path, plan: Plan, shim: Shim) -> None:
    shim.control.directory = str(tmp_path / "data" / "log").encode()
    server = ServerProcess(
        tmp_path / "data", *TAIL_OPTIONS, *HASTY_OPTIONS, environment=shim.environment, limits=HASTY
    )
    async with trial(server, plan) as load:
        async for number in plan.rounds():
            await load.advance()
            shim.fail_syncs(1_000_000, errno.EIO)
            await assert_stopped(server, load, "log failed")
            if number % 2:
                assert await asyncio.to_thread(server.terminate) == 0
            else:
                await asyncio.to_thread(server.kill)
            shim.fail_syncs(0)
            await asyncio.to_thread(server.start)
        await load.advance()


async def test_the_disk_is_slow(tmp_path: Path, plan: Plan, shim: Shim) -> None:
    server = ServerProcess(tmp_path / "data", *TAIL_OPTIONS, environment=shim.environment)
    async with trial(server, plan) as load:
        await load.advance()
        shim.slow_syncs(0.2)
        syncs = shim.control.syncs
        async for _ in plan.rounds():
            await load.advance(10)
        assert shim.control.syncs > syncs
        shim.slow_syncs(0)


async def test_beyond_the_limit_of_what_is_not_yet_durable(tmp_path: Path, plan: Plan, shim: Shim) -> None:
    server = ServerProcess(
        tmp_path / "data", "--memory-bytes", "8MiB", "--flush-bytes", "8MiB", environment=shim.environment
    )
    async with trial(server, plan) as load:
        async for number in plan.rounds(1):
            await load.advance()
            await overload(server, shim, f"/v1/stream/large-{number}")


async def overload(server: ServerProcess, shim: Shim, path: str) -> None:
    """Offer 1 GiB while no sync returns: most is refused, the rest becomes durable, memory is bounded."""
    body = bytes(8 * MIB)
    async with httpx2.AsyncClient(
        base_url=server.url,
        timeout=PATIENCE_SECONDS,
        verify=False,
        limits=httpx2.Limits(max_connections=None),
    ) as client:
        await client.put(path, headers=BINARY)
        before = peak_bytes(server)
        shim.hold_syncs(True)
        try:
            tasks = [asyncio.create_task(client.post(path, headers=BINARY, content=body)) for _ in range(128)]
            await until(lambda: sum(task.done() for task in tasks) > 64)
        finally:
            shim.hold_syncs(False)
        given = await asyncio.gather(*tasks, return_exceptions=True)
        cut = [error for error in given if isinstance(error, httpx2.TransportError)]
        answers = [answer for answer in given if isinstance(answer, httpx2.Response)]
        assert len(cut) + len(answers) == len(given), given
        refused = [answer for answer in answers if answer.status_code == 503]
        assert len(cut) + len(refused) > 64
        for answer in refused:
            assert (answer.json()["error"]["code"], answer.headers["retry-after"]) == ("overloaded", "1")
        accepted = sum(answer.status_code == 204 for answer in answers)
        assert accepted == len(answers) - len(refused)
        tail = int((await client.head(path)).headers["stream-next-offset"][17:])
        assert accepted <= tail / len(body) <= accepted + len(cut)
        assert peak_bytes(server) - before < 640 * MIB, "pending and half-received bodies are bounded"


def peak_bytes(server: ServerProcess) -> int:
    assert server.process is not None
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024
