"""Which node should own each partition."""

from collections import Counter
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.cluster.assignment import NO_WISHES, OperatorWishes, assign, share_max

SYSTEM = 100
names = st.sets(st.text("abcdef0123456789-.:", min_size=1, max_size=12), min_size=1, max_size=12)


def spread(partitions: int, nodes: Collection[str], wishes: OperatorWishes = NO_WISHES) -> dict[int, str]:
    return assign(range(partitions), nodes, wishes, light=(SYSTEM,))


@given(nodes=names, partitions=st.integers(1, 40))
def test_every_partition_has_an_owner_and_nobody_more_than_a_share(nodes: set[str], partitions: int) -> None:
    owners = spread(partitions, nodes)
    assert set(owners) == {*range(partitions), SYSTEM}
    loads = Counter(owners[number] for number in range(partitions))
    assert max(loads.values()) <= share_max(partitions, len(nodes))
    assert set(owners.values()) <= nodes


@given(
    nodes=names,
    partitions=st.integers(1, 20),
    wished=st.dictionaries(st.integers(0, 30) | st.just(SYSTEM), st.integers(0, 11), max_size=20),
    drained=st.sets(st.integers(0, 11)),
)
def test_wishes_hold_for_nodes_that_live_and_are_not_drained(
    nodes: set[str], partitions: int, wished: dict[int, int], drained: set[int]
) -> None:
    known = [*sorted(nodes), *(f"away{number}" for number in range(12))]
    wishes = OperatorWishes(
        {number: known[at] for number, at in wished.items()}, frozenset(known[at] for at in drained)
    )
    owners = spread(partitions, nodes, wishes)
    eligible = nodes - wishes.drained or nodes
    assert set(owners) == {*range(partitions), SYSTEM}
    assert set(owners.values()) <= eligible
    for number, name in wishes.overrides.items():
        if number in owners and name in eligible:
            assert owners[number] == name


def test_the_order_of_names_changes_nothing() -> None:
    assert spread(8, ["a", "b", "c"]) == spread(8, ["c", "a", "b", "a"])


def test_what_is_assigned_stays_so_in_every_version() -> None:
    """Nodes of two versions must agree, so that this function never changes."""
    owners = spread(8, ["node-0", "node-1", "node-2"])
    assert [owners[number][-1] for number in (*range(8), SYSTEM)] == [*"121221001"]


@pytest.mark.parametrize(("nodes", "partitions"), [(10, 100), (50, 100), (300, 600)])
def test_a_node_that_comes_or_goes_moves_little_else(nodes: int, partitions: int) -> None:
    fewer = {f"node-{number}" for number in range(nodes)}
    more = fewer | {"another"}
    before, after = spread(partitions, fewer), spread(partitions, more)
    untouched = [number for number in range(partitions) if after[number] != "another"]
    assert sum(before[number] != after[number] for number in untouched) < partitions / 2


def test_without_nodes_nobody_owns_anything() -> None:
    assert spread(4, []) == {}
