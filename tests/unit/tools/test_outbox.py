"""Verifying, dumping and repairing what a partition owes to others."""

from pathlib import Path

import pytest

from durable_sessions.bucket.store import Bucket
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.streams.effects import OutboxDelivered
from durable_sessions.streams.stream import Key
from durable_sessions.testing.bucket import FaultyBucket
from durable_sessions.tools.dump.flushed import subscription_items
from durable_sessions.tools.dump.log import StreamPaths, log_items
from durable_sessions.tools.verify import verify
from tests.unit.tools.damage import flip
from tests.unit.tools.datadir import DataDirectory
from tests.unit.tools.test_repair_cut_off import repaired

pytestmark = pytest.mark.anyio

TARGET = Key("", "audit/default")


async def owe(opened: DataDirectory, *records: bytes) -> None:
    for record in records:
        await opened.partition.commit(
            lambda state, now_ms, data=record: (state.outbox.owe([(TARGET, data)], 10**6), None)  # type: ignore[misc]
        )


async def owed(data: Path) -> list[bytes]:
    async with DataDirectory(data) as opened:
        return [one.data for line in opened.partition.tip.outbox.pending() for one in line]


@pytest.fixture
async def data(tmp_path: Path) -> Path:
    """Return a directory that owes records in the bucket and in the log; the first one is delivered."""
    data = tmp_path / "data"
    async with DataDirectory(data) as opened:
        await owe(opened, b"1", b"2")
        await opened.flush()
        await opened.partition.commit(lambda state, now_ms: ([OutboxDelivered(*TARGET, 1)], None))
        await owe(opened, b"3")
        await opened.flush()
        await owe(opened, b"4")
    return data


async def test_it_is_verified_and_dumped(data: Path) -> None:
    assert (await verify(await Bucket.open(data / "bucket"), data, partition=ONLY_PARTITION)).problems == []
    assert await owed(data) == [b"2", b"3", b"4"]
    in_log = [
        effect
        for item in log_items(data / "log", 0, StreamPaths())
        for effect in item.get("effects", ())  # type: ignore[attr-defined]  # a list, if it is there
    ]
    assert in_log[-1]["effect"] == "OutboxAdded"
    assert (in_log[-1]["path"], in_log[-1]["data"]) == (TARGET.path, b"4")
    objects = sorted((data / "bucket/partitions/00/subscriptions").iterdir())
    flushed = [item for one in objects for item in subscription_items(one.name, one.read_bytes())]
    assert {"OutboxAdded", "OutboxDelivered"} <= {str(item.get("effect")) for item in flushed}


async def test_a_damaged_object_costs_only_what_it_alone_had(data: Path, tmp_path: Path) -> None:
    (changes,) = (data / "bucket/partitions/00/subscriptions").glob("*.changes")
    flip(changes, 3)
    bucket = FaultyBucket(await Bucket.open(data / "bucket"))
    await repaired(data, tmp_path / "folder", bucket)
    assert (await verify(bucket, data, partition=ONLY_PARTITION)).problems == []
    left = await owed(data)
    assert left == [b"1", b"2", b"4"], "what was delivered before is delivered again, and taken once"
    async with DataDirectory(data) as opened:
        await owe(opened, b"5")
        numbers = [one.id.number for line in opened.partition.tip.outbox.pending() for one in line]
    assert numbers[-1] > 4, "a number that a lost record had is not used again"
