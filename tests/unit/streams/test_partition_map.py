"""Which partition a stream is in."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from durable_sessions.partition_id import PARTITIONS_MAX, SYSTEM
from durable_sessions.streams.partition_map import home_partition


@pytest.mark.parametrize(
    ("workspace", "path", "of", "partition"),
    [
        ("default", "sessions/build-42", 2, 1),
        ("default", "sessions/build-43", 2, 0),
        ("default", "sessions/build-42", 8, 1),
        ("default", "sessions/build-43", 8, 6),
        ("team", "sessions/build-42", 8, 7),
        ("default", "sessions/größe", 100, 89),
        ("default", "__agents/agent_1", 8, 0),
    ],
)
def test_the_mapping_never_changes(workspace: str, path: str, of: int, partition: int) -> None:
    """Stored data lies where this function said; another result would lose it."""
    assert home_partition(workspace, path, of) == partition


@given(st.text(max_size=20), st.text(max_size=40), st.integers(1, PARTITIONS_MAX))
def test_every_path_has_a_partition(workspace: str, path: str, of: int) -> None:
    found = home_partition(workspace, path, of)
    assert found in range(of) or (found == SYSTEM and workspace == "" and of > 1)


def test_a_folder_of_the_server_is_in_one_partition() -> None:
    for folder in ("__agents", "__memory"):
        places = {home_partition("default", f"{folder}/{number}", 8) for number in range(100)}
        assert places == {home_partition("default", folder, 8)}
    assert len({home_partition("default", f"agents/{number}", 8) for number in range(100)}) == 8


def test_what_belongs_to_no_workspace_is_in_the_system_partition() -> None:
    assert home_partition("", "keys/key_1", 8) == SYSTEM
    assert home_partition("", "keys/key_1", 1) == 0


def test_workspace_and_path_are_told_apart() -> None:
    places = [(home_partition("a", f"b{n}", 100), home_partition("ab", f"{n}", 100)) for n in range(50)]
    assert sum(one == other for one, other in places) < 10


def test_sessions_spread_evenly() -> None:
    spread = Counter(home_partition("default", f"sessions/{number}", 8) for number in range(8_000))
    assert min(spread.values()) > 850
    assert max(spread.values()) < 1_150


def test_memory_stores_are_where_their_memories_are() -> None:
    for workspace in ("default", "a", "b"):
        homes = {home_partition(workspace, path, 8) for path in ("__memory/store:m", "__memory_stores/m")}
        assert len(homes) == 1
