"""Cycles are looked for among what is new, and among all only while that is little."""

import asyncio
import gc
import weakref
from collections.abc import Iterator

import pytest

from durable_sessions.node import garbage_collector
from durable_sessions.node.garbage_collector import Collector

pytestmark = pytest.mark.anyio


class Node:
    """Something that can be part of a cycle."""

    def __init__(self) -> None:
        self.other: object = self


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setattr(garbage_collector, "_LOOK_SECONDS", 0.01)
    monkeypatch.setattr(garbage_collector, "_OBJECTS_MAX", 1_000)
    one = Collector()
    undo = one.bind()
    yield one
    undo()


def old_cycle() -> "weakref.ref[Node]":
    """Return what tells whether a cycle that has grown old and died is still in memory."""
    node = Node()
    gc.collect()
    return weakref.ref(node)


async def looked(bound: Collector, objects: int) -> None:
    """Let the collector look a few times."""
    looks = 0

    def count() -> int:
        nonlocal looks
        looks += 1
        return objects

    looking = asyncio.create_task(bound.run(count))
    while looks < 3:
        await asyncio.sleep(0.01)
    looking.cancel()
    await asyncio.gather(looking, return_exceptions=True)


async def test_old_cycles_are_found_while_there_is_little(bound: Collector) -> None:
    seen = old_cycle()
    await looked(bound, 1_001)
    assert seen() is not None
    held = [[number] for number in range(2_000)]  # of a request, which the estimate does not know
    gc.collect(1)
    await looked(bound, 1_000)
    assert seen() is not None
    held.clear()
    await looked(bound, 1_000)
    assert seen() is None


def test_young_cycles_are_found_by_themselves(bound: Collector) -> None:
    seen = weakref.ref(Node())
    held = [[number] for number in range(10_000)]
    assert seen() is None
    assert held


def test_the_old_are_never_looked_at_by_themselves(bound: Collector) -> None:
    looks = gc.get_stats()[2]["collections"]
    held = [[number] for number in range(1_000_000)]
    assert gc.get_stats()[2]["collections"] == looks
    assert held


def test_binding_is_undone() -> None:
    before = gc.get_threshold(), gc.get_freeze_count()
    Collector().bind()()
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
