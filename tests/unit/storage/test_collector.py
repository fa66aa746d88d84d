"""Garbage is collected in small steps, and all of it in the end."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from durable_sessions.storage import collector
from durable_sessions.storage.collector import Collector


class Node:
    """Something that can be part of a cycle."""

    def __init__(self) -> None:
        self.other: object = self


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    monkeypatch.setattr(collector, "_SET_ASIDE_MAX", 1_000)
    one = Collector()
    undo = one.bind()
    yield one
    undo()


def test_a_cycle_that_dies_after_it_was_set_aside_is_found_in_the_end(bound: Collector) -> None:
    node = Node()
    seen = weakref.ref(node)
    gc.collect()  # it stays, and is set aside
    del node
    gc.collect()
    assert seen() is not None
    assert not bound.settle(), "little was set aside"
    held = [[number] for number in range(gc.get_freeze_count() // 3 + 2_000)]
    gc.collect()
    assert bound.settle()
    assert seen() is None
    assert not bound.settle()
    assert held


def test_what_is_not_bound_is_left_alone() -> None:
    assert not Collector().settle()
