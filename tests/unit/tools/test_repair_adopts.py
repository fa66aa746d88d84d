"""What was flushed is found again when neither its manifest nor the log is there any more."""

import shutil
from pathlib import Path

import pytest

from durable_sessions.bucket.store import Bucket
from durable_sessions.clock import SystemClock
from durable_sessions.ids import RandomIds
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.tools.repair import Plan, Repair
from durable_sessions.tools.verify import verify
from tests.unit.tools.damage import flip, manifests
from tests.unit.tools.datadir import DataDirectory, make

pytestmark = pytest.mark.anyio


async def repaired(data: Path, folder: Path) -> Plan:
    folder.mkdir()
    repair = Repair(await Bucket.open(data / "bucket"), data, folder, ONLY_PARTITION)
    try:
        plan = await repair.plan()
        await repair.apply(SystemClock(), RandomIds())
    finally:
        repair.close()
    return plan


@pytest.mark.parametrize("catalog", [True, False], ids=["catalog", "no catalog"])
async def test_objects_that_nothing_names_any_more_are_taken_over(tmp_path: Path, catalog: bool) -> None:
    data = tmp_path / "data"
    before = await make(data)
    for manifest in manifests(data):
        flip(manifest, 5)
    shutil.rmtree(data / "log")
    if not catalog:
        (data / "catalog.sqlite").unlink()
    plan = await repaired(data, tmp_path / "folder")
    said = " ".join(action.what for action in plan.actions)
    taken = "it still knows all streams" if catalog else "its streams are taken over"
    assert taken in said
    assert plan.losses == []
    assert (await verify(await Bucket.open(data / "bucket"), data, partition=ONLY_PARTITION)).problems == []
    async with DataDirectory(data) as opened:
        after = await opened.held()
        await opened.append("a", b'"new"')
    assert after.keys() == before.keys()
    for path, records in after.items():
        assert records == before[path][: len(records)]
        assert len(records) >= len(before[path]) * 2 // 3, "five of six parts were flushed"
