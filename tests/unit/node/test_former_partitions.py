"""What a node has derived from partitions that are another's now leaves its disk; what it uses stays."""

import asyncio
import os
from dataclasses import replace
from pathlib import Path

import pytest

from durable_sessions.clock import ManualClock
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.node.former_partitions import FormerPartitions
from durable_sessions.partition_id import PartitionId
from tests.support.waiting import until

pytestmark = pytest.mark.anyio

PARTITION = PartitionId(1, 2)
NOW = 1_700_000_000
SEARCH = ("search/default/segment.store", "search/default/meta.json")
VIEWS = ("views.sqlite", "views.sqlite-wal")
CATALOG = ("catalog.sqlite", "catalog.sqlite-wal")
OTHERS = ("artifact-names.sqlite", "imports-known")


class Node:
    """A node with files of a partition, which were written some time ago."""

    def __init__(self, data: Path, within_seconds: float = 1000.0) -> None:
        limits = replace(DEFAULT_LIMITS, delete_within_seconds=within_seconds)
        self.directory = PARTITION.directory(data)
        self.clock = ManualClock(NOW * 1000)
        self.owned: set[int] = set()
        self.followed: set[int] = set()
        self.former = FormerPartitions(
            data, PARTITION.all(), limits, self.clock, self.owned.__contains__, self.followed.__contains__
        )

    def write(self, *names: str, seconds_ago: float) -> None:
        for name in names:
            path = self.directory / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("a secret that somebody said")
        for path in (self.directory, *self.directory.rglob("*")):
            os.utime(path, (NOW - seconds_ago, NOW - seconds_ago))

    def files(self) -> set[str]:
        return {str(path.relative_to(self.directory)) for path in self.directory.rglob("*") if path.is_file()}

    async def remove(self) -> set[str]:
        await self.former.remove(PARTITION.number)
        return self.files()


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


async def test_what_was_derived_goes_half_way_to_the_limit(node: Node) -> None:
    node.write(*SEARCH, *VIEWS, *CATALOG, *OTHERS, seconds_ago=499)
    assert await node.remove() == {*SEARCH, *VIEWS, *CATALOG, *OTHERS}
    node.clock.advance(1000)
    assert await node.remove() == {*OTHERS}
    assert not (node.directory / "removed").exists()


async def test_what_the_node_owns_or_takes_over_stays(node: Node) -> None:
    node.write(*SEARCH, *VIEWS, *CATALOG, seconds_ago=10_000)
    node.owned.add(PARTITION.number)
    assert await node.remove() == {*SEARCH, *VIEWS, *CATALOG}


async def test_a_catalog_that_is_kept_ready_stays_and_says_nothing_of_the_rest(node: Node) -> None:
    node.write(*SEARCH, *VIEWS, seconds_ago=500)
    node.followed.add(PARTITION.number)
    for name in CATALOG:
        (node.directory / name).write_text("of just now")
    assert await node.remove() == {*CATALOG}


async def test_one_file_of_just_now_keeps_all(node: Node) -> None:
    node.write(*SEARCH, *VIEWS, seconds_ago=10_000)
    path = node.directory / SEARCH[0]
    os.utime(path, (NOW - 1, NOW - 1))
    assert await node.remove() == {*SEARCH, *VIEWS}


async def test_a_partition_that_is_taken_over_while_its_files_are_looked_at_keeps_them(node: Node) -> None:
    node.write(*SEARCH, seconds_ago=10_000)
    removing = asyncio.create_task(node.former.remove(PARTITION.number))
    await asyncio.sleep(0)  # it has begun to look
    node.owned.add(PARTITION.number)
    await removing
    assert node.files() == {*SEARCH}


async def test_what_an_interrupted_removal_left_goes_at_once(node: Node) -> None:
    node.write("removed/12ab-search/meta.json", seconds_ago=0)
    node.owned.add(PARTITION.number)
    assert await node.remove() == set()


async def test_it_looks_again_and_again(tmp_path: Path) -> None:
    node = Node(tmp_path, within_seconds=0.4)
    node.owned.add(PARTITION.number)
    node.write(*SEARCH, *VIEWS, seconds_ago=10_000)
    running = asyncio.create_task(node.former.run())
    await asyncio.sleep(0.1)
    assert node.files() == {*SEARCH, *VIEWS}
    node.owned.clear()
    await until(lambda: not node.files())
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
