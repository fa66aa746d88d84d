"""Telling other partitions how far streams reach."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.errors import LinkDownError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.storage.partition import Partition
from durable_sessions.storage.tail_reporter import TailReporter
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Create
from durable_sessions.streams.reported_streams import Tail
from durable_sessions.streams.stream import Key
from durable_sessions.testing.memory_log import MemoryLog
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

LIMITS = replace(DEFAULT_LIMITS, untold_streams_max=3, outbox_retry_seconds=0.001)


class Teller:
    """A partition, its teller, and the partition that is told; ``away`` says that it cannot be reached."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.tails: dict[str, int | None] = {}
        self.away = False
        self.teller = TailReporter(partition, self.tell, LIMITS)
        partition.listen(self.teller)

    async def tell(self, workspace: str, tails: Sequence[Tail]) -> None:
        assert workspace == "w"
        if self.away:
            raise LinkDownError(reason="a test")
        self.tails.update((tail.path, tail.tail) for tail in tails)

    async def append(self, *paths: str) -> None:
        for path in paths:
            key = Key("w", path)
            await self.partition.create(key, Create("text/plain"))
            await self.partition.append(key, Append(b"x", "text/plain"))

    def watch(self, watcher: str, version: int = 1) -> None:
        self.teller.watch("w", watcher, version, ["jobs/*"], ["named"])


@pytest.fixture
async def telling() -> AsyncIterator[Teller]:
    partition = await Partition.open(MemoryLog(), ManualClock(), LIMITS)
    telling = Teller(partition)
    running = asyncio.create_task(telling.teller.run())
    yield telling
    running.cancel()
    await partition.close()


async def test_what_is_watched_is_told_and_nothing_else(telling: Teller) -> None:
    await telling.append("jobs/old", "other")
    telling.watch("me")
    await until(lambda: telling.tails == {"jobs/old": 1})
    await telling.append("jobs/new", "named", "other", "jobs/old")
    await until(lambda: telling.tails == {"jobs/old": 2, "jobs/new": 1, "named": 1})
    await telling.partition.delete(Key("w", "jobs/old"))
    await until(lambda: telling.tails["jobs/old"] is None)


async def test_what_could_not_be_told_is_told_later(telling: Teller) -> None:
    telling.watch("me")
    await until(lambda: telling.teller.untold("w", "me", 1) is not None)
    telling.away = True
    await telling.append("jobs/1", "jobs/1")
    await until(lambda: telling.teller.failure)
    untold = telling.teller.untold("w", "me", 1)
    assert untold is not None
    assert [(tail.path, tail.tail) for tail in untold] == [("jobs/1", 2)]
    telling.away = False
    await until(lambda: telling.tails == {"jobs/1": 2})
    await until(lambda: telling.teller.failure is None)


async def test_beyond_the_bound_everything_is_told_anew(telling: Teller) -> None:
    telling.watch("me")
    await until(lambda: telling.teller.untold("w", "me", 1) is not None)
    telling.away = True
    await telling.append(*(f"jobs/{number}" for number in range(LIMITS.untold_streams_max)))
    untold = telling.teller.untold("w", "me", 1)
    assert untold is not None
    assert len(untold) == LIMITS.untold_streams_max, "at the bound"
    await telling.append("jobs/more")
    assert telling.teller.untold("w", "me", 1) is None, "one past it"
    telling.away = False
    await until(lambda: len(telling.tails) == LIMITS.untold_streams_max + 1)


async def test_another_watcher_is_told_everything(telling: Teller) -> None:
    await telling.append("jobs/1")
    telling.watch("me")
    await until(lambda: telling.tails)
    assert telling.teller.missing("me", {"w": 1, "v": 3}) == ["v"]
    assert telling.teller.missing("me", {"w": 2}) == ["w"]
    assert telling.teller.missing("you", {"w": 1}) == ["w"]
    assert telling.teller.untold("w", "you", 1) is None
    telling.tails.clear()
    telling.watch("me", version=2)
    await telling.append("jobs/2")
    await until(lambda: telling.tails == {"jobs/2": 1})
    telling.watch("you")
    await until(lambda: telling.tails == {"jobs/1": 1, "jobs/2": 1})
    assert telling.teller.missing("you", {}) == []
    await telling.append("jobs/3")
    assert telling.teller.untold("w", "you", 1) is None, "nothing is watched any more"


async def test_what_there_is_of_a_pattern_and_of_names(telling: Teller) -> None:
    await telling.append("jobs/1", "jobs/2", "named", "other")
    await telling.partition.delete(Key("w", "jobs/2"))
    found = await telling.teller.look("w", "jobs/*", ["named", "missing"])
    assert {tail.path: tail.tail for tail in found} == {"jobs/1": 1, "named": 1}
