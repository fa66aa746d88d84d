"""Streams of damaged checkpoints: what rows and the catalog still say, and how forks and paths agree."""

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from durable_sessions.bucket.records import AppendRun, StreamRecords
from durable_sessions.bucket.segment import encode_segment
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.tools.repair.plan import Plan
from durable_sessions.tools.repair.streams import (
    restore_from_catalog,
    restore_from_rows,
    settle_forks,
    settle_paths,
)
from durable_sessions.tools.verify import Findings
from durable_sessions.tools.verify.coverage import check_coverage
from durable_sessions.tools.verify.inventory import Inventory
from durable_sessions.tools.verify.segments import CheckedSegment, check_segment


@pytest.fixture
def inventory(tmp_path: Path) -> Iterator[Inventory]:
    inventory = Inventory(tmp_path / "inventory.sqlite", ONLY_PARTITION)
    yield inventory
    inventory.close()


def stream(number: int, tail: int, path: str = "", **fields: object) -> Stream:
    key = Key("default", path or f"s{number}")
    made = Stream(number, key, "application/json", tail, None, None, 1, 1, 1)
    return replace(made, **fields)  # type: ignore[arg-type]


def segment(number: int, first: int, following: int, path: str = "") -> CheckedSegment:
    """Return an intact segment with the records of one stream."""
    message = b'{"n":1},'
    appends = [AppendRun(at, 1_000, (len(message),), message) for at in range(first, following)]
    name = path or f"s{number}"
    encoded = encode_segment([StreamRecords(number, "default", name, "application/json", appends)])
    return check_segment(encoded.info(f"segment-{number}-{first}"), encoded.data, Findings())


def told(plan: Plan) -> list[str]:
    return [f"{action.where}: {action.what}" for action in plan.actions]


def of_forks(inventory: Inventory) -> list[str]:
    """Return what verification finds wrong about forks and paths."""
    findings = Findings()
    check_coverage(inventory, findings)
    return [one.problem for one in findings.problems if "no segment holds" not in one.problem]


# Rows -----------------------------------------------------------------------------------


def test_a_stream_is_restored_from_its_rows(inventory: Inventory) -> None:
    restored = restore_from_rows(inventory, [segment(7, 0, 4), segment(7, 4, 6)])
    assert [one.id for one in restored] == [7]
    found = inventory.load(Key("default", "s7"))
    assert found is not None
    assert (found.id, found.tail, found.content_type, found.created_at_ms) == (
        7,
        6,
        "application/json",
        1_000,
    )


def test_a_known_stream_reaches_to_its_last_record_and_is_else_as_it_was(inventory: Inventory) -> None:
    inventory.put([stream(7, 3, ttl_seconds=60), stream(8, 9)])
    assert restore_from_rows(inventory, [segment(7, 0, 5), segment(8, 0, 5)]) == []
    seven, eight = inventory.load_id(7), inventory.load_id(8)
    assert seven is not None
    assert eight is not None
    assert (seven.tail, seven.ttl_seconds) == (5, 60)
    assert eight.tail == 9, "what is flushed later may be in another segment"


def test_a_removed_stream_does_not_come_back(inventory: Inventory) -> None:
    inventory.put([stream(7, 3)])
    inventory.remove([7])
    assert restore_from_rows(inventory, [segment(7, 0, 3)]) == []
    assert inventory.load_id(7) is None


def test_of_two_streams_at_a_path_the_newer_one_stays(inventory: Inventory) -> None:
    inventory.put([stream(9, 2, "shared")])
    assert restore_from_rows(inventory, [segment(7, 0, 3, "shared")]) == []
    assert [one.id for one in restore_from_rows(inventory, [segment(11, 0, 3, "shared")])] == [11]
    assert inventory.load_id(9) is None
    assert inventory.was_removed(9)


def test_a_segment_that_cannot_be_read_restores_nothing(inventory: Inventory) -> None:
    intact = segment(7, 0, 3)
    findings = Findings()
    unreadable = check_segment(intact.info, None, findings)
    assert restore_from_rows(inventory, [unreadable]) == []
    assert inventory.count() == 0


# Paths and forks ------------------------------------------------------------------------


def test_only_the_newest_stream_keeps_its_path(inventory: Inventory) -> None:
    inventory.put([stream(1, 2, "shared"), stream(5, 2, "shared"), stream(3, 2, "shared"), stream(4, 2)])
    plan = Plan()
    assert settle_paths(inventory, plan)
    assert sorted(inventory.numbers()) == [4, 5]
    assert told(plan) == [
        "stream 1: its path was used again by stream 5, so it had been removed",
        "stream 3: its path was used again by stream 5, so it had been removed",
    ]
    assert not settle_paths(inventory, Plan()), "a second repair finds nothing"


def test_streams_that_share_a_path_after_one_was_freed_are_both_right(inventory: Inventory) -> None:
    inventory.put([stream(1, 2, "shared", freed=True, soft_deleted=True, forks=1), stream(5, 2, "shared")])
    assert not settle_paths(inventory, Plan())


def test_a_fork_whose_source_is_lost_stands_alone(inventory: Inventory) -> None:
    inventory.put([stream(2, 6, parent=1, base=4), stream(3, 8, parent=2, base=6)])
    plan = Plan()
    assert settle_forks(inventory, plan)
    alone, fork = inventory.load_id(2), inventory.load_id(3)
    assert alone is not None
    assert fork is not None
    assert (alone.parent, alone.base, alone.tail, alone.forks) == (None, 0, 6, 1)
    assert (fork.parent, fork.base) == (2, 6), "its own source is there"
    assert told(plan)[0] == "stream 2: its source, stream 1, is lost; it stands alone now"
    assert of_forks(inventory) == []


def test_a_source_reaches_to_where_its_last_fork_begins(inventory: Inventory) -> None:
    inventory.put([stream(1, 2, forks=2), stream(2, 4, parent=1, base=4), stream(3, 3, parent=1, base=3)])
    plan = Plan()
    assert settle_forks(inventory, plan)
    source = inventory.load_id(1)
    assert source is not None
    assert (source.tail, source.forks) == (4, 2)
    assert told(plan) == ["stream 1: it reaches to 4, where stream 2 was forked"]
    assert of_forks(inventory) == []


def test_forks_are_counted_again(inventory: Inventory) -> None:
    inventory.put([stream(1, 2, forks=5), stream(2, 2, parent=1, base=2), stream(3, 1, forks=1)])
    plan = Plan()
    assert settle_forks(inventory, plan)
    assert told(plan) == ["stream 1: it has 1 forks, not 5", "stream 3: it has 0 forks, not 1"]
    assert of_forks(inventory) == []
    again = Plan()
    assert not settle_forks(inventory, again)
    assert again.actions == []


# The catalog ----------------------------------------------------------------------------


def test_only_an_intact_catalog_of_the_manifest_restores_streams(
    inventory: Inventory, tmp_path: Path
) -> None:
    inventory.put([stream(1, 2)])
    missing, damaged, other = tmp_path / "none", tmp_path / "damaged.sqlite", tmp_path / "other.sqlite"
    damaged.write_bytes(b"SQLite format 3\0" + b"x" * 5_000)
    with sqlite3.connect(other) as connection:
        connection.execute("create table streams (id integer)")
    connection.close()
    for catalog in (missing, damaged, other):
        folder = tmp_path / f"copies-{catalog.name}"
        folder.mkdir()
        assert restore_from_catalog(inventory, catalog, folder, 3) is None
        assert inventory.numbers() == [1], "what was known stays known"
