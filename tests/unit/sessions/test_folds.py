"""Folds on demand: the same from any snapshot as from zero, in few reads, kept within bounds."""

import asyncio
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.errors import DurableSessionsError
from durable_sessions.sessions.change import By
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.event_ids import names_of
from durable_sessions.sessions.folds import Folds
from durable_sessions.sessions.graph.control import ATTRIBUTES, Control
from durable_sessions.sessions.graph.fold import Fold
from durable_sessions.sessions.graph.rules import Appender
from durable_sessions.sessions.graph.stored import happened
from durable_sessions.sessions.indexing import index_of
from durable_sessions.sessions.record import Record
from durable_sessions.sessions.redaction import Redaction
from durable_sessions.sessions.redactor import EventRedactor
from durable_sessions.sessions.views_cleaning import ViewsCleaning
from durable_sessions.sessions.views_file import ViewsFile
from durable_sessions.sessions.wake import WakeRequest
from durable_sessions.sessions.work import Works
from durable_sessions.storage.door import Slice
from durable_sessions.storage.indexed import IndexOf
from durable_sessions.streams.create import Fork
from durable_sessions.tier.catalog_rebuild import NamesOf
from tests.unit.sessions.graph.test_fold import free, strict
from tests.unit.sessions.world import SessionWorld, key
from tests.unit.storage.world import LIMITS

GRID = 4
SECRET = "glockenspiel"


class FoldWorld(SessionWorld):
    """Sessions with folds that leave a snapshot every few events."""

    views: ViewsFile
    folds: Folds
    works: Works
    events_read = 0

    async def open(self, names: NamesOf = names_of, index: IndexOf = index_of) -> Self:
        await super().open(names, index)
        plain = self.partition.read

        async def counted(view: Any, start: int, bytes_max: int, stop: int | None = None) -> Slice:
            found = await plain(view, start, bytes_max, stop)
            self.events_read += found.next - found.first
            return found

        self.partition.read = counted  # type: ignore[method-assign]
        self.look()
        return self

    def look(self) -> None:
        """Begin as a server that was just started: with the file, and nothing in memory."""
        self.views = ViewsFile(self.catalog_path.with_name("views.sqlite"), self.limits.views_bytes_max)
        self.folds = Folds(self.partition, self.sessions.events, self.limits, self.views, GRID)
        self.sessions.folds = self.folds
        self.works = Works(self.sessions, self.clock, self.ids, self.limits)

    async def fork_at(self, name: str, source: str, at: int) -> None:
        wanted = NewSession(Record(), "me", [])
        wanted.fork = Fork(key(source).path, at)
        await self.sessions.create(key(name), wanted, 0)

    async def redact(self, name: str, *events: str) -> None:
        redactor = EventRedactor(self.sessions, self.ids, self.limits)
        await redactor.redact(key(name), Redaction(list(events), "asked for"), By("me"))

    async def limit_cost(self, name: str, cents: int | None) -> None:
        """Change the budget in Managed Agents' words, which only the record has."""
        cost = {"amount": str(cents), "currency": "USD"}
        said = None if cents is None else {"type": "limit", "max_list_cost": cost}
        budget = msgspec.Raw(msgspec.json.encode(said))

        def revise(old: Record) -> tuple[Record, dict[str, object]]:
            changed = {} if old.budget == budget else {"budget": budget}
            return msgspec.structs.replace(old, **changed), {**changed}

        by = By("judge", may_judge=True)
        await self.sessions.update(key(name), revise, by)

    async def from_zero(self, name: str, at: int, crossings: list[int]) -> Fold:
        """Fold all events in one go, without anything that is kept."""
        durable = self.find(name)
        control = Control(durable.attributes, self.limits)
        costs = [] if control.meter is None else control.meter.cost_limits
        fold = Fold(self.limits)
        if 0 in crossings:
            fold.cross_fork()
        fold.limit_cost(costs)
        page = await self.sessions.events.page(durable, 0, durable.tail, 1_000_000)
        for position, event in enumerate(page.events()[:at]):
            checked_from = control.core.checked_from if control.is_controlled else None
            fold.step(happened(event, position, checked_from))
            if position + 1 in crossings:
                fold.cross_fork()
            fold.limit_cost(costs)
        return fold

    async def compare(self, name: str, at: int, crossings: list[int]) -> None:
        fold = await self.folds.at(self.find(name), at)
        assert ordered(fold) == ordered(await self.from_zero(name, at, crossings)), (name, at)


def ordered(fold: Fold) -> bytes:
    """Return all that a fold knows; only the order in which control was stored means nothing."""
    document = msgspec.json.decode(fold.snapshot())
    document["control"] = sorted(document["control"].items())
    return msgspec.json.encode(document)


def counted(attributes: dict[str, bytes]) -> dict[str, Any]:
    """Return control without what an erased text had been counted by."""
    document = {name: msgspec.json.decode(value) for name, value in attributes.items()}
    for part in (document.get("control", {}), document.get("meter", {})):
        for name in ("facts_bytes", "repeated_calls", "last_call"):
            part.pop(name, None)
    return document


