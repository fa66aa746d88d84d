"""The feed over a partition that is driven by hand, and a worker that forgets what it did not commit."""

import asyncio
import os
import random
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from durable_sessions.errors import SearchUnavailableError
from durable_sessions.limits import Limits
from durable_sessions.node.supervisor import Supervisor
from durable_sessions.search import feed as feed_module
from durable_sessions.search.feed import Feed
from durable_sessions.search.messages import Add, Remove, indexed
from durable_sessions.search.tails import IndexedTails
from durable_sessions.streams import messages
from durable_sessions.streams.create import Create, Fork
from tests.support.trial import until
from tests.unit.storage.world import World, key

pytestmark = pytest.mark.anyio

WORKSPACE = key("x").workspace
SEEDS = range(int(os.environ.get("SEARCH_SEEDS", "40")))
ACTS = (
    *("create", "append", "append", "append", "fork", "fork", "delete", "delete"),
    *("flush", "search", "commit", "die", "die_soon", "restart", "rebuild", "rest"),
)

Contents = dict[int, set[int]]


def _applied(contents: Contents, message: Add | Remove) -> None:
    assert message.workspace == WORKSPACE
    positions = contents.setdefault(message.stream, set())
    if isinstance(message, Add):
        count = len(messages.cut(message.data))
        added = set(range(message.first, message.first + count))
        assert not positions & added, "an event is indexed twice"
        positions |= added
    else:
        positions -= {position for position in positions if position >= message.from_position}
    if not positions:
        del contents[message.stream]


@dataclass
class FakeIndex:
    """What a worker has committed, and what it was told since."""

    committed: Contents = field(default_factory=dict)
    told: list[Add | Remove] = field(default_factory=list)
    dies_after: int | None = None
    opened: "list[FakeLink]" = field(default_factory=list)

    def commit(self) -> None:
        self.committed, self.told = self.contents(), []

    def contents(self) -> Contents:
        """Return what a search would find now."""
        found = {stream: set(positions) for stream, positions in self.committed.items()}
        for message in self.told:
            _applied(found, message)
        return found


class FakeLink:
    """As much of a link as the feed needs."""

    def __init__(self, index: FakeIndex) -> None:
        self.index = index
        self.lost = False
        self.silence = self.ended_for = None
        self.tails = IndexedTails()
        for part in indexed(
            WORKSPACE, {stream: max(positions) + 1 for stream, positions in index.committed.items()}
        ):
            self.tails.add(part)

    async def send(self, message: Add | Remove) -> None:
        await asyncio.sleep(0)
        if self.index.dies_after is not None:
            self.index.dies_after -= 1
            if self.index.dies_after < 0:
                self.drop()
        if self.lost:
            raise SearchUnavailableError(reason="it has died")
        self.index.told.append(message)

    def drop(self) -> None:
        self.lost = True
        self.index.told.clear()
        self.index.dies_after = None

    async def abort(self) -> None:
        if not self.lost:
            self.drop()

    async def close(self) -> None:
        self.index.commit()
        self.lost = True


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> FakeIndex:
    made = FakeIndex()

    class Opener:
        @staticmethod
        async def open(directory: Path, lineage: str, limits: Limits) -> FakeLink:
            await asyncio.sleep(0)
            made.opened.append(FakeLink(made))
            return made.opened[-1]

    monkeypatch.setattr(feed_module, "WorkerLink", Opener)
    for name in ("RETRY_SECONDS", "GATHER_SECONDS", "QUIET_SECONDS"):
        monkeypatch.setattr(feed_module, name, 0.001)
    return made


@dataclass
class _Session:
    number: int
    parent: int | None
    base: int
    tail: int
    is_deleted: bool = False


