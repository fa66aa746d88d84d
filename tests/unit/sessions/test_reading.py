"""Reading events page by page, beside plain lists."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.errors import EventNotFoundError
from durable_sessions.limits import Limits
from durable_sessions.sessions.reading import EventPage, EventReader
from durable_sessions.sessions.selection import EVERYTHING, Selection
from durable_sessions.storage.durable_stream import DurableStream
from durable_sessions.storage.turns import Turns
from durable_sessions.streams import messages
from tests.unit.sessions.world import SessionWorld, decoded, key
from tests.unit.storage.world import LIMITS


@dataclass
class Asked:
    """One read, and how it is bounded."""

    start: int
    stop: int
    limit: int
    types: tuple[str, ...]
    backwards: bool
    page_bytes: int
    scanned: int

    @property
    def selection(self) -> Selection:
        return Selection(types=self.types) if self.types else EVERYTHING

    def limits(self, base: Limits) -> Limits:
        return replace(
            base,
            page_bytes_max=self.page_bytes,
            scanned_events_max=self.scanned,
            read_chunk_bytes_max=max(1, self.page_bytes // 2),
        )


asked = st.builds(
    Asked,
    start=st.integers(0, 25),
    stop=st.integers(0, 25),
    limit=st.integers(1, 12),
    types=st.sampled_from([(), ("a",), ("a", "b"), ("none",)]),
    backwards=st.booleans(),
    page_bytes=st.sampled_from([1, 400, 900, 100_000]),
    scanned=st.sampled_from([1, 4, 50_000]),
)
appends = st.lists(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 300)), min_size=1, max_size=6), max_size=6
)


@settings(max_examples=25, deadline=None)
@given(appends, st.integers(0, 6), st.lists(asked, min_size=1, max_size=6))
def test_pages_together_are_what_a_list_would_give(
    batches: list[list[tuple[str, int]]], flushed: int, reads: list[Asked]
) -> None:
    asyncio.run(compare(batches, flushed, reads))


async def compare(batches: list[list[tuple[str, int]]], flushed: int, reads: list[Asked]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = await SessionWorld(Path(folder)).open()
        types: list[str] = []
        await world.send("s", {"type": "c", "n": -1, "text": ""})
        types.append("c")
        for number, batch in enumerate(batches):
            await world.send("s", *[{"type": kind, "n": number, "text": "x" * size} for kind, size in batch])
            types += [kind for kind, _ in batch]
            if number == flushed:
                await world.flush()
        durable = world.find("s")
        for one in reads:
            await follow(world, durable, types, one)
        await world.close()


async def follow(world: SessionWorld, durable: DurableStream, types: list[str], one: Asked) -> None:
    start, stop = sorted((min(one.start, len(types)), min(one.stop, len(types))))
    reader = EventReader(world.partition, one.limits(world.limits), Turns())
    found: list[int] = []
    for _ in range(200):
        page = await reader.page(durable, start, stop, one.limit, one.selection, backwards=one.backwards)
        positions = positions_of(page)
        check_bounds(page, positions, one)
        found += positions
        progress = stop - page.next if one.backwards else page.next - start
        assert progress > 0 or not page.more
        start, stop = (start, page.next) if one.backwards else (page.next, stop)
        if not page.more:
            break
    first, last = sorted((min(one.start, len(types)), min(one.stop, len(types))))
    expected = [at for at in range(first, last) if not one.types or types[at] in one.types]
    assert found == (expected[::-1] if one.backwards else expected)


def positions_of(page: EventPage) -> list[int]:
    events = decoded(b"".join(page.pieces))
    assert len(events) == page.count
    positions = [int(event["offset"][17:]) for event in events]
    assert page.positions is None or page.positions == positions
    return positions


def check_bounds(page: EventPage, positions: list[int], one: Asked) -> None:
    assert len(positions) <= one.limit
    assert sum(map(len, page.pieces)) <= one.page_bytes or page.count == 1
    if one.types and positions:
        assert max(positions) - min(positions) <= one.scanned + 1_000


# What a read touches ------------------------------------------------------------------------------


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    world = await SessionWorld(tmp_path).open()
    yield world
    await world.close()


class Counted:
    """The bucket, with the bytes counted that are fetched from it."""

    def __init__(self, world: SessionWorld) -> None:
        self.bytes = 0
        plain = world.store.get_range

        async def counted(path: str, start: int, length: int) -> bytes:
            data = await plain(path, start, length)
            self.bytes += len(data)
            return data

        world.store.get_range = counted  # type: ignore[method-assign]


@pytest.mark.anyio
async def test_the_last_events_of_a_large_session_cost_what_they_are(tmp_path: Path) -> None:
    limits = replace(LIMITS, flush_bytes_max=1 << 30)
    world = await SessionWorld(tmp_path, limits).open()
    text = "x" * 900
    for number in range(40):
        await world.send("s", *[{"type": "a", "n": number, "text": f"{text}{n}"} for n in range(250)])
    await world.flush()
    whole = sum(map(len, world.store.objects.values()))
    counted = Counted(world)
    durable = world.find("s")
    for start, backwards in ((durable.tail - 50, False), (0, True)):
        counted.bytes = 0
        reader = world.sessions.events
        page = await reader.page(durable, start, durable.tail, 50, backwards=backwards)
        assert page.count == 50
        assert counted.bytes < whole / 2 + 200_000, (counted.bytes, whole)
    await world.close()


@pytest.mark.anyio
async def test_large_events_are_not_gathered_in_masses_when_read_backwards(tmp_path: Path) -> None:
    """Of 300 events of 64 KiB a page of 1 MiB is wanted: not all of them pass through memory."""
    limits = replace(LIMITS, page_bytes_max=1 << 20, read_chunk_bytes_max=1 << 18)
    world = await SessionWorld(tmp_path, limits).open()
    for number in range(300):
        await world.send("s", {"type": "a", "n": number, "text": "x" * (1 << 16)})
    durable = world.find("s")
    read_bytes = 0
    plain = world.partition._reader.read

    async def counted(*arguments: object, **more: object) -> object:
        nonlocal read_bytes
        found = await plain(*arguments, **more)  # type: ignore[arg-type]
        read_bytes += len(found.data)
        return found

    world.partition._reader.read = counted  # type: ignore[method-assign, assignment]
    page = await world.sessions.events.page(durable, 0, durable.tail, 1000, backwards=True)
    assert 10 <= page.count <= 16
    assert page.more
    assert read_bytes < 4 << 20
    await world.close()


# One event ----------------------------------------------------------------------------------------


@pytest.mark.anyio
@pytest.mark.parametrize("flush", [False, True])
async def test_an_event_is_found_by_its_id(world: SessionWorld, flush: bool) -> None:
    await world.send("s", {"type": "a"}, {"type": "b", "id": "mine"}, {"type": "c"}, idempotency="k")
    await world.send("t", {"type": "x", "id": "sevt_00000000000000000000000001"})
    if flush:
        await world.flush()
        await world.reopen(forget_catalog=True)
    reader = world.sessions.events
    for position, event in enumerate(await world.events("s")):
        found, stored = await reader.by_id(world.find("s"), event["id"])
        assert (found, messages.cut(stored + b",")) == (position, [stored])
    assert (await reader.by_id(world.find("t"), "sevt_00000000000000000000000001"))[0] == 0
    (first, *_) = await world.events("s")
    for name in ("other", first["id"] + "x", first["id"].partition("_k")[0][:27], ""):
        with pytest.raises(EventNotFoundError):
            await reader.by_id(world.find("s"), name)
    assert key("s").path == "sessions/s"
