"""Repair: makes a log and a bucket usable again, and keeps everything that can still be read.

Positions never move. Each lost record is replaced by a marker; all others keep their positions, so that
cursors, forks, producers and subscriptions stay valid.
"""

from pathlib import Path

from durable_sessions.bucket.manifest import Manifest
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.clock import Clock
from durable_sessions.errors import LogVersionError
from durable_sessions.ids import Ids
from durable_sessions.log.frame import VERSION
from durable_sessions.log.repair import complete, interrupted
from durable_sessions.log.scan import REPAIR_NAME, scan
from durable_sessions.node.partition_files import CATALOG_SUFFIXES
from durable_sessions.partition_id import PartitionId
from durable_sessions.tier.ownership import match
from durable_sessions.tools.repair.backups import Backups
from durable_sessions.tools.repair.bucket import BucketRepair
from durable_sessions.tools.repair.lineage import LineageRepair
from durable_sessions.tools.repair.log import LogRepair
from durable_sessions.tools.repair.plan import Action, Loss, Plan
from durable_sessions.tools.verify import CATALOG_NAME, LOG_NAME
from durable_sessions.tools.verify.catalog import check_catalog
from durable_sessions.tools.verify.findings import Findings
from durable_sessions.tools.verify.inventory import Inventory
from durable_sessions.tools.verify.scanned_log import ScannedLog

__all__ = ["Action", "Loss", "Plan", "Repair"]


class Repair:
    """One repair of one partition: :meth:`plan` changes nothing, :meth:`apply` does what was planned.

    The caller holds the log's lock throughout. ``data`` is the partition's own directory, ``folder`` is for
    temporary files, and copies of what is changed go to ``backups``, by default to the same directory.
    """

    def __init__(
        self,
        bucket: ObjectStore,
        data: Path,
        folder: Path,
        partition: PartitionId,
        backups: Path | None = None,
    ) -> None:
        self._bucket = bucket
        self._partition = partition
        self._data = data
        self._backups = backups or data
        self._folder = folder
        self._inventory = Inventory(folder / "inventory.sqlite", partition)
        self._bucket_repair = BucketRepair(bucket, partition, data, self._inventory, folder)
        self._log_repair: LogRepair | None = None
        self._lineage_repair: LineageRepair | None = None
        self._interrupted = interrupted(data / LOG_NAME)

    def close(self) -> None:
        """Close the temporary files."""
        self._inventory.close()

    async def plan(self, *, bucket_lost: bool = False) -> Plan:
        """Return what will be done; a plan without actions means that nothing is wrong.

        A bucket that was never flushed to is refused if the log has been trimmed, unless
        ``bucket_lost`` says that it is not just the wrong one.
        """
        plan = Plan()
        log, catalog = self._data / LOG_NAME, self._data / CATALOG_NAME
        if self._interrupted:
            # Nothing else can be planned: the log is half rewritten, and would be judged by what is not meant
            # to stay.
            plan.act(str(log / REPAIR_NAME), "a repair was interrupted; it is completed first")
            return plan
        for found in scan(log).files:
            # What a newer version has written would look like damage here, and be removed as such.
            if found.version != VERSION:
                raise LogVersionError(file=str(found.path), found=found.version, supported=VERSION)
        await self._bucket_repair.plan(plan)
        examined, scanned = self._bucket_repair.examined, ScannedLog(log)
        if examined.manifest is None and not bucket_lost:
            await match(scanned, None)
        self._lineage_repair = LineageRepair(self._bucket, self._partition, log, examined, self._inventory)
        # Only a manifest that was found as it was written can tell whose log this is.
        holds = examined.trusted and not self._bucket_repair.flushed_anew
        await self._lineage_repair.plan(plan, scanned, manifest_holds=holds)
        self._log_repair = LogRepair(log, examined, self._inventory)
        if not self._lineage_repair.foreign:
            self._log_repair.plan(plan, begun=_is_begun(scanned, examined.manifest))
        findings = Findings()
        if not plan.actions:
            folder = self._folder / "compared"
            check_catalog(catalog, folder, examined.manifest, self._inventory, findings)
        if catalog.exists() and (plan.actions or findings.problems):
            problem = f"{findings.problems[0].problem}; " if findings.problems else ""
            plan.act(str(catalog), f"{problem}it is removed; the server rebuilds it")
        return plan

    async def apply(self, clock: Clock, ids: Ids) -> Path | None:
        """Carry out the plan, and return the folder of the backups; None if an older repair was completed."""
        if self._interrupted:
            complete(self._data / LOG_NAME)
            return None
        assert self._log_repair is not None, "a repair is planned first"
        assert self._lineage_repair is not None
        backups = Backups(self._backups, clock.now_ms())
        self._remove_catalog(backups)
        # The bucket first: its new objects and manifest save what they can from the log, which is still as it
        # was.
        await self._bucket_repair.apply(backups, clock, ids)
        self._log_repair.apply(backups)
        await self._lineage_repair.apply(backups, clock, ids)
        return backups.folder

    def _remove_catalog(self, backups: Backups) -> None:
        """Remove the catalog first: it is derived, and must not outlive its source."""
        files = [self._data / (CATALOG_NAME + suffix) for suffix in CATALOG_SUFFIXES]
        for file in files:
            if file.exists():
                backups.keep_file(file, "")
        backups.sync()
        for file in files:
            file.unlink(missing_ok=True)


def _is_begun(log: ScannedLog, manifest: Manifest | None) -> bool:
    """Say whether a log has no batch because the newest manifest has just begun it."""
    return (
        log.ends_at is None
        and log.lineage is not None
        and manifest is not None
        and (manifest.lineage, manifest.frame) == (log.lineage, None)
    )
