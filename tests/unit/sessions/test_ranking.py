"""Sessions sorted by one of their times, page by page."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from durable_sessions.errors import TooManyToSortError
from durable_sessions.sessions import view
from durable_sessions.sessions.ranking import ranked
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.sort_key import SortKey
from tests.unit.sessions.world import SessionWorld
from tests.unit.storage.world import LIMITS

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    world = await SessionWorld(tmp_path, replace(LIMITS, active_streams_max=0, sorted_sessions_max=5)).open()
    for name, day in (("c", 3), ("a", 1), ("d", 4), ("b", 2), ("a2", 1)):
        await world.send(name, {"type": "note", "created_at": f"2020-01-0{day}T00:00:00Z"})
    yield world
    await world.close()


async def names(
    world: SessionWorld, limit: int, after: SortKey | None = None, *, newest_first: bool = False
) -> tuple[list[str], SortKey | None]:
    found = await ranked(
        world.sessions,
        "default",
        view.last_active_ms,
        after,
        limit,
        lambda one: True,
        lambda one: session_of(one.stream.key).encode(),
        newest_first=newest_first,
    )
    last = found.sessions[-1][0] if found.more else None
    return [shown.decode() for _, shown in found.sessions], last


@pytest.mark.parametrize("flushed", [False, True])
@pytest.mark.parametrize("limit", [1, 2, 4, 5, 9])
async def test_pages_together_are_all_sessions_in_order(
    world: SessionWorld, limit: int, flushed: bool
) -> None:
    if flushed:
        await world.flush()
        await world.reopen()
    for newest_first, expected in ((False, ["a", "a2", "b", "c", "d"]), (True, ["d", "c", "b", "a2", "a"])):
        seen: list[str] = []
        after: SortKey | None = None
        while True:
            page, after = await names(world, limit, after, newest_first=newest_first)
            seen += page
            assert len(page) <= limit
            if after is None:
                break
        assert seen == expected


async def test_too_many_sessions_are_not_sorted(world: SessionWorld) -> None:
    assert len((await names(world, 9))[0]) == 5
    await world.send("one-more", {"type": "note"})
    with pytest.raises(TooManyToSortError, match="more than 5 sessions"):
        await names(world, 9)