names = st.sampled_from(["a", "b", "c"])
acts = st.lists(
    st.one_of(
        st.tuples(st.just("append"), names, st.lists(st.one_of(free, strict), min_size=1, max_size=6)),
        st.tuples(st.just("wake"), names, st.none()),
        st.tuples(st.just("fork"), st.sampled_from(["b", "c"]), st.tuples(names, st.integers(0, 30))),
        st.tuples(st.just("look"), names, st.integers(0, 40)),
        st.tuples(st.just("budget"), names, st.sampled_from([None, 1, 30])),
        st.tuples(st.just("redact"), names, st.integers(0, 40)),
        st.tuples(st.just("forget the file"), names, st.none()),
        st.tuples(st.just("crash"), names, st.none()),
    ),
    max_size=16,
)


@settings(max_examples=60, deadline=None)
@given(acts)
def test_invariant_1_folds_are_the_same_at_every_offset_whatever_was_kept(plan: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(Path(folder), plan))


async def run(folder: Path, plan: list[tuple[str, str, Any]]) -> None:
    world = await FoldWorld(folder, replace(LIMITS, fold_cache_bytes_max=5_000)).open()
    crossings: dict[str, list[int]] = {}
    number = 0
    for act, name, argument in plan:
        if act == "append":
            events = [{**event, "id": f"e{number + at}"} for at, event in enumerate(argument)]
            try:
                await world.send(name, *events)
            except DurableSessionsError:
                continue
            number += len(events)
            crossings.setdefault(name, [])
        elif act == "fork":
            source, at = argument
            if name not in crossings and source in crossings:
                at = min(at, world.find(source).tail)
                await world.fork_at(name, source, at)
                crossings[name] = [*(one for one in crossings[source] if one <= at), at]
        elif act == "forget the file":
            world.views.close()
            for path in folder.glob("views.sqlite*"):
                path.unlink()
            world.look()
        elif act == "crash":
            await world.reopen()
        elif name not in crossings:
            continue
        elif act == "wake":
            try:
                await world.works.wake(key(name), WakeRequest(Appender("me", True), "host", 60, False, False))
            except DurableSessionsError:
                continue
        elif act == "budget":
            await world.limit_cost(name, argument)
        elif act == "look":
            await world.compare(name, min(argument, world.find(name).tail), crossings[name])
        elif (tail := world.find(name).tail) > 0:
            stored = (await world.events(name))[argument % tail]
            try:
                await world.redact(name, stored["id"])
            except DurableSessionsError:
                continue
    for name, bounds in crossings.items():
        durable = world.find(name)
        fold = await world.folds.at(durable, durable.tail)
        known = {one: durable.attributes[one] for one in ATTRIBUTES if one in durable.attributes}
        assert counted(fold.control.attributes()) == counted(known), name
        for at in range(durable.tail, -1, -1):
            await world.compare(name, at, bounds)
    world.views.close()
    await world.close()


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[FoldWorld]:
    world = await FoldWorld(tmp_path).open()
    yield world
    world.views.close()
    await world.close()


def fact(number: int) -> dict[str, Any]:
    return {"type": "ds.fact", "id": f"e{number}", "key": f"k{number % 3}", "value": number}


@pytest.mark.anyio
async def test_a_state_at_any_offset_costs_one_snapshot_and_less_than_a_grid(world: FoldWorld) -> None:
    await world.send("s", *map(fact, range(10 * GRID + 2)))
    await world.folds.at(world.find("s"), 10 * GRID + 2)
    assert world.events_read == 10 * GRID + 2
    for is_new in (False, True):
        if is_new:  # a server that was started again has the file only
            world.look()
        for at in (0, 1, GRID, 3 * GRID + 3, 9 * GRID, 10 * GRID + 2, 2):
            world.events_read = 0
            fold = await world.folds.at(world.find("s"), at)
            assert fold.folded.position == at
            assert world.events_read <= at % GRID
    world.events_read = 0
    await world.send("s", fact(99))
    await world.folds.at(world.find("s"), world.find("s").tail)
    assert world.events_read == 1, "looks at old offsets leave the newest where it is"


@pytest.mark.anyio
async def test_forks_use_the_snapshots_of_their_source_and_leave_theirs_to_it(world: FoldWorld) -> None:
    await world.send("s", {"type": "agent.tool_use", "name": "ls"}, *map(fact, range(5 * GRID)))
    await world.folds.at(world.find("s"), 5 * GRID)
    for name, at in (("behind", 5 * GRID + 1), ("at", 5 * GRID), ("before", 2 * GRID + 3)):
        await world.fork_at(name, "s", at)
        world.events_read = 0
        await world.folds.at(world.find(name), at)
        assert world.events_read <= at % GRID, name
        await world.compare(name, at, [at])
    await world.send("t", *({"type": "note"} for _ in range(3 * GRID)))
    await world.fork_at("u", "t", 3 * GRID - 1)
    await world.folds.at(world.find("u"), 3 * GRID - 1)
    world.events_read = 0
    await world.folds.at(world.find("t"), 2 * GRID)
    assert world.events_read == 0, "what a fork had to fold is there for its source"


