"""Which partition something belongs to."""

from datetime import date
from itertools import pairwise
from pathlib import Path

import pytest

from durable_sessions.bucket.layout import FlushedName, FlushedNames, events_path, sessions_path
from durable_sessions.partition_id import (
    GENERATIONS_MAX,
    ONLY_PARTITION,
    PARTITIONS_MAX,
    STREAMS_MAX,
    SYSTEM,
    PartitionId,
    same_partition,
)


def test_the_only_partition_is_what_there_always_was() -> None:
    assert PartitionId() == ONLY_PARTITION == PartitionId(0, of=1)
    assert ONLY_PARTITION.digits == "00"
    assert ONLY_PARTITION.streams.start == 1
    assert ONLY_PARTITION.directory(Path("data")) == Path("data")


def test_no_stream_number_is_of_two_partitions() -> None:
    ranges = [PartitionId(number, of=PARTITIONS_MAX).streams for number in range(PARTITIONS_MAX)]
    for before, following in pairwise(ranges):
        assert before.stop <= following.start
        assert len(before) == STREAMS_MAX - 1
        assert same_partition(before.start, before[-1])
        assert not same_partition(before[-1], following.start)
    assert PartitionId(5, of=8).streams.start == (5 << 40) + 1
    assert ranges[-1].stop < 2**53, "exact as a float, too"


def test_each_partition_has_names_and_a_directory_of_its_own() -> None:
    all_of_them = [PartitionId(number, of=PARTITIONS_MAX) for number in range(PARTITIONS_MAX)]
    assert [one.digits for one in all_of_them] == sorted({one.digits for one in all_of_them})
    assert {len(one.digits) for one in all_of_them} == {2}
    assert len({one.directory(Path("data")) for one in all_of_them}) == PARTITIONS_MAX
    assert PartitionId(5, of=8).directory(Path("data")) == Path("data/partitions/05")


@pytest.mark.parametrize(("number", "of"), [(-1, 1), (1, 1), (0, 0), (8, 8), (0, PARTITIONS_MAX + 1)])
def test_a_partition_that_cannot_be_is_refused(number: int, of: int) -> None:
    with pytest.raises(ValueError, match=f"no partition {number} of {of}"):
        PartitionId(number, of)
    PartitionId(PARTITIONS_MAX - 1, PARTITIONS_MAX)


def test_keys_are_in_the_system_partition() -> None:
    assert ONLY_PARTITION.is_system
    assert ONLY_PARTITION.all() == [ONLY_PARTITION]
    every = PartitionId(1, of=2).all()
    assert [one.number for one in every] == [0, 1, SYSTEM]
    assert [one.is_system for one in every] == [False, False, True]
    assert every[-1].digits == "sys"
    assert every[-1].streams.start > PartitionId(PARTITIONS_MAX - 1, PARTITIONS_MAX).streams[-1]
    assert every[-1].streams.stop < 2**53
    with pytest.raises(ValueError, match="no partition"):
        PartitionId(SYSTEM, of=1)


def test_two_generations_write_no_name_twice() -> None:
    first, second = PartitionId(0, of=2), PartitionId(0, of=2, generation=1)
    assert second.digits == "1-00"
    assert PartitionId(SYSTEM, of=2, generation=12).digits == "12-sys"
    assert second.directory(Path("data")) == Path("data/partitions/1-00")
    assert second.all()[1].directory(Path("data")) == Path("data/partitions/1-01")
    for path in (events_path(date(2026, 1, 2), second, 7), sessions_path(second, 7)):
        assert FlushedNames(second).parse(path) == FlushedName(7, 0, 0)
        assert FlushedNames(first).parse(path) is None
    assert FlushedNames(second).parse(events_path(date(2026, 1, 2), first, 7)) is None
    with pytest.raises(ValueError, match="generation -1"):
        PartitionId(0, 1, -1)


def test_later_generations_number_their_streams_above_all_earlier_ones() -> None:
    last = GENERATIONS_MAX - 1
    ranges = [
        PartitionId(number, of=100, generation=generation).streams
        for generation in (0, 1, 2, last)
        for number in (0, 1, 99, SYSTEM)
    ]
    assert all(one.stop <= following.start for one, following in pairwise(ranges))
    assert ranges[-1].stop < 2**53
    with pytest.raises(ValueError, match=f"{GENERATIONS_MAX} generations"):
        PartitionId(0, of=1, generation=GENERATIONS_MAX)
