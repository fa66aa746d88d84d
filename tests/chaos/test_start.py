"""Starting on torn, damaged, read-only or missing files: cut what was never acknowledged, refuse the rest."""

import asyncio
import errno
import random
from pathlib import Path

import httpx2
import pytest

from durable_sessions.log.frame import HEADER_BYTES
from durable_sessions.log.scan import Frame, scan
from tests.support.client import JSON
from tests.support.process import ServerProcess
from tests.support.shim import Shim
from tests.support.trial import (
    HASTY,
    HASTY_OPTIONS,
    TAIL_OPTIONS,
    Plan,
    assert_sound,
    newest_segment,
    refusal,
    trial,
    until,
)

pytestmark = [pytest.mark.anyio, pytest.mark.chaos]


def frames(data: Path) -> list[Frame]:
    """Return the frames of the newest segment."""
    newest = newest_segment(data)
    return [frame for frame in scan(data / "log").frames() if frame.segment.path == newest]


def rubbish(chance: random.Random, content: bytes) -> bytes:
    """Return bytes that a crash may leave behind the last frame; ``content`` is the segment before it."""
    kind = chance.randrange(3)
    length = chance.randrange(1, 300)
    if kind == 0:
        return chance.randbytes(length)
    if kind == 1:
        return bytes(length)
    start = chance.randrange(HEADER_BYTES, len(content))
    return content[start : start + length]


async def kill_in_a_sync(server: ServerProcess, shim: Shim) -> None:
    """Kill the server when its last frame is written, not synced, and so not acknowledged."""
    shim.hold_syncs(True)
    asked = shim.control.syncs
    await until(lambda: shim.control.syncs > asked)
    await asyncio.to_thread(server.kill)
    shim.hold_syncs(False)


async def test_a_torn_end_is_cut(tmp_path: Path, plan: Plan, shim: Shim) -> None:
    shim.control.directory = str(tmp_path / "data" / "log").encode()
    server = ServerProcess(tmp_path / "data", *TAIL_OPTIONS, environment=shim.environment)
    chance = plan.chance()
    async with trial(server, plan) as load:
        async for number in plan.rounds():
            await load.advance()
            await kill_in_a_sync(server, shim)
            newest = newest_segment(server.data)
            content = newest.read_bytes()
            if number % 2:
                newest.write_bytes(content + rubbish(chance, content))
            else:
                last = frames(server.data)[-1]
                newest.write_bytes(content[: chance.randrange(last.offset + 1, len(content))])
            verified = await asyncio.to_thread(server.run, "verify", "--json")
            assert verified.returncode == 0, verified.stdout
            assert "torn" in verified.stdout, "it is a note, no problem"
            await asyncio.to_thread(server.start)


async def test_damage_is_refused_and_names_the_file_and_the_byte(tmp_path: Path, plan: Plan) -> None:
    server = ServerProcess(tmp_path / "data", *TAIL_OPTIONS)
    chance = plan.chance()
    async with trial(server, plan) as load:
        async for _ in plan.rounds():
            await load.advance()
            await asyncio.to_thread(server.kill)
            newest, found = newest_segment(server.data), frames(server.data)
            content = newest.read_bytes()
            hit = chance.choice(found[:-1])
            byte = chance.randrange(hit.offset, found[found.index(hit) + 1].offset)
            damaged = (
                content[:byte] + bytes([content[byte] ^ (1 << chance.randrange(8))]) + content[byte + 1 :]
            )
            newest.write_bytes(damaged)
            said = await asyncio.to_thread(refusal, server)
            assert f"{newest} is damaged at byte {hit.offset}" in said
            assert (await asyncio.to_thread(server.run, "verify")).returncode == 1
            assert newest.read_bytes() == damaged, "a refusal changes nothing"
            newest.write_bytes(content)
            await asyncio.to_thread(server.start)


async def test_the_log_is_read_only_or_gone(tmp_path: Path, plan: Plan, shim: Shim) -> None:
    server = ServerProcess(
        tmp_path / "data", *TAIL_OPTIONS, *HASTY_OPTIONS, environment=shim.environment, limits=HASTY
    )
    log, bucket = server.data / "log", server.data / "bucket"
    shim.control.directory = str(log).encode()
    async with trial(server, plan) as load:
        async for number in plan.rounds():
            await load.advance()
            await until(lambda: int(min(log.glob("*.log")).stem) > 0)  # the log is not all there is
            assert await asyncio.to_thread(server.terminate) == 0
            before = {path: path.read_bytes() for path in log.iterdir()}
            shim.refuse_changes(errno.EROFS)
            said = await asyncio.to_thread(refusal, server)
            assert str(log) in said
            assert "Read-only file system" in said
            assert {path: path.read_bytes() for path in log.iterdir()} == before
            shim.refuse_changes()
            bucket.rename(tmp_path / "away")
            assert "belongs to a bucket, and this one is empty" in await asyncio.to_thread(refusal, server)
            assert not bucket.exists(), "what a refused start has made is left behind"
            (tmp_path / "away").rename(bucket)
            # It was stopped in peace, so that all is in the bucket, and it goes on without its log.
            log.rename(tmp_path / f"log-{number}")
            await asyncio.to_thread(server.start)
        await load.advance()


def test_a_new_log_on_an_old_bucket_is_durable_from_its_first_append(tmp_path: Path, shim: Shim) -> None:
    server = ServerProcess(tmp_path / "data", environment=shim.environment)
    log = server.data / "log"
    shim.control.directory = str(log).encode()
    stream = server.url + "/v1/stream/s"
    with server:
        httpx2.put(stream, headers=JSON, content='["old"]', verify=False)
        assert server.terminate() == 0
        log.rename(tmp_path / "log")
        server.start()
        shim.hold_syncs(True)
        with pytest.raises(httpx2.TimeoutException):
            httpx2.post(stream, headers=JSON, content='["lost"]', verify=False, timeout=1)
        server.kill()
        shim.hold_syncs(False)
        assert newest_segment(server.data).stat().st_size <= HEADER_BYTES, "it was killed in its first append"
        server.start()
        assert httpx2.post(stream, headers=JSON, content='["new"]', verify=False).status_code == 204
        server.kill()
        server.start()
        assert httpx2.get(stream, verify=False).json() == ["old", "new"]
    assert_sound(server)
