"""The last check before a new generation is committed: a generation that is not the old one never holds."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from durable_sessions.bucket.layout import manifests_prefix
from durable_sessions.bucket.manifest import decode_manifest, encode_manifest
from durable_sessions.bucket.partition_layout import PartitionLayout, read_layout
from durable_sessions.bucket.store import Bucket
from durable_sessions.errors import RepartitionRefusedError
from durable_sessions.partition_id import PartitionId
from durable_sessions.tools.repartition import Repartition
from durable_sessions.tools.verify import CATALOG_NAME
from tests.support.stopped import stopped
from tests.unit.tools.datadir import DataDirectory, make

pytestmark = pytest.mark.anyio

NEW = PartitionLayout(generation=1, partitions=2)
Harm = Callable[[Path], None]


def catalog_of(data: Path, partition: PartitionId) -> Path:
    return partition.directory(data) / CATALOG_NAME


def catalog_with(data: Path, table: str) -> Path:
    """Return the catalog of a new partition that has rows in a table."""
    for one in NEW.all:
        with closing(sqlite3.connect(catalog_of(data, one))) as connection:
            if connection.execute(f"select count(*) from {table}").fetchone()[0]:
                return catalog_of(data, one)
    raise AssertionError(f"no new partition has rows in {table}")


def changed(table: str, statement: str) -> Harm:
    """Return what carries out a statement on the catalog of a new partition."""

    def harm(data: Path) -> None:
        with closing(sqlite3.connect(catalog_with(data, table))) as connection, connection:
            assert connection.execute(statement).rowcount > 0

    return harm


def fenced(data: Path) -> None:
    """Let somebody else write the next manifest of a new partition."""
    folder = data / "bucket" / manifests_prefix(NEW.all[0])
    newest = max(folder.iterdir())
    manifest = decode_manifest(newest.read_bytes(), newest.name)
    following = msgspec.structs.replace(manifest, number=manifest.number + 1, writer="writer_other")
    path = newest.with_name(f"{following.number:0{len(newest.stem)}d}.json")
    path.write_bytes(encode_manifest(following))


ONE_STREAM = "(select min(id) from streams where id in (select stream from extents))"


@pytest.mark.parametrize(
    ("harm", "told"),
    [
        pytest.param(
            changed("extents", f"update streams set state = x'00' where id = {ONE_STREAM}"),
            "differs from its catalog",
            id="another state of a stream",
        ),
        pytest.param(
            changed("extents", f"delete from streams where id = {ONE_STREAM}"),
            "differs from its catalog",
            id="a stream too few in the catalog",
        ),
        pytest.param(
            changed("extents", f"delete from extents where stream = {ONE_STREAM}"),
            "are not those of",
            id="records too few",
        ),
        pytest.param(
            changed("extents", f"update extents set segment = segment || '2' where stream = {ONE_STREAM}"),
            "are not those of",
            id="records in another segment",
        ),
        pytest.param(fenced, "another process writes manifests", id="another writer"),
    ],
)
async def test_a_generation_that_is_not_the_old_one_is_refused(tmp_path: Path, harm: Harm, told: str) -> None:
    data = tmp_path / "data"
    records = await make(data)
    bucket = await Bucket.open(data / "bucket")
    steps: list[str] = []

    def step(name: str) -> None:
        steps.append(name)
        if name == "compare both generations":
            harm(data)

    with pytest.raises(RepartitionRefusedError, match=told) as refused:
        await Repartition(stopped(data), bucket, step).run(NEW.partitions)
    assert "Nothing was changed" in str(refused.value)
    assert "commit the new layout" not in steps
    assert await read_layout(bucket) == PartitionLayout()
    async with DataDirectory(data) as opened:
        assert await opened.held() == records


async def test_a_stream_that_no_new_partition_has_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    await make(data)
    bucket = await Bucket.open(data / "bucket")

    def step(name: str) -> None:
        if name == "compare both generations":
            with closing(sqlite3.connect(data / CATALOG_NAME)) as connection, connection:
                connection.execute(
                    "insert into streams select max(id) + 1, workspace, path || '-more', folder,"
                    " soft_deleted, freed, removal_ms, record_bytes, state, parent, base, erased, began_ms,"
                    " updated_ms, active_ms from streams"
                )

    with pytest.raises(RepartitionRefusedError, match=r"there are \d+ streams, and there were \d+"):
        await Repartition(stopped(data), bucket, step).run(NEW.partitions)
    assert await read_layout(bucket) == PartitionLayout()
