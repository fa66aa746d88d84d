"""The block cache: bounded, shared, and tidy about what it did not get."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass

import pytest

from durable_sessions.bucket.cache import BlockCache

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Thing:
    name: str
    cost: int = 10


Loader = Callable[[], Coroutine[None, None, Thing]]


class Source:
    """Loads things, and counts how often."""

    def __init__(self) -> None:
        self.loads: list[str] = []

    def load(self, name: str, cost: int = 10, *, fail: bool = False) -> Loader:
        async def loading() -> Thing:
            self.loads.append(name)
            await asyncio.sleep(0)
            if fail:
                raise ValueError(name)
            return Thing(name, cost)

        return loading


async def test_the_least_recently_used_leave_first() -> None:
    cache, source = BlockCache(30), Source()
    for name in "abc":
        await cache.get((name, 0), source.load(name))
    await cache.get(("a", 0), source.load("a"))
    await cache.get(("d", 0), source.load("d"))
    assert cache.bytes_used == 30
    for name in "acdb":
        await cache.get((name, 0), source.load(name))
    assert source.loads == ["a", "b", "c", "d", "b"]
    assert (cache.hits, cache.misses) == (4, 5)


async def test_what_is_larger_than_the_bound_is_given_but_not_kept() -> None:
    cache, source = BlockCache(30), Source()
    await cache.get(("a", 0), source.load("a"))
    assert await cache.get(("big", 0), source.load("big", 31)) == Thing("big", 31)
    assert cache.bytes_used == 10
    await cache.get(("a", 0), source.load("a"))
    assert source.loads == ["a", "big"]


async def test_a_failed_load_is_told_to_all_and_tried_again() -> None:
    cache, source = BlockCache(30), Source()
    waiting = [cache.get(("a", 0), source.load("a", fail=True)) for _ in range(3)]
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [ValueError] * 3
    assert await cache.get(("a", 0), source.load("a")) == Thing("a")
    assert source.loads == ["a", "a"]


async def test_a_prefetch_is_shared_with_who_asks_and_its_failure_harms_nobody() -> None:
    cache, source = BlockCache(30), Source()
    cache.prefetch(("a", 0), source.load("a"))
    cache.prefetch(("a", 0), source.load("a"))
    assert await cache.get(("a", 0), source.load("a")) == Thing("a")
    cache.prefetch(("a", 0), source.load("a"))
    cache.prefetch(("b", 0), source.load("b", fail=True))
    await asyncio.sleep(0.01)
    assert source.loads == ["a", "b"]


async def test_an_object_can_be_forgotten() -> None:
    cache, source = BlockCache(100), Source()
    for key in (("a", 0), ("a", 1), ("b", 0)):
        await cache.get(key, source.load("x"))
    cache.forget("a")
    assert cache.bytes_used == 10


async def test_closing_ends_what_is_under_way() -> None:
    cache = BlockCache(100)

    async def forever() -> Thing:
        await asyncio.sleep(60)
        return Thing("never")

    waiting = asyncio.create_task(cache.get(("a", 0), forever))
    await asyncio.sleep(0)
    cache.prefetch(("b", 0), forever)
    await cache.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert cache.bytes_used == 0
