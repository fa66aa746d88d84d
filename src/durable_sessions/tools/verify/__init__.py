"""Verification: reads every byte of a stopped server's data and checks it for consistency."""

import tempfile
from pathlib import Path

from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.partition_layout import PartitionLayout
from durable_sessions.log.generations import LOG_NAME
from durable_sessions.node.partition_files import CATALOG_NAME
from durable_sessions.partition_id import PartitionId
from durable_sessions.tools.verify.artifacts import check_artifacts
from durable_sessions.tools.verify.bucket import Examiner, OvertakenError
from durable_sessions.tools.verify.catalog import check_catalog
from durable_sessions.tools.verify.coverage import check_coverage
from durable_sessions.tools.verify.findings import Findings, Problem
from durable_sessions.tools.verify.inventory import Inventory
from durable_sessions.tools.verify.replay import check_log

__all__ = ["CATALOG_NAME", "LOG_NAME", "Findings", "Problem", "verify", "verify_all"]

LOOKS_MAX = 5
"""How often a bucket is examined again because a running server has changed it meanwhile."""


async def verify_all(
    bucket: ObjectStore, data: Path | None, layout: PartitionLayout, *, artifacts: bool = False
) -> Findings:
    """Check all partitions of a layout, each with its log and its catalog in ``data``; changes nothing.

    With ``data`` the caller holds the locks of all logs. Without it a server may be running. ``artifacts``
    are read only if asked for: they may be most of the bucket.
    """
    findings = Findings()
    where: dict[int, str] = {}
    for one in layout.all:
        numbers: list[int] = []
        findings.merge(await verify(bucket, data and one.directory(data), partition=one, numbers=numbers))
        for number in numbers:
            if where.setdefault(number, one.digits) != one.digits:
                findings.add(f"stream {number}", f"partition {where[number]} has it, and so has {one.digits}")
    if artifacts:
        await check_artifacts(bucket, findings)
    return findings


async def verify(
    bucket: ObjectStore,
    data: Path | None,
    *,
    partition: PartitionId,
    numbers: list[int] | None = None,
) -> Findings:
    """Check one partition of a bucket, and with it its log and its catalog in ``data``, its own directory.

    The numbers of its streams are added to ``numbers``.
    """
    for _ in range(LOOKS_MAX):
        try:
            return await _verify(bucket, data, partition, [] if numbers is None else numbers)
        except OvertakenError:
            continue
    findings = Findings()
    findings.add("bucket", "a running server replaces objects faster than they can be read")
    return findings


async def _verify(
    bucket: ObjectStore, data: Path | None, partition: PartitionId, numbers: list[int]
) -> Findings:
    findings = Findings()
    with tempfile.TemporaryDirectory(prefix="durable-sessions-") as folder:
        inventory = Inventory(Path(folder) / "inventory.sqlite", partition)
        try:
            examined = await Examiner(bucket, partition, inventory, findings).run()
            check_coverage(inventory, findings)
            if data is not None:
                copy = Path(folder) / "catalog"
                check_catalog(data / CATALOG_NAME, copy, examined.manifest, inventory, findings)
                await check_log(data / LOG_NAME, examined, inventory, findings)
            numbers += inventory.numbers()
        finally:
            inventory.close()
    return findings
