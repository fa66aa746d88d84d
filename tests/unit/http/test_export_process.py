"""The process that makes an export: whole files, and none that only look whole."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from durable_sessions.errors import ColdReadError
from durable_sessions.exporters.__main__ import frame
from durable_sessions.http.api.sessions.export_process import ExportProcess
from durable_sessions.threads import Pool
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.anyio
SESSION = b'{"id":"s","title":null,"metadata":{}}'
EVENT = b'{"id":"e","type":"note","text":"%b"}' % (b"x" * 10_000)


async def events(count: int, *, fails: bool = False) -> AsyncIterator[bytes]:
    yield frame(SESSION)
    for _ in range(count):
        yield frame(EVENT)
    if fails:
        raise ColdReadError(reason="the bucket is away")


async def test_a_file_comes_whole() -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        made = await ExportProcess.start(["jsonl"], events(1_000), Pool("test", 4))
        assert b"".join([piece async for piece in made]).count(EVENT + b"\n") == 1_000


async def test_what_cannot_be_read_or_made_is_no_whole_file() -> None:
    for words, frames in ((["jsonl"], events(100, fails=True)), (["no-such-format"], events(100))):
        async with asyncio.timeout(PATIENCE_SECONDS):
            made = await ExportProcess.start(words, frames, Pool("test", 4))
            with pytest.raises(asyncio.CancelledError):
                async for _ in made:
                    pass


async def test_who_goes_away_ends_the_process() -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        for reads in (0, 1):
            made = await ExportProcess.start(["jsonl"], events(100_000), Pool("test", 4))
            for _ in range(reads):
                await anext(made)
            await made.aclose()
            assert made._process.returncode is not None


async def test_a_start_that_nobody_waits_for_leaves_no_process() -> None:
    threads = Pool("test", 4)
    starting = asyncio.ensure_future(ExportProcess.start(["jsonl"], events(1), threads))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    await asyncio.to_thread(threads.shutdown)  # a process without an owner is a warning, which is an error
