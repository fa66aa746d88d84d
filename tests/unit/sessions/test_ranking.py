"""Lists of sessions by their times and by their metadata, compared with a plain sort of all of them."""

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.http.api.sessions.listing import by_metadata
from durable_sessions.http.api.sessions.sorted_pages import RANKINGS
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions import record
from durable_sessions.sessions.change import By
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.ranking import ranked
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.sort_key import SortKey
from durable_sessions.storage.door import StreamView
from tests.unit.sessions.world import SessionWorld, key
from tests.unit.storage.world import LIMITS

SORTS = (*RANKINGS, "created_at")
BY = By("me", False)
PAIRS_MAX = DEFAULT_LIMITS.indexed_pairs_max


def shown(one: StreamView) -> bytes:
    return session_of(one.stream.key).encode()


def metadata_of(one: StreamView) -> dict[str, Any]:
    found: dict[str, Any] = {
        name: json.loads(bytes(raw)) for name, raw in record.of(one.attributes).metadata.items()
    }
    return found


async def listed(
    world: SessionWorld, sort: str, limit: int, pairs: Mapping[str, str], *, newest_first: bool
) -> list[str]:
    """Return all sessions of a list, page by page."""
    wanted = by_metadata(dict(pairs))
    seen: list[str] = []
    after: Any = None
    while True:
        if sort == "created_at":
            by_creation = await world.sessions.lists.by_creation(
                "default", after, limit, wanted, shown, newest_first=newest_first, pairs=pairs
            )
            rows, after = by_creation.sessions, by_creation.next
        else:
            by_time = await ranked(
                world.sessions,
                "default",
                RANKINGS[sort],
                after,
                limit,
                wanted,
                shown,
                newest_first=newest_first,
                pairs=pairs,
            )
            rows, after = by_time.sessions, by_time.next
        assert len(rows) <= limit
        seen += [name.decode() for _, name in rows]
        if after is None:
            return seen


def sorted_plainly(
    world: SessionWorld, names: set[str], sort: str, pairs: Mapping[str, str], *, newest_first: bool
) -> list[str]:
    """Return the same by looking at every session."""
    time_of: Callable[[StreamView], int] = (lambda one: 0) if sort == "created_at" else RANKINGS[sort].time_of
    found = [world.find(name) for name in names]
    matching = [one for one in found if by_metadata(dict(pairs))(one)]
    matching.sort(key=lambda one: SortKey(time_of(one), one.stream.id), reverse=newest_first)
    return [session_of(one.stream.key) for one in matching]


async def compare(world: SessionWorld, names: set[str], limit: int, pairs: Mapping[str, str]) -> None:
    for sort in SORTS:
        for newest_first in (True, False):
            expected = sorted_plainly(world, names, sort, pairs, newest_first=newest_first)
            assert await listed(world, sort, limit, pairs, newest_first=newest_first) == expected, sort


async def create(world: SessionWorld, name: str, **metadata: Any) -> None:
    encoded = {one: msgspec.Raw(json.dumps(value).encode()) for one, value in metadata.items()}
    await world.sessions.create(key(name), NewSession(Record(metadata=encoded), "me", []), 0)


names = st.sampled_from([f"s{number}" for number in range(8)])
values = st.sampled_from(["red", "blue", 3, True, None])
steps = st.one_of(
    st.tuples(st.just("create"), names, values),
    st.tuples(st.just("append"), names, st.none() | st.integers(1, 28)),
    st.tuples(st.just("update"), names, values),
    st.tuples(st.just("delete"), names, st.none()),
    st.tuples(st.just("pass"), names, st.none()),
    st.tuples(st.just("flush"), names, st.none()),
    st.tuples(st.just("evict"), names, st.none()),
    st.tuples(st.just("compare"), st.just(""), st.integers(1, 5)),
    st.tuples(st.just("reopen"), names, st.booleans()),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=30), st.sampled_from([1, 3, 1_000]), st.sampled_from([1, 3, 100_000]))
