"""Which partition something belongs to."""

from itertools import pairwise
from pathlib import Path

import pytest

from durable_sessions.partition_id import (
    ONLY_PARTITION,
    PARTITIONS_MAX,
    STREAMS_MAX,
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
