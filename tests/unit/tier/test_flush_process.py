"""The flush process makes what the server would make, and whatever becomes of it, flushes go on."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from durable_sessions.limits import DEFAULT_LIMITS, Limits
from durable_sessions.storage import batch
from durable_sessions.streams.effects import (
    Effect,
    ErasedRecord,
    Name,
    RecordsAppended,
    RecordsErased,
    SlotChange,
    SlotsChanged,
    StreamCreated,
    StreamRemoved,
)
from durable_sessions.tier.catalog import Catalog, Change
from durable_sessions.tier.catalog_view import About
from durable_sessions.tier.flush_contents import FlushContents, flush_contents
from durable_sessions.tier.flush_process import FlushProcess
from tests.support.waiting import until

DAY_MS = 86_400_000
AT_MS = 20_000 * DAY_MS
ALL = replace(DEFAULT_LIMITS, flush_process_bytes_min=0)


def created(number: int, path: str) -> StreamCreated:
    return StreamCreated(number, "default", path, "application/json", AT_MS)


def appended(number: int, first: int, *names: Name) -> RecordsAppended:
    at_ms = AT_MS + first * DAY_MS
    return RecordsAppended(number, first, at_ms, (2,), None, None, False, b"1,", names)


def batches(*effects: Effect) -> list[bytes]:
    return [batch.encode(effect) for effect in effects]


BEFORE = batches(created(1, "kept"), created(2, "removed"), appended(1, 0), appended(2, 0))
AFTER = batches(
    appended(1, 1, Name("event-1", 1, 1, 7)),
    appended(1, 2),
    SlotsChanged(1, 1, (SlotChange(2, "head"),)),
    RecordsErased(1, AT_MS, (ErasedRecord(2, b"0,"),)),
    StreamRemoved(stream=2),
    created(3, "new"),
)


@asynccontextmanager
async def opened(directory: Path, limits: Limits = ALL) -> AsyncIterator[tuple[FlushProcess, Catalog]]:
    catalog, process = Catalog.create(directory / "catalog.sqlite", limits), FlushProcess(limits)
    try:
        first = flush_contents(BEFORE, catalog.writer, 1)
        await catalog.apply(Change(About(1, 1), states=first.states))
        yield process, catalog
    finally:
        await process.close()
        catalog.close()


def run(main: Callable[[], Awaitable[None]]) -> None:
    async def within() -> None:
        await main()

    asyncio.run(within())


def plain(found: FlushContents | None) -> object:
    assert found is not None
    return msgspec.to_builtins(found)


def test_it_makes_the_same_as_the_server_from_the_same_catalog(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as (process, catalog):
            here = flush_contents(AFTER, catalog.writer, 3)
            assert here.removed == [2]
            assert all((here.names, here.slots, here.erased))
            assert len(here.segments) == 2
            for _ in range(2):
                assert plain(await process.contents(catalog.path, AFTER, 3)) == plain(here)
            assert process.flushes == 2

    run(main)


def test_small_flushes_start_no_process(tmp_path: Path) -> None:
    async def main() -> None:
        size = sum(map(len, AFTER))
        limits = replace(DEFAULT_LIMITS, flush_process_bytes_min=size + 1)
        async with opened(tmp_path, limits) as (process, catalog):
            assert await process.contents(catalog.path, AFTER, 3) is None
            assert process.pid is None
            assert await process.contents(catalog.path, [*AFTER, batch.encode(appended(3, 0))], 3) is not None
            assert process.pid is not None

    run(main)


def test_a_process_that_died_is_replaced(tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(tmp_path) as (process, catalog):
            assert await process.contents(catalog.path, AFTER, 3) is not None
            died = process.pid
            assert died is not None
            os.kill(died, signal.SIGKILL)
            assert await process.contents(catalog.path, AFTER, 3) is None
            assert process.pid is None
            assert await process.contents(catalog.path, AFTER, 3) is not None
            assert process.pid not in (None, died)

    run(main)


def test_what_it_cannot_do_is_left_to_the_server(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with opened(tmp_path) as (process, catalog):
            assert await process.contents(catalog.path, [b"\x05\x00\x00\x00noise"], 3) is None
            assert "cannot go on" in capfd.readouterr().err
            assert await process.contents(tmp_path / "missing.sqlite", AFTER, 3) is None
            assert not (tmp_path / "missing.sqlite").exists()
            assert await process.contents(catalog.path, AFTER, 3) is not None

    run(main)


def test_one_that_hangs_is_killed(tmp_path: Path) -> None:
    async def main() -> None:
        limits = replace(ALL, flush_process_seconds_max=20.0)
        async with opened(tmp_path, limits) as (process, catalog):
            assert await process.contents(catalog.path, AFTER, 3) is not None
            hung = process.pid
            assert hung is not None
            os.kill(hung, signal.SIGSTOP)
            waiting = asyncio.create_task(process.contents(catalog.path, AFTER, 3))
            await asyncio.sleep(0.1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert process.pid is None
            with pytest.raises(ProcessLookupError):
                os.kill(hung, 0)

    run(main)


def test_one_that_takes_too_long_is_killed_and_the_server_told(tmp_path: Path) -> None:
    async def main() -> None:
        limits = replace(ALL, flush_process_seconds_max=0.0)
        async with opened(tmp_path, limits) as (process, catalog):
            assert await process.contents(catalog.path, AFTER, 3) is None
            assert process.pid is None

    run(main)


def test_it_ends_when_it_has_nothing_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        limits = replace(ALL, flush_process_idle_seconds=0.01)
        async with opened(tmp_path, limits) as (process, catalog):
            assert await process.contents(catalog.path, AFTER, 3) is not None
            await until(lambda: process.pid is None)
            assert await process.contents(catalog.path, AFTER, 3) is not None

    run(main)