@pytest.mark.anyio
async def test_no_snapshot_from_before_an_erasure_counts_also_after_a_crash(world: FoldWorld) -> None:
    await world.send("s", {**fact(0), "key": "k", "value": SECRET}, *map(fact, range(1, 2 * GRID)))
    await world.fork_at("fork", "s", GRID + 1)
    for name in ("s", "fork"):
        fold = await world.folds.at(world.find(name), GRID)
        assert SECRET in fold.snapshot().decode()
    await world.redact("s", "e0")
    await world.reopen()  # nothing had the time to clean the file
    for name in ("s", "fork"):
        for at in (GRID, GRID + 1):
            assert SECRET not in (await world.folds.at(world.find(name), at)).snapshot().decode()


@pytest.mark.anyio
async def test_the_file_loses_what_was_erased_and_what_is_deleted(world: FoldWorld, tmp_path: Path) -> None:
    cleaning = ViewsCleaning(world.partition, world.views, world.sessions.scans.turns, world.limits)
    await world.send("s", *map(fact, range(2 * GRID)))
    await world.send("gone", *map(fact, range(2 * GRID)))
    for name in ("s", "gone"):
        await world.folds.at(world.find(name), 2 * GRID)
    number = world.find("s").stream.id
    assert rows(tmp_path) == 4
    await world.redact("s", "e5")
    await world.folds.at(world.find("s"), GRID)
    await world.sessions.delete(key("gone"), By("me"))
    await cleaning.clean()
    assert rows(tmp_path) == 1
    assert await world.views.streams() == [number]


def rows(folder: Path) -> int:
    with sqlite3.connect(folder / "views.sqlite") as connection:
        return int(connection.execute("select count(*) from snapshots").fetchone()[0])


@pytest.mark.anyio
@pytest.mark.parametrize("change", ["format", "boot", "row", "no database"])
async def test_a_file_that_cannot_be_used_changes_no_state(
    world: FoldWorld, tmp_path: Path, change: str
) -> None:
    await world.send("s", *map(fact, range(3 * GRID)))
    before = (await world.folds.at(world.find("s"), 3 * GRID)).snapshot()
    world.views.close()
    if change == "no database":
        for path in tmp_path.glob("views.sqlite*"):
            path.unlink()
        (tmp_path / "views.sqlite").write_bytes(b"no database " * 1_000)
    else:
        with sqlite3.connect(tmp_path / "views.sqlite") as connection:
            if change == "format":
                connection.execute("update formats set format = 0 where kind = 'snapshots'")
            elif change == "boot":
                connection.execute("update about set boot = 'another'")
            else:
                connection.execute("update snapshots set data = x'00'")
    world.look()
    assert (await world.folds.at(world.find("s"), 3 * GRID)).snapshot() == before
    assert world.events_read == 6 * GRID, "folded again from zero"
    world.look()
    await world.folds.at(world.find("s"), 2 * GRID)
    assert world.events_read == 6 * GRID


@pytest.mark.anyio
async def test_a_file_that_can_never_be_used_stops_nothing(world: FoldWorld, tmp_path: Path) -> None:
    await world.send("s", *map(fact, range(3 * GRID)))
    world.views.close()
    (tmp_path / "views.sqlite").mkdir()
    world.look()
    assert (await world.folds.at(world.find("s"), 3 * GRID)).folded.position == 3 * GRID


@pytest.mark.anyio
async def test_what_is_kept_in_memory_is_bounded_by_fold_cache_bytes_max(world: FoldWorld) -> None:
    limits = replace(world.limits, fold_cache_bytes_max=20_000)
    folds = Folds(world.partition, world.sessions.events, limits, grid=GRID)
    for number in range(8):
        await world.send(f"s{number}", {"type": "user.message", "content": "hello"}, {"type": "note"})
        fold = await folds.at(world.find(f"s{number}"), 2)
        assert fold.folded.position == 2
        assert folds.snapshots.kept_bytes <= limits.fold_cache_bytes_max
    await world.send("long", *({"type": "note"} for _ in range(100)))
    assert (await folds.at(world.find("long"), 100)).folded.position == 100
    assert folds.snapshots.kept_bytes <= limits.fold_cache_bytes_max
    assert (await folds.at(world.find("long"), 7)).folded.position == 7


@pytest.mark.anyio
async def test_the_file_is_bounded_by_views_bytes_max(world: FoldWorld, tmp_path: Path) -> None:
    world.views.close()
    most = 10_000
    world.views = ViewsFile(tmp_path / "views.sqlite", most)
    folds = Folds(world.partition, world.sessions.events, world.limits, world.views, GRID)
    await world.send("s", *({"type": "note"} for _ in range(100 * GRID)))
    await folds.at(world.find("s"), 100 * GRID)
    assert 0 < await world.views.run(world.views.bytes) <= most
    assert 0 < rows(tmp_path) < 100
    world.events_read = 0
    fresh = Folds(world.partition, world.sessions.events, world.limits, world.views, GRID)
    await fresh.at(world.find("s"), 100 * GRID)
    assert world.events_read == 0, "the newest are still there"
