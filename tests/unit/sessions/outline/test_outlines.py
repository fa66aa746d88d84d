"""Outlines block by block equal a fold from zero: with late results, forks, growth and restarts."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.outline.block import COLUMNS, EventBlock, decode, encode, folded, to_binary
from durable_sessions.sessions.outline.block_summary import MARK_EVENTS, points, summary_of
from durable_sessions.sessions.outline.facts import FAILED, HAS_RESULT, INHERITED, RESULT, TOOL, facts_of
from durable_sessions.sessions.outline.outlines import Outlines
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.views_file import ViewsFile
from durable_sessions.storage.door import Slice
from durable_sessions.streams.create import Fork
from tests.unit.sessions.world import SessionWorld, key
from tests.unit.storage.world import LIMITS

SIZE = 4
VIEWS_BYTES = 1_000_000
"""What a server takes from ``views_bytes_max``."""


class OutlineWorld(SessionWorld):
    """Sessions with outlines in blocks of a few events."""

    outlines: Outlines
    views: ViewsFile
    events_read = 0

    async def look(self, folder: Path, size: int = SIZE) -> None:
        self.views = ViewsFile(folder / "views.sqlite", VIEWS_BYTES)
        self.outlines = Outlines(self.sessions, self.views, self.limits, size)
        plain = self.partition.read

        async def counted(view: Any, start: int, bytes_max: int, stop: int | None = None) -> Slice:
            found = await plain(view, start, bytes_max, stop)
            self.events_read += found.next - found.first
            return found

        self.partition.read = counted  # type: ignore[method-assign]

    async def fork_at(self, name: str, source: str, at: int) -> None:
        wanted = NewSession(Record(), "me", [])
        wanted.fork = Fork(key(source).path, at)
        await self.sessions.create(key(name), wanted, 0)


def expected(stored: list[bytes], base: int) -> list[dict[str, Any]]:
    """Return the entries of an outline by a plain fold over all events, in one go."""
    facts = [facts_of(event, 0) for event in stored]
    positions: dict[str, int] = {}
    rows: list[dict[str, Any]] = [
        {"bytes": len(event), "pair": 0, "flags": one.flags, "role": one.role, "key": one.key}
        for event, one in zip(stored, facts, strict=True)
    ]
    for at, one in enumerate(facts):
        positions.setdefault(one.id, at)
        call = None if one.call is None else positions.get(one.call)
        if call is not None and call != at:
            rows[at]["pair"] = call - at
            if rows[call]["role"] == TOOL and rows[call]["pair"] == 0:
                rows[call]["pair"] = at - call
                rows[call]["flags"] |= HAS_RESULT | (one.flags & FAILED)
        if at < base:
            rows[at]["flags"] |= INHERITED
    for row, one in zip(rows, facts, strict=True):
        row.update(name=one.name, thread=one.thread)
    return rows


async def outlined(world: OutlineWorld, session: str) -> list[dict[str, Any]]:
    """Return the entries of all blocks, with names instead of numbers."""
    durable = world.find(session)
    while (overview := await world.outlines.overview(durable, 100)).through < overview.events:
        pass
    found: list[dict[str, Any]] = []
    for first in range(0, durable.tail, SIZE):
        block = (await world.outlines.block(durable, first)).block
        assert block.first == first
        assert overview.summaries[first // SIZE] == summary_of(block)
        for at in range(block.count):
            row: dict[str, Any] = {
                name: block.columns[name][at] for name in ("bytes", "pair", "flags", "role", "key")
            }
            name, thread = block.columns["name"][at], block.columns["thread"][at]
            row["name"] = overview.names[name - 1] if name else ""
            row["thread"] = overview.threads[thread - 1].id if thread else ""
            found.append(row)
    return found


async def events_of(world: OutlineWorld, session: str) -> list[bytes]:
    durable = world.find(session)
    page = await world.sessions.events.page(durable, 0, durable.tail, 1_000_000)
    return page.events()


kinds = st.tuples(st.sampled_from(["call", "result", "failed", "note", "said", "request"]), st.integers(0, 5))
sessions = st.sampled_from(["a", "b", "c"])
acts = st.one_of(
    st.tuples(st.just("append"), sessions, st.lists(kinds, min_size=1, max_size=9)),
    st.tuples(st.just("fork"), st.sampled_from(["b", "c"]), st.integers(0, 20)),
    st.tuples(st.just("look"), sessions, st.none()),
    st.tuples(st.just("forget"), sessions, st.none()),
    st.tuples(st.just("reopen"), sessions, st.none()),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(acts, max_size=12))
def test_blocks_together_are_a_fold_from_zero(plan: list[tuple[str, str, Any]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder), plan))


async def run(folder: Path, plan: list[tuple[str, str, Any]]) -> None:
    world = OutlineWorld(folder, replace(LIMITS, outline_blocks_per_request_max=2))
    await world.open()
    await world.look(folder)
    existing: set[str] = set()
    made: set[str] = set()
    number = 0
    for act, session, argument in plan:
        if act == "append":
            for kind, which in argument:
                number += 1
                await world.send(session, event(kind, which, number, made if session == "a" else set()))
            existing.add(session)
        elif act == "fork" and session not in existing and "a" in existing:
            await world.fork_at(session, "a", min(argument, world.find("a").tail))
            existing.add(session)
        elif act == "look" and session in existing:
            await compare(world, session)
        elif act == "forget":
            world.views.close()
            (folder / "views.sqlite").unlink(missing_ok=True)
            await world.look(folder)
        elif act == "reopen":
            await world.flush()
            await world.reopen()
            world.views.close()
            await world.look(folder)
    for session in existing:
        await compare(world, session)
    world.views.close()
    await world.close()


async def compare(world: OutlineWorld, session: str) -> None:
    stored = await events_of(world, session)
    assert await outlined(world, session) == expected(stored, world.find(session).stream.base)


def event(kind: str, which: int, number: int, made: set[str]) -> dict[str, Any]:
    if kind == "call":
        name = f"c{which}"
        if name in made:
            return {"type": "agent.tool_use", "name": f"tool{which % 2}", "input": {"n": number}}
        made.add(name)
        thread = {"session_thread_id": f"t{which}"} if which % 2 else {}
        return {"type": "agent.tool_use", "id": name, "name": f"tool{which}", "input": {"n": which}, **thread}
    if kind in ("result", "failed"):
        return {
            "type": "agent.tool_result",
            "tool_use_id": f"c{which}",
            "content": str(number),
            "is_error": kind == "failed",
        }
    if kind == "said":
        return {"type": "user.message", "content": f"said {which}"}
    if kind == "request":
        return {"type": "span.model_request_end", "model_usage": {"input_tokens": number, "output_tokens": 1}}
    return {"type": "note", "n": number}


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[OutlineWorld]:
    world = OutlineWorld(tmp_path, replace(LIMITS, outline_blocks_per_request_max=3))
    await world.open()
    await world.look(tmp_path)
    yield world
    world.views.close()
    await world.close()


@pytest.mark.anyio
async def test_a_block_costs_one_read_of_its_events_and_then_none(world: OutlineWorld) -> None:
    await world.send("a", *[event("note", 0, number, set()) for number in range(10 * SIZE)])
    durable = world.find("a")
    first = await world.outlines.overview(durable, 10)
    assert (world.events_read, first.through) == (3 * SIZE, 3 * SIZE)
    assert [one is None for one in first.summaries] == [True] * 7 + [False] * 3, "the newest first"
    await world.outlines.overview(durable, 10)
    assert world.events_read == 6 * SIZE
    await world.outlines.block(durable, 0)
    assert world.events_read == 7 * SIZE
    for _ in range(3):
        await world.outlines.overview(durable, 10)
    assert world.events_read == 10 * SIZE
    for position in range(10 * SIZE):
        await world.outlines.block(durable, position)
    assert world.events_read == 10 * SIZE


@pytest.mark.anyio
async def test_forks_share_the_full_blocks_of_their_parent(world: OutlineWorld) -> None:
    await world.send("a", *[event("note", 0, number, set()) for number in range(2 * SIZE + 2)])
    await outlined(world, "a")
    await world.fork_at("b", "a", 2 * SIZE + 1)
    before = world.events_read
    await outlined(world, "b")
    assert world.events_read - before == 1, "only the block that the fork cuts is its own"


@pytest.mark.anyio
async def test_tags_change_with_everything_that_is_in_a_block(world: OutlineWorld) -> None:
    await world.send("a", {"type": "agent.tool_use", "id": "c", "name": "bash"}, {"type": "note"})
    durable = world.find("a")
    tags = [(await world.outlines.block(durable, 0)).tag]
    await world.send("a", *[{"type": "note"}] * (SIZE - 2))
    tags.append((await world.outlines.block(durable, 0)).tag)
    await world.send("a", {"type": "agent.tool_result", "tool_use_id": "c", "is_error": True})
    await world.outlines.block(durable, SIZE)
    served = await world.outlines.block(durable, 0)
    assert served.block.columns["pair"][0] == SIZE
    assert served.block.columns["flags"][0] & FAILED
    tags.append(served.tag)
    assert len(set(tags)) == 3
    assert (await world.outlines.block(durable, 0)).tag == tags[-1]


@pytest.mark.anyio
@pytest.mark.parametrize("damage", ["remove", "overwrite"])
async def test_a_damaged_file_changes_no_answer(world: OutlineWorld, tmp_path: Path, damage: str) -> None:
    await world.send("a", *[event("said", number, number, set()) for number in range(3 * SIZE)])
    before = await outlined(world, "a")
    world.views.close()
    for path in tmp_path.glob("views.sqlite*"):
        path.unlink()
    if damage == "overwrite":
        (tmp_path / "views.sqlite").write_bytes(b"no database " * 1_000)
    await world.look(tmp_path)
    assert await outlined(world, "a") == before


@pytest.mark.anyio
async def test_the_least_recently_used_blocks_make_room(tmp_path: Path, world: OutlineWorld) -> None:
    world.views.close()
    await world.send("a", *[event("note", 0, number, set()) for number in range(200 * SIZE)])
    await world.look(tmp_path)
    world.views._bytes_max = 20_000
    durable = world.find("a")
    for position in range(0, 200 * SIZE, SIZE):
        await world.outlines.block(durable, position)
    assert await world.views.run(world.views.bytes) <= 20_000
    before = world.events_read
    await world.outlines.block(durable, 200 * SIZE - 1)
    assert world.events_read == before, "the newest is still there"


def made_block(count: int) -> EventBlock:
    events = [
        b'{"id":"e%d","type":"user.message","content":"x","created_at":"2026-01-01T00:00:00Z"}' % n
        for n in range(count)
    ]
    return folded(0, events, lambda call: None)


def test_a_block_is_stored_and_sent_as_it_is() -> None:
    block = made_block(40)
    assert decode(encode(block)) == block
    sent = to_binary(block)
    assert sent[:4] == b"DSO1"
    assert len(sent) == 24 + 24 * 40 + len(b"[]")
    assert sum(block.columns[name].itemsize for name in COLUMNS) == 24


@pytest.mark.parametrize("most", [0, 1, 3, 1_000])
def test_points_are_at_most_so_many_and_have_every_row(most: int) -> None:
    summaries = []
    for number in range(3):
        block = made_block(4 * MARK_EVENTS if number < 2 else 3)
        block.first = number * 4 * MARK_EVENTS
        summaries.append(summary_of(block))
    events = 2 * 4 * MARK_EVENTS + 3
    found = points(summaries, events, most)
    assert len(found) <= most
    if most:
        assert sum(point[1] for point in found) == events
        assert [point[0] for point in found] == sorted({point[0] for point in found})


def test_rows_are_what_is_not_quiet_and_not_taken_in() -> None:
    events = [
        b'{"id":"c","type":"agent.tool_use","name":"bash"}',
        b'{"id":"r","type":"agent.tool_result","tool_use_id":"c","is_error":true}',
        b'{"id":"s","type":"span.model_request_start"}',
        b'{"id":"o","type":"agent.tool_result","tool_use_id":"elsewhere"}',
    ]
    summary = summary_of(folded(0, events, lambda call: None))
    assert (summary.roles[TOOL], summary.roles[RESULT], summary.quiet, summary.failed) == (1, 1, 1, 1)
