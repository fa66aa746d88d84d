"""Making the catalog anew: the same as before, by a few pieces of work per object and not per stream."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from durable_sessions.tier.catalog import Catalog
from tests.unit.storage.world import World

STREAMS = 40
JOBS_PER_OBJECT_MAX = 3


def test_a_rebuild_takes_few_jobs_however_many_streams_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[str] = []
    run = Catalog.run

    async def counted(self: Catalog, work: Callable[..., object], *arguments: object) -> object:
        jobs.append(work.__name__)
        return await run(self, work, *arguments)

    async def main() -> None:
        world = await World(tmp_path).open()
        for number in range(STREAMS):
            await world.create(f"s{number}", b"[1,2]")
        await world.flush()
        for number in range(STREAMS):
            await world.append(f"s{number}", b"[3]")
        await world.delete("s0")
        await world.flush()
        known, manifest = world.catalog(), world.archive.manifest
        monkeypatch.setattr(Catalog, "run", counted)
        await world.reopen(forget_catalog=True)
        assert world.catalog() == known
        assert len(jobs) <= JOBS_PER_OBJECT_MAX * (len(manifest.segments) + len(manifest.checkpoints) + 1)
        assert await world.read(f"s{STREAMS - 1}") == b"1,2,3,"
        await world.close()

    asyncio.run(main())
