"""Compares a new generation with the old one before it is committed: nothing may be lost or changed."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing

from durable_sessions.bucket.checkpoint import read_checkpoint
from durable_sessions.bucket.manifest import Manifests
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import RepartitionRefusedError
from durable_sessions.tools.repartition.members import members_of
from durable_sessions.tools.repartition.new_generation import NewPartition
from durable_sessions.tools.stopped_partition import Stopped, StoppedPartition
from durable_sessions.tools.verify import CATALOG_NAME

_HERE = (
    "select stream, first, next, segment from main.extents"
    " where stream in (select id from main.streams join old.streams using (id))"
)
_THERE = "select stream, first, next, segment from old.extents where stream in (select id from main.streams)"
_DIFFERENT = (
    "select count(*) from main.streams join old.streams as before using (id)"
    " where before.state <> streams.state",
    f"select count(*) from ({_HERE} except {_THERE})",  # noqa: S608
    f"select count(*) from ({_THERE} except {_HERE})",  # noqa: S608
)


async def check_generation(
    stopped: Stopped, bucket: ObjectStore, old: Sequence[StoppedPartition], new: Sequence[NewPartition]
) -> int:
    """Compare every stream, as it is read back from the bucket, with the old one; return how many there are.

    Its state must be the same, byte for byte, and its records must be at the same places in the same
    segments. These are identified by digests, so the bytes of every stream are the same, too.
    """
    found: set[int] = set()
    for partition in new:
        catalog = partition.id.directory(stopped.settings.data) / CATALOG_NAME
        with closing(sqlite3.connect(catalog)) as connection:
            numbers = await _read_back(bucket, partition, connection)
            for one in old:
                _compare(connection, one, partition)
        if not found.isdisjoint(numbers):
            raise _differs(f"partition {partition.id.digits} has streams that another one has, too")
        found.update(numbers - partition.notes)
    there = [member.number for member in members_of(old)]
    if len(there) != len(found) or found != set(there):
        raise _differs(f"there are {len(found)} streams, and there were {len(there)}")
    digests = {info.path: info.sha256 for one in old for info in one.archive.manifest.segments}
    for partition in new:
        for info in partition.manifest.segments:
            if digests.get(info.path) != info.sha256:
                raise _differs(f"{info.path} is not a segment of the old generation")
    return len(found)


async def _read_back(
    bucket: ObjectStore, partition: NewPartition, connection: sqlite3.Connection
) -> set[int]:
    """Return the numbers of the streams in the checkpoint, which must be those of the catalog."""
    if await Manifests(bucket, partition.id).newest() != partition.manifest:
        raise _differs(f"another process writes manifests of partition {partition.id.digits}")
    numbers: set[int] = set()
    for info in partition.manifest.checkpoints:
        for row in await read_checkpoint(bucket, info):
            known = connection.execute("select state from streams where id = ?", (row.stream,)).fetchone()
            if known is None or known[0] != row.state:
                raise _differs(f"the checkpoint of partition {partition.id.digits} differs from its catalog")
            numbers.add(row.stream)
    if len(numbers) != partition.streams:
        raise _differs(f"the checkpoint of partition {partition.id.digits} lacks streams")
    return numbers


def _compare(connection: sqlite3.Connection, old: StoppedPartition, new: NewPartition) -> None:
    """Compare the streams that a new partition has from an old one with what they were."""
    connection.execute("attach database ? as old", (str(old.catalog),))
    try:
        for query in _DIFFERENT:
            count = connection.execute(query).fetchone()[0]
            if count:
                raise _differs(f"{count} rows of partition {new.id.digits} are not those of {old.id.digits}")
    finally:
        connection.execute("detach database old")


def _differs(problem: str) -> RepartitionRefusedError:
    return RepartitionRefusedError(problem=f"{problem}. Nothing was changed; please report this.")
