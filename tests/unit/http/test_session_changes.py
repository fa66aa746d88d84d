"""What has changed is told in portions that are bounded in number and bytes."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from durable_sessions.access.caller import Caller, Role
from durable_sessions.http.api.sessions.session_changes import SessionChangeFeed
from durable_sessions.limits import Limits
from tests.unit.sessions.world import SessionWorld
from tests.unit.storage.world import LIMITS

pytestmark = pytest.mark.anyio
CALLER = Caller("default", "me", Role.READER, None)
SIZE = 1_100


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    world = await SessionWorld(tmp_path).open()
    yield world
    await world.close()


def changes(world: SessionWorld, **limits: int) -> SessionChangeFeed:
    chosen: Limits = replace(LIMITS, live_list_seconds=0.0, **limits)
    made = SessionChangeFeed(world.sessions, chosen)
    world.partition.listen(made)
    return made


@pytest.mark.parametrize(("limits", "sizes"), [({"live_list_sessions_max": 2}, [2, 2, 1]), ({}, [5])])
async def test_a_portion_has_so_many_sessions(
    world: SessionWorld, limits: dict[str, int], sizes: list[int]
) -> None:
    followed = await changes(world, **limits).follow(CALLER)
    for number in range(5):
        await world.send(f"s{number}", {"type": "note"})
    portions = [await anext(followed) for _ in sizes]
    assert [len(portion.changed) for portion in portions] == sizes
    assert [portion.more for portion in portions] == [True] * (len(sizes) - 1) + [False]


async def test_a_portion_ends_before_it_is_too_large(world: SessionWorld) -> None:
    await world.send("s0", {"type": "note"})
    made = changes(world)
    followed = await made.follow(CALLER)
    await world.send("s0", {"type": "note"})
    size = len((await anext(followed)).changed[0][1])
    for bytes_max, expected in ((2 * size, 2), (2 * size - 1, 1), (1, 1)):
        followed = await changes(world, live_list_frame_bytes_max=bytes_max).follow(CALLER)
        for name in ("s1", "s2"):
            await world.send(name, {"type": "note"})
        assert len((await anext(followed)).changed) == expected


async def test_what_nobody_follows_is_not_kept(world: SessionWorld) -> None:
    made = changes(world)
    followed = await made.follow(CALLER)
    await followed.aclose()  # type: ignore[attr-defined]
    await world.send("s0", {"type": "note"})
    assert not made._consumers  # what it keeps
