"""Lists of sessions by a slot cost what they find: forks of sessions that never held it are not looked at."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from durable_sessions.sessions.change import By
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.record import Record
from durable_sessions.storage.durable_stream import DurableStream
from durable_sessions.storage.slot_holders import SlotHolders
from durable_sessions.streams.create import Fork
from durable_sessions.tier import slot_tables
from tests.unit.sessions.world import SessionWorld, key

pytestmark = pytest.mark.anyio
OTHERS = 300
HOLDERS = ["own", "taken-1", "taken-2", "below"]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    world = await SessionWorld(tmp_path).open()
    yield world
    await world.close()


async def fork(world: SessionWorld, name: str, source: str, anchor: int | None = None) -> None:
    request = NewSession(Record(), "me", fork=Fork(f"sessions/{source}", anchor))
    await world.sessions.create(key(name), request, 0)


async def fill(world: SessionWorld) -> None:
    """Make few sessions that hold the slot "rare", and many forks, also below a holder, that do not."""
    await world.send("common", {"type": "row", "slot": "head"})
    await world.send("source", {"type": "row"})
    await fork(world, "before", "source")
    await world.send("source", {"type": "row", "slot": "rare"})
    for name in ("taken-1", "taken-2", "emptied"):
        await fork(world, name, "source")
    await world.send("source", {"type": "row", "slot": "rare", "slot_empty": "keep"})
    await world.send("emptied", {"type": "row", "slot_prefix": "ra", "slot_empty": "keep"})
    await fork(world, "below", "taken-1")
    await fork(world, "after", "source")
    await world.send("own", {"type": "row", "slot": "rare"})
    for number in range(OTHERS):
        await fork(world, f"other-{number}", "common")
    await world.sessions.delete(key("source"), By("me"))


def holders(world: SessionWorld, *, newest_first: bool) -> list[str]:
    found: list[str] = []
    after: int | None = None
    more = True
    while more:
        page, after = world.partition.holders("default", "rare", after, 2, newest_first=newest_first)
        found += [one.stream.key.path.removeprefix("sessions/") for one in page.streams]
        more = page.more
    return found


@pytest.mark.parametrize("where", ["flushed", "restarted", "without the catalog", "too many to look up"])
async def test_a_list_looks_at_the_families_of_holders_only(
    world: SessionWorld, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await fill(world)
    assert sorted(holders(world, newest_first=True)) == sorted(HOLDERS), "before any flush"
    await world.flush()
    if where != "flushed":
        await world.reopen(forget_catalog=where == "without the catalog")
    is_large = where == "too many to look up"
    if is_large:
        monkeypatch.setattr(slot_tables, "FAMILY_MAX", 2)
    looked: list[str] = []
    holds = SlotHolders._holds

    def counted(self: SlotHolders, durable: DurableStream, slot: str) -> bool:
        looked.append(durable.stream.key.path)
        return holds(self, durable, slot)

    monkeypatch.setattr(SlotHolders, "_holds", counted)
    created = ["taken-1", "taken-2", "below", "own"]
    assert holders(world, newest_first=False) == created
    assert holders(world, newest_first=True) == created[::-1]
    if is_large:
        assert len(looked) > 2 * OTHERS
    else:
        assert len(looked) <= 2 * 8, "each way the seven streams of the family, and the own holder"
    await fork(world, "new", "own")
    await world.send("other-7", {"type": "row", "slot": "rare"})
    assert sorted(holders(world, newest_first=True)) == sorted([*HOLDERS, "new", "other-7"])
    await world.sessions.delete(key("taken-1"), By("me"))
    await world.flush()
    assert sorted(holders(world, newest_first=True)) == ["below", "new", "other-7", "own", "taken-2"]
