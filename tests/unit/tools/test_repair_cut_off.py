"""A repair that dies at any call to the bucket can be run again, and ends as if nothing had happened."""

import asyncio
import shutil
from pathlib import Path
from typing import Literal

import pytest

from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.errors import BucketError
from durable_sessions.ids import RandomIds
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.testing.bucket import FaultyBucket
from durable_sessions.tools.repair import Plan, Repair
from durable_sessions.tools.verify import verify
from tests.unit.tools.damage import (
    flip,
    logs,
    make_with_subscriptions,
    manifests,
    newest,
    subscription_object,
    subscriptions_of,
)
from tests.unit.tools.datadir import DataDirectory

pytestmark = pytest.mark.anyio

Records = dict[str, list[object]]
CHANGES = ("create", "put", "delete")
Moment = Literal["fail", "lose_answer"]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("sound") / "data"
    asyncio.run(make_with_subscriptions(data, "first", "second"))
    return data


@pytest.fixture(scope="module")
def damaged(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that is damaged in each of its parts."""
    data = tmp_path_factory.mktemp("damaged") / "data"
    shutil.copytree(sound, data)
    held = asyncio.run(newest(data))
    flip(data / "bucket" / held.segments[0].path, 60)
    flip(data / "bucket" / held.checkpoints[-1].path, 40)
    flip(manifests(data)[0], 5)
    flip(logs(data)[-1], 300)
    (data / "bucket/format.json").write_bytes(b"{")
    (data / "catalog.sqlite").unlink()
    return data


async def repaired(data: Path, folder: Path, bucket: FaultyBucket) -> Plan:
    folder.mkdir()
    repair = Repair(bucket, data, folder, ONLY_PARTITION)
    try:
        plan = await repair.plan()
        if plan.actions:
            await repair.apply(SystemClock(), RandomIds())
    finally:
        repair.close()
    return plan


async def records(data: Path) -> Records:
    async with DataDirectory(data) as opened:
        return await opened.held()


@pytest.mark.parametrize("moment", ["fail", "lose_answer"], ids=["before the call", "after the call"])
async def test_a_repair_that_dies_is_run_again(damaged: Path, tmp_path: Path, moment: Moment) -> None:
    whole = tmp_path / "whole"
    shutil.copytree(damaged, whole)
    bucket = FaultyBucket(await Bucket.open(whole / "bucket"))
    plan = await repaired(whole, tmp_path / "folder", bucket)
    assert plan.losses, "the damage costs records, so that there is something to get wrong"
    calls = [call for call in bucket.calls if call.operation in CHANGES]
    assert {call.operation for call in calls} == set(CHANGES)
    expected = await records(whole)
    for point, call in enumerate(calls):
        data = tmp_path / f"data{point}"
        shutil.copytree(damaged, data)
        bucket = FaultyBucket(await Bucket.open(data / "bucket"))
        skip = [one.operation for one in calls[:point]].count(call.operation)
        bucket.order(moment, call.operation, skip=skip)
        with pytest.raises(BucketError):
            await repaired(data, tmp_path / f"first{point}", bucket)
        await repaired(data, tmp_path / f"second{point}", bucket)
        assert (await verify(bucket, data, partition=ONLY_PARTITION)).problems == [], call
        assert await records(data) == expected, call


async def test_subscriptions_go_back_to_the_newest_that_can_be_read(sound: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(sound, data)
    changes = sorted((data / "bucket/partitions/00/subscriptions").glob("*.changes"))
    flip(changes[-1], 3)
    bucket = FaultyBucket(await Bucket.open(data / "bucket"))
    plan = await repaired(data, tmp_path / "folder", bucket)
    assert [one for one in plan.actions if one.what.startswith("the subscriptions are those of flush ")]
    assert await subscriptions_of(data) == ["first"]


async def test_subscriptions_without_a_copy_are_said_to_be_lost(sound: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    shutil.copytree(sound, data)
    path = subscription_object(await newest(data)).path
    (data / "bucket" / path).unlink()
    bucket = FaultyBucket(await Bucket.open(data / "bucket"))
    plan = await repaired(data, tmp_path / "folder", bucket)
    said = [one.what for one in plan.actions if one.where == path]
    assert any(one.startswith("there is no other copy: all subscriptions are lost") for one in said)
    assert (await verify(bucket, data, partition=ONLY_PARTITION)).problems == []
    assert await subscriptions_of(data) == []
