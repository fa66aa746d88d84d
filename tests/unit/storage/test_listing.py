"""Listing streams that are flushed and still in memory costs what is listed, not what there is."""

from pathlib import Path

import pytest

from durable_sessions.storage.catalog_view import CatalogView
from durable_sessions.streams.stream import Stream
from tests.unit.storage.world import World

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("newest_first", [True, False])
async def test_a_page_reads_little_of_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, newest_first: bool
) -> None:
    world = await World(tmp_path).open()
    for number in range(60):
        await world.create(f"sessions/{number}", b'[{"type":"note"}]')
    await world.flush()
    read: list[Stream] = []
    page = CatalogView.page

    def counted(
        self: CatalogView, workspace: str, folder: str, after: int | None, limit: int, *, newest_first: bool
    ) -> list[Stream]:
        found = page(self, workspace, folder, after, limit, newest_first=newest_first)
        read.extend(found)
        return found

    monkeypatch.setattr(CatalogView, "page", counted)
    listed = world.partition.page("default", "sessions", None, 5, newest_first=newest_first)
    numbers = range(59, 54, -1) if newest_first else range(5)
    assert [one.stream.key.path for one in listed] == [f"sessions/{number}" for number in numbers]
    assert len(read) <= 10
    await world.close()