def test_lists_are_a_plain_sort_whatever_is_in_memory(
    plan: list[tuple[str, str, Any]], matches_max: int, changes_max: int
) -> None:
    async def run(folder: Path) -> None:
        limits = replace(
            LIMITS, active_streams_max=0, sorted_matches_max=matches_max, indexed_changes_max=changes_max
        )
        world = await SessionWorld(folder, limits).open()
        existing: set[str] = set()
        for act, name, argument in plan:
            await step(world, existing, act, name, argument)
        await step(world, existing, "compare", "", 2)
        await world.close()

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder)))


async def step(world: SessionWorld, existing: set[str], act: str, name: str, argument: Any) -> None:
    if act == "create" and name not in existing:
        await create(world, name, colour=argument, of="all")
        existing.add(name)
    elif act == "append":
        event: dict[str, Any] = {"type": "note"}
        if argument is not None:
            event["created_at"] = f"2020-01-{argument:02d}T00:00:00Z"
        await world.send(name, event)
        existing.add(name)
    elif act == "update" and name in existing:
        changed = {"colour": msgspec.Raw(json.dumps(argument).encode())}

        def revise(said: Record) -> tuple[Record, dict[str, object]]:
            return msgspec.structs.replace(said, metadata={**said.metadata, **changed}), {"metadata": {}}

        await world.sessions.update(key(name), revise, BY)
    elif act == "delete" and name in existing:
        await world.sessions.delete(key(name), BY)
        existing.discard(name)
    elif act == "pass":
        world.clock.advance(1_000)
    elif act == "flush":
        await world.flush()
    elif act == "evict":
        await world.flush()
        for _ in range(3):
            await world.partition.evict_idle()
    elif act == "reopen":
        await world.reopen(forget_catalog=argument)
    elif act == "compare":
        for pairs in ({}, {"colour": "red"}, {"colour": "3"}, {"of": "all", "colour": "true"}):
            await compare(world, existing, argument, pairs)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SessionWorld]:
    world = await SessionWorld(tmp_path, replace(LIMITS, active_streams_max=0, listed_sessions_max=2)).open()
    yield world
    await world.close()


@pytest.mark.anyio
async def test_a_filtered_page_ends_where_it_has_looked_enough(world: SessionWorld) -> None:
    for number in range(9):
        await create(world, f"s{number}", n=number)
    for newest_first in (True, False):
        found = await ranked(
            world.sessions,
            "default",
            RANKINGS["activity"],
            None,
            5,
            lambda one: metadata_of(one)["n"] == 4,
            shown,
            newest_first=newest_first,
        )
        assert found.next is not None
        assert not found.sessions


@pytest.mark.anyio
@pytest.mark.parametrize("pairs", [PAIRS_MAX, PAIRS_MAX + 1])
@pytest.mark.parametrize("is_flushed", [False, True])
async def test_sessions_with_more_pairs_than_are_indexed_are_found(
    world: SessionWorld, pairs: int, is_flushed: bool
) -> None:
    await create(world, "many", **{f"k{number}": number for number in range(pairs)})
    await create(world, "other", k1="x")
    if is_flushed:
        await world.flush()
        await world.reopen()
    await compare(world, {"many", "other"}, 1, {"k1": "1"})
    assert await listed(world, "activity", 5, {"k1": "1", f"k{pairs - 1}": str(pairs - 1)}, newest_first=True)


@pytest.mark.anyio
async def test_the_index_in_memory_is_made_again_when_too_much_has_changed(tmp_path: Path) -> None:
    world = await SessionWorld(tmp_path, replace(LIMITS, indexed_changes_max=3)).open()
    await create(world, "s0", n="0")
    await compare(world, {"s0"}, 2, {})
    published = world.partition._published  # to see that nothing is kept for lists that nobody asks for
    for number in range(1, 4):
        await create(world, f"s{number}", n=str(number))
    assert published.changed == {world.find(f"s{number}").stream.id for number in range(1, 4)}
    await create(world, "s4", n="4")
    assert not published.changed
    await compare(world, {f"s{number}" for number in range(5)}, 2, {})
    await world.close()
