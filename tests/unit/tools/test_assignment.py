"""Which partition a stream goes to: each to one, families together, and every exception is noted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.partition_id import PartitionId
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.stream import Key
from durable_sessions.tools.repartition.assignment import FamilyMember, assign

PATHS = st.text("ab/_é", min_size=1, max_size=6)
KEYS = st.builds(Key, st.sampled_from(["", "default", "other"]), PATHS)


@st.composite
def all_members(draw: st.DrawFn) -> list[FamilyMember]:
    """Return streams as a bucket may have them: forks of earlier ones, and deleted ones that have forks."""
    keys = draw(st.lists(KEYS, unique=True, max_size=30))
    numbers = draw(st.lists(st.integers(1, 2**47), unique=True, min_size=len(keys), max_size=len(keys)))
    members: list[FamilyMember] = []
    for number, key in zip(sorted(numbers), keys, strict=True):
        sources = [member.number for member in members if member.key.workspace == key.workspace != ""]
        parent = draw(st.sampled_from([None, *sources]))
        members.append(FamilyMember(number, key, parent))
    forked = {member.parent for member in members if member.parent is not None}
    deleted = {number for number in sorted(forked) if draw(st.booleans())}
    return draw(st.permutations([one._replace(deleted=one.number in deleted) for one in members]))


def roots(members: list[FamilyMember]) -> dict[int, int]:
    parents = {member.number: member.parent for member in members}
    found = {}
    for member in members:
        root = member.number
        while (parent := parents[root]) is not None:
            root = parent
        found[member.number] = root
    return found


@given(all_members(), st.integers(1, 100))
def test_each_stream_is_in_one_partition_with_its_family(
    members: list[FamilyMember], partitions: int
) -> None:
    assignment = assign(members, partitions)
    known = {one.number for one in PartitionId(0, partitions).all()}
    assert assignment.streams.keys() <= known
    where = {number: partition for partition, held in assignment.streams.items() for number in held}
    assert sorted(where) == sorted(member.number for member in members)
    assert sum(map(len, assignment.streams.values())) == len(members)
    root_of = roots(members)
    for number, partition in where.items():
        assert partition == where[root_of[number]]
    for member in members:
        home = home_partition(*member.key, of=partitions)
        assert assignment.placed.get(member.key, home) == where[member.number]
        assert (member.key in assignment.placed) == (home != where[member.number])


@given(all_members(), st.integers(1, 100))
def test_the_path_that_decides_is_that_of_the_root_or_else_of_the_first_that_lives(
    members: list[FamilyMember], partitions: int
) -> None:
    assignment, by_number = assign(members, partitions), {member.number: member for member in members}
    where = {number: partition for partition, held in assignment.streams.items() for number in held}
    families: dict[int, list[FamilyMember]] = {}
    for number, root in roots(members).items():
        families.setdefault(root, []).append(by_number[number])
    for root, family in families.items():
        living = sorted(member.number for member in family if not member.deleted)
        decider = by_number[root if not by_number[root].deleted else living[0]]
        assert where[root] == home_partition(*decider.key, of=partitions)


@given(all_members(), st.integers(2, 8), st.integers(2, 8))
def test_it_does_not_depend_on_the_order_or_on_earlier_divisions(
    members: list[FamilyMember], first: int, second: int
) -> None:
    """The result is a function of the streams alone, so that 1 → 3 → 2 is the same as 1 → 2."""
    assign(members, first)
    one, other = assign(members, second), assign(members[::-1], second)
    assert {p: sorted(held) for p, held in one.streams.items()} == {
        p: sorted(held) for p, held in other.streams.items()
    }
    assert one.placed == other.placed


@pytest.mark.parametrize("partitions", [1, 2, 100])
def test_nothing_is_divided_too(partitions: int) -> None:
    assert assign([], partitions) == ({}, {})