class Driver:
    """Does what chance says to sessions, the worker and the server, and knows what should be found."""

    def __init__(self, world: World, index: FakeIndex, seed: int) -> None:
        self.world = world
        self.index = index
        self.chance = random.Random(seed)
        self.sessions: dict[str, _Session] = {}
        self.named = 0
        self.feed = self.new_feed()

    def new_feed(self) -> Feed:
        world = self.world
        directory = world.catalog_path.with_name("search")
        made = Feed(world.partition, world.clock, directory, "lineage", Limits())
        made.start(Supervisor(world.clock, Limits()))
        return made

    def alive(self) -> list[str]:
        return [name for name, one in self.sessions.items() if not one.is_deleted]

    async def step(self) -> None:
        await getattr(self, self.chance.choice(ACTS))()

    async def create(self) -> None:
        self.named += 1
        name = f"sessions/s{self.named}"
        await self.world.create(name)
        self._note(name, None, 0)

    def _note(self, name: str, parent: int | None, base: int) -> None:
        number = self.world.partition.find(key(name)).stream.id
        self.sessions[name] = _Session(number, parent, base, base)

    async def append(self) -> None:
        for name in self.alive()[:1] if self.chance.random() < 0.2 else self._some():
            count = self.chance.randrange(1, 5)
            body = b"[" + b",".join(b'{"type":"note","text":"%d"}' % n for n in range(count)) + b"]"
            await self.world.append(name, body)
            self.sessions[name].tail += count

    def _some(self) -> list[str]:
        alive = self.alive()
        return [self.chance.choice(alive)] if alive else []

    async def fork(self) -> None:
        for source in self._some():
            self.named += 1
            name = f"sessions/s{self.named}"
            base = self.chance.randrange(self.sessions[source].tail + 1)
            fork = Fork(source, base)
            end = await self.world.partition.anchor_end(key(name), fork)
            await self.world.partition.create(key(name), Create(fork=fork), end)
            made = self.world.partition.find(key(name)).stream
            assert made.base == base
            self._note(name, made.parent, base)

    async def delete(self) -> None:
        for name in self._some():
            await self.world.delete(name)
            self.sessions[name].is_deleted = True

    async def flush(self) -> None:
        await self.world.flush()

    async def search(self) -> None:
        await self.check()

    async def rest(self) -> None:
        await asyncio.sleep(0.005)

    async def commit(self) -> None:
        self.index.commit()

    async def die(self) -> None:
        if self.index.opened:
            self.index.opened[-1].drop()

    async def die_soon(self) -> None:
        self.index.dies_after = self.chance.randrange(3)

    async def rebuild(self) -> None:
        self.index.committed.clear()  # its directory is deleted before the next one begins
        self.feed.rebuild()

    async def restart(self) -> None:
        if self.chance.random() < 0.5 and self.index.opened:
            self.index.opened[-1].drop()  # with kill -9
        await self.feed.close()
        await self.world.reopen(forget_catalog=self.chance.random() < 0.3)
        self.feed = self.new_feed()

    async def check(self) -> None:
        reach = await self.feed.caught_up(WORKSPACE, None, 30)
        assert reach.is_complete
        assert reach.unsent == {}
        assert self.index.contents() == self.expected()

    def expected(self) -> Contents:
        by_number = {one.number: one for one in self.sessions.values()}

        def is_visible(one: _Session, position: int) -> bool:
            return not one.is_deleted or any(
                position < fork.base and is_visible(fork, position)
                for fork in by_number.values()
                if fork.parent == one.number
            )

        found = {
            one.number: {position for position in range(one.base, one.tail) if is_visible(one, position)}
            for one in by_number.values()
        }
        return {number: positions for number, positions in found.items() if positions}


@pytest.mark.parametrize("seed", SEEDS)
async def test_the_worker_has_all_that_can_be_read_and_nothing_else(
    tmp_path: Path, index: FakeIndex, seed: int
) -> None:
    world = await World(tmp_path).open()
    driver = Driver(world, index, seed)
    try:
        for _ in range(60):
            await driver.step()
        index.dies_after = None
        await driver.check()
    finally:
        await driver.feed.close()
        await world.close()


async def test_only_sessions_are_sent(tmp_path: Path, index: FakeIndex) -> None:
    world = await World(tmp_path).open()
    made = Feed(world.partition, world.clock, tmp_path / "search", "lineage", Limits())
    made.start(Supervisor(world.clock, Limits()))
    await world.create("plain", b'[{"type":"note"}]')
    await world.create("sessions/s", b'[{"type":"note"}]')
    reach = await made.caught_up(WORKSPACE, None, 30)
    assert reach.is_complete
    assert [len(positions) for positions in index.contents().values()] == [1]
    await made.close()
    await world.close()


async def test_a_fault_of_the_feed_is_said_stops_nothing_else_and_heals(
    tmp_path: Path, index: FakeIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = await World(tmp_path).open()
    made = Feed(world.partition, world.clock, tmp_path / "search", "lineage", Limits())

    async def fault(stream: int) -> bool:
        raise ZeroDivisionError

    send_some = made._sender._send_some
    monkeypatch.setattr(made._sender, "_send_some", fault)
    made.start(Supervisor(world.clock, replace(Limits(), task_restart_seconds=0.01)))
    await world.create("sessions/s", b'[{"type":"note"}]')
    with suppress(SearchUnavailableError):
        await made.caught_up(WORKSPACE, None, 0.2)
    assert made.failure is not None
    assert "ZeroDivisionError" in made.failure
    await world.append("sessions/s", b'[{"type":"note"}]')
    monkeypatch.setattr(made._sender, "_send_some", send_some)
    reach = await made.caught_up(WORKSPACE, None, 60)
    assert reach.is_complete
    assert index.contents() == {1: {0, 1}}
    await until(lambda: made.failure is None)
    await made.close()
    await world.close()
