"""Verification: reads every byte of a stopped server's data and checks it for consistency."""

import tempfile
from pathlib import Path

from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from durable_sessions.tools.verify.artifacts import check_artifacts
from durable_sessions.tools.verify.bucket import Examiner, OvertakenError
from durable_sessions.tools.verify.catalog import check_catalog
from durable_sessions.tools.verify.coverage import check_coverage
from durable_sessions.tools.verify.findings import Findings, Problem
from durable_sessions.tools.verify.inventory import Inventory
from durable_sessions.tools.verify.replay import check_log

__all__ = ["CATALOG_NAME", "LOG_NAME", "Findings", "Problem", "verify"]

LOG_NAME = "log"
CATALOG_NAME = "catalog.sqlite"
LOOKS_MAX = 5
"""How often a bucket is examined again because a running server has changed it meanwhile."""


async def verify(
    bucket: ObjectStore,
    data: Path | None,
    *,
    artifacts: bool = False,
    partition: PartitionId = ONLY_PARTITION,
) -> Findings:
    """Check a partition of a bucket, and with it its log and its catalog in ``data``; changes nothing.

    With ``data`` the caller holds the log's lock. Without it a server may be running. ``artifacts`` are read
    only if asked for: they may be most of the bucket.
    """
    for _ in range(LOOKS_MAX):
        try:
            found = await _verify(bucket, data, partition)
            if artifacts:
                await check_artifacts(bucket, found)
            return found
        except OvertakenError:
            continue
    findings = Findings()
    findings.add("bucket", "a running server replaces objects faster than they can be read")
    return findings


async def _verify(bucket: ObjectStore, data: Path | None, partition: PartitionId) -> Findings:
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
        finally:
            inventory.close()
    return findings
