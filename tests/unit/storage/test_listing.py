"""Listing streams that are flushed and still in memory costs what is listed, not what there is."""

from dataclasses import replace
from pathlib import Path

import pytest

from durable_sessions.streams.effects import StreamDescribed
from tests.unit.storage.world import LIMITS, World, key

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("newest_first", [True, False])
async def test_a_page_reads_little_of_the_catalog(tmp_path: Path, newest_first: bool) -> None:
    world = await World(tmp_path).open()
    for number in range(60):
        await world.create(f"sessions/{number}", b'[{"type":"note"}]')
    await world.flush()
    for number in range(60, 120):
        await world.create(f"other/{number}", b'[{"type":"note"}]')
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    world.archive.catalog._reading.set_progress_handler(count, 10)
    listed = world.partition.folders.page("default", "sessions", None, 5, newest_first=newest_first)
    world.archive.catalog._reading.set_progress_handler(None, 0)
    numbers = range(59, 54, -1) if newest_first else range(5)
    assert [one.stream.key.path for one in listed.streams] == [f"sessions/{number}" for number in numbers]
    assert listed.more
    assert steps <= 20
    await world.close()


async def test_a_page_of_large_documents_is_a_short_one(tmp_path: Path) -> None:
    world = await World(tmp_path, replace(LIMITS, active_streams_max=0)).open()
    for number in range(5):
        await world.create(f"sessions/{number}", b'[{"type":"note"}]')
        stream = world.partition.find(key(f"sessions/{number}")).stream.id
        document: dict[str, bytes | None] = {"session": b"x" * 600_000}
        await world.partition.commit(
            lambda _, now_ms, stream=stream, said=document: ([StreamDescribed(stream, now_ms, said)], None)  # type: ignore[misc]
        )
    await world.flush()
    for _ in range(3):
        await world.partition.evict_idle()
    found: list[str] = []
    sizes: list[int] = []
    after: int | None = None
    while True:
        page = world.partition.folders.page("default", "sessions", after, 100, newest_first=False)
        found += [one.stream.key.path for one in page.streams]
        sizes.append(len(page.streams))
        if not page.more:
            break
        after = page.streams[-1].stream.id
    assert found == [f"sessions/{number}" for number in range(5)]
    assert sizes == [2, 2, 1]
    found = []
    for scanned in world.partition.stream_pages("sessions/", 100):
        assert len(scanned) <= 1, "each is more than a page"
        found += [one.stream.key.path for one in scanned]
    assert found == [f"sessions/{number}" for number in range(5)]
    assert world.archive.streams_after(-1, "others/", 100) == (5, [])
    await world.close()
