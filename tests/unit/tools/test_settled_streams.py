"""What a repair makes of contradicting streams: several at one path, and forks without their sources."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from durable_sessions.bucket.records import AppendRun, StreamRecords
from durable_sessions.bucket.segment import encode_segment
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.tools.repair.plan import Plan
from durable_sessions.tools.repair.streams import restore_from_rows, settle_forks, settle_paths
from durable_sessions.tools.verify.findings import Findings
from durable_sessions.tools.verify.inventory import Inventory
from durable_sessions.tools.verify.segments import CheckedSegment, check_segment

JSON = "application/json"


@pytest.fixture
def inventory(tmp_path: Path) -> Iterator[Inventory]:
    made = Inventory(tmp_path / "inventory.sqlite", ONLY_PARTITION)
    yield made
    made.close()


def stream(number: int, path: str = "", *, tail: int = 5, parent: int | None = None, base: int = 0) -> Stream:
    key = Key("default", path or f"s{number}")
    made = Stream(number, key, JSON, tail, None, None, 1, 1, 1)
    return replace(made, parent=parent, base=base, fork_at_tail=parent is not None, is_json=True)


def checked(*records: tuple[int, str, int, int]) -> CheckedSegment:
    """Return a segment with records of streams: number, path, first position and how many."""
    segment = encode_segment(
        StreamRecords(number, "default", path, JSON, [AppendRun(first, 7, (2,) * count, b"1," * count)])
        for number, path, first, count in records
    )
    findings = Findings()
    result = check_segment(segment.info("events/x.parquet"), segment.data, findings)
    assert not findings.problems
    return result


# Two streams at one path ----------------------------------------------------------------


def test_the_newest_stream_of_a_path_stays(inventory: Inventory) -> None:
    inventory.put([stream(1, "a"), stream(2, "b"), stream(10, "a"), stream(9, "a")])
    plan = Plan()
    assert settle_paths(inventory, plan)
    assert sorted(inventory.numbers()) == [2, 10], "by number, not by the order of texts"
    assert sorted(inventory.removed()) == [1, 9], "their records must not come back as streams of their own"
    assert [action.where for action in plan.actions] == ["stream 1", "stream 9"]
    assert not settle_paths(inventory, Plan()), "now nothing is wrong"


def test_a_deleted_stream_that_gave_up_its_path_may_stand_beside_another(inventory: Inventory) -> None:
    inventory.put([replace(stream(1, "a"), freed=True), stream(2, "a")])
    assert not settle_paths(inventory, Plan())
    assert sorted(inventory.numbers()) == [1, 2]


def test_paths_of_other_workspaces_are_others(inventory: Inventory) -> None:
    inventory.put([stream(1, "a"), replace(stream(2, "a"), key=Key("other", "a"))])
    assert not settle_paths(inventory, Plan())


# Forks and sources ----------------------------------------------------------------------


def test_forks_that_agree_with_their_sources_are_left_alone(inventory: Inventory) -> None:
    inventory.put([replace(stream(1), forks=1), stream(2, parent=1, base=5, tail=7)])
    plan = Plan()
    assert not settle_forks(inventory, plan)
    assert not plan.actions


def test_a_fork_without_its_source_stands_alone(inventory: Inventory) -> None:
    inventory.put([stream(2, parent=1, base=3, tail=7), stream(3)])
    plan = Plan()
    assert settle_forks(inventory, plan)
    alone = inventory.load_id(2)
    assert alone is not None
    assert (alone.parent, alone.base, alone.fork_at_tail, alone.tail) == (None, 0, False, 7)
    assert [str(action.where) for action in plan.actions] == ["stream 2"]
    assert not settle_forks(inventory, Plan()), "a second repair finds nothing to do"


def test_a_source_reaches_to_where_its_last_fork_begins(inventory: Inventory) -> None:
    forks = [stream(2, parent=1, base=4), stream(3, parent=1, base=9, tail=9), stream(4, parent=1, base=6)]
    inventory.put([replace(stream(1, tail=3), forks=3), *forks])
    assert settle_forks(inventory, Plan())
    source = inventory.load_id(1)
    assert source is not None
    assert (source.tail, source.forks) == (9, 3), "positions that a fork shares are not given out again"


@pytest.mark.parametrize("said", [0, 1, 7])
def test_forks_are_counted_again(inventory: Inventory, said: int) -> None:
    inventory.put([replace(stream(1), forks=said), stream(2, parent=1, base=5), stream(3, parent=1, base=1)])
    plan = Plan()
    assert settle_forks(inventory, plan)
    source = inventory.load_id(1)
    assert source is not None
    assert source.forks == 2
    assert plan.actions[-1].what == f"it has 2 forks, not {said}"


# Streams that only their records know ---------------------------------------------------


def test_streams_are_found_again_by_their_records(inventory: Inventory) -> None:
    inventory.put([stream(1, "known", tail=1)])
    restored = restore_from_rows(inventory, [checked((1, "known", 0, 4), (2, "lost", 0, 3))])
    assert [(one.id, one.key.path, one.tail) for one in restored] == [(2, "lost", 3)]
    known = inventory.load_id(1)
    assert known is not None
    assert known.tail == 4, "it has all records that are there"


def test_what_was_removed_does_not_come_back(inventory: Inventory) -> None:
    inventory.put([stream(1, "a"), stream(3, "b")])
    inventory.remove([1])
    assert not restore_from_rows(inventory, [checked((1, "a", 0, 4), (2, "b", 0, 3))])
    assert inventory.numbers() == [3], "the path of 2 was used again by 3, so 2 had been removed"


def test_a_newer_stream_takes_the_path_of_an_older_one(inventory: Inventory) -> None:
    inventory.put([stream(3, "b")])
    restored = restore_from_rows(inventory, [checked((8, "b", 0, 3))])
    assert [one.id for one in restored] == [8]
    assert inventory.numbers() == [8]
    assert inventory.was_removed(3)
