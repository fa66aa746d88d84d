"""Repair of a bucket: writes a new manifest that names only intact objects, and saves what it can."""

from collections.abc import Sequence
from pathlib import Path

import msgspec

from durable_sessions.bucket.format import REPARTITIONED, VERSION, BucketFormat
from durable_sessions.bucket.layout import EVENTS, FORMAT, SESSIONS, generation_of, subscriptions_prefix
from durable_sessions.bucket.manifest import NEWEST_VERSION, Manifest, Manifests
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.partition_layout import PartitionLayout, ensure_layout
from durable_sessions.clock import Clock
from durable_sessions.errors import BucketRefusedError, ObjectNotFoundError
from durable_sessions.ids import Ids
from durable_sessions.log.scan import scan
from durable_sessions.partition_id import PartitionId
from durable_sessions.streams.stream import Stream
from durable_sessions.tier.checkpoints import FULL_PARTS
from durable_sessions.tier.ownership import continues
from durable_sessions.tier.snapshot_info import SNAPSHOT
from durable_sessions.tier.subscription_objects import CHANGES, SUBSCRIPTIONS
from durable_sessions.tools.repair.backups import Backups
from durable_sessions.tools.repair.checkpoint_rewrite import (
    write_sessions,
    write_subscriptions,
)
from durable_sessions.tools.repair.plan import Plan
from durable_sessions.tools.repair.records import RecordsRepair
from durable_sessions.tools.repair.sources import (
    Numbered,
    flushed_through,
    numbered,
    unnamed_rows,
    unnamed_segment,
)
from durable_sessions.tools.repair.streams import (
    restore_from_catalog,
    restore_from_rows,
    settle_forks,
    settle_paths,
)
from durable_sessions.tools.verify import CATALOG_NAME, LOG_NAME
from durable_sessions.tools.verify.bucket import Examined, Examiner, decode_subscriptions
from durable_sessions.tools.verify.coverage import check_coverage
from durable_sessions.tools.verify.findings import Findings
from durable_sessions.tools.verify.inventory import Inventory
from durable_sessions.tools.verify.scanned_log import log_end
from durable_sessions.tools.verify.segments import CheckedSegment

_REMEDY = "This is no damage that a repair can mend, and nothing was changed."


class BucketRepair:
    """Plans the repair of a bucket, and carries it out.

    After :meth:`plan`, ``inventory`` and ``examined`` show the state after the repair.
    """

    def __init__(
        self, bucket: ObjectStore, partition: PartitionId, data: Path, inventory: Inventory, folder: Path
    ) -> None:
        self._bucket = bucket
        self._partition = partition
        self._data = data
        self._inventory = inventory
        self._folder = folder
        self._records = RecordsRepair(bucket, partition, inventory, data / LOG_NAME)
        version = REPARTITIONED if partition.generation else VERSION
        self._format = BucketFormat(version=version, partitions=partition.of)
        self._first = Manifest(
            number=0,
            writer="",
            flushed_through=0,
            next_stream=partition.streams.start,
            created_at_ms=0,
            version=NEWEST_VERSION,  # what the bucket needs of a program is unknown
        )
        self._damaged: list[str] = []
        self._new_manifest = False
        self._new_sessions = False
        self._new_subscriptions = False
        self.flushed_anew = False
        self.examined = Examined()

    # Planning ---------------------------------------------------------------------------

    async def plan(self, plan: Plan) -> None:
        """Find the problems, and plan an action for each."""
        findings = Findings()
        self.examined = examined = await self._examiner(findings).run()
        check_coverage(self._inventory, findings)
        if findings.unmendable:
            raise BucketRefusedError(problem=str(findings.unmendable[0]), remedy=_REMEDY)
        adopting = await self._must_adopt()
        if not findings.problems and not adopting:
            return
        harmless = {FORMAT, *(examined.damaged_manifests if examined.trusted else ())}
        self._new_manifest = adopting or any(one.where not in harmless for one in findings.problems)
        self._damaged += examined.damaged_manifests
        for problem in findings.problems:
            plan.act(problem.where, problem.detail)
        if self._new_manifest:
            unnamed = await self._adopt(plan) if adopting else await self._restore(plan)
            self._new_sessions |= settle_paths(self._inventory, plan)
            self._new_sessions |= settle_forks(self._inventory, plan)
            self._damaged += [one.info.path for one in examined.segments if not one.intact]
            self._records.plan(examined.segments, unnamed, plan)
            await self._plan_subscriptions(plan, adopting=adopting)
            if examined.snapshot_damaged is not None:
                self._damaged.append(examined.snapshot_damaged)

    def _examiner(self, findings: Findings) -> Examiner:
        return Examiner(self._bucket, self._partition, self._inventory, findings)

    async def _must_adopt(self) -> bool:
        """Say whether the last flushes exist, but neither their manifest nor a log with the same data."""
        examined = self.examined
        log = scan(self._data / LOG_NAME)
        batches = sum(1 for _ in log.frames())
        joins = continues(log.begins_after, examined.manifest)
        joins = joins and examined.flushed_through <= log_end(log)
        if batches and joins and (examined.trusted or not examined.damaged_checkpoints):
            return False
        number = 0 if examined.manifest is None else examined.manifest.number
        return any(one.number > number for one in await numbered(self._bucket, SESSIONS, self._partition))

    async def _restore(self, plan: Plan) -> list[CheckedSegment]:
        """Restore the streams of damaged checkpoints to the inventory."""
        examined = self.examined
        self._damaged += [info.path for info in examined.damaged_checkpoints]
        if examined.damaged_checkpoints and examined.manifest is not None:
            self._new_sessions = True
            if self._from_catalog(examined.manifest.number, plan) != examined.flushed_through:
                _tell_restored(plan, restore_from_rows(self._inventory, examined.segments))
                # The log may still contain what the checkpoint said; then it is replayed from there.
                through = flushed_through(scan(self._data / LOG_NAME), self._inventory)
                if through < examined.flushed_through:
                    self._flushed_to(through, plan)
        return [] if examined.trusted else await self._unnamed_segments(plan)

    def _from_catalog(self, number: int, plan: Plan) -> int | None:
        catalog = self._data / CATALOG_NAME
        through = restore_from_catalog(self._inventory, catalog, self._folder / "catalog", number)
        if through is not None:
            plan.act(
                str(catalog), f"it still knows all streams as of manifest {number}; they are taken from it"
            )
        return through

    def _flushed_to(self, through: int, plan: Plan) -> None:
        plan.act("manifest", f"rebuilt: the log counts as flushed up to {through}")
        self.flushed_anew = True
        base = self.examined.manifest or self._first
        following = max(base.next_stream, self._inventory.largest + 1)
        self.examined.manifest = msgspec.structs.replace(base, flushed_through=through, next_stream=following)

    async def _adopt(self, plan: Plan) -> list[CheckedSegment]:
        """Adopt the objects that were written after the newest intact manifest, or all if there is none."""
        examined, inventory = self.examined, self._inventory
        self._new_sessions = True
        log = self._data / LOG_NAME
        through = self._from_catalog(examined.newest, plan)
        unnamed = await self._unnamed_segments(plan)
        if through is None:
            await self._adopt_sessions(plan)
            _tell_restored(plan, restore_from_rows(inventory, [*examined.segments, *unnamed]))
            through = max(flushed_through(scan(log), inventory), examined.flushed_through)
        self._flushed_to(through, plan)
        return unnamed

    async def _adopt_sessions(self, plan: Plan) -> None:
        examined = self.examined
        number = 0 if examined.manifest is None else examined.manifest.number
        examiner = self._examiner(Findings())
        for one in await numbered(self._bucket, SESSIONS, self._partition):
            if one.number > number:
                examined.newest = max(examined.newest, one.number)
                try:
                    examiner.apply_rows(one.path, await unnamed_rows(self._bucket, one.path))
                except ValueError as error:
                    self._damaged.append(one.path)
                    plan.act(one.path, f"it is not sound, and is removed ({error})")
                else:
                    plan.act(one.path, "the manifest that named it is lost; its streams are taken over")

    async def _unnamed_segments(self, plan: Plan) -> list[CheckedSegment]:
        examined = self.examined
        found: list[CheckedSegment] = []
        number = 0 if examined.manifest is None else examined.manifest.number
        for one in reversed(await numbered(self._bucket, EVENTS, self._partition)):
            if one.number > number:
                examined.newest = max(examined.newest, one.number)
                try:
                    found.append(await unnamed_segment(self._bucket, one.path))
                except ValueError as error:
                    self._damaged.append(one.path)
                    plan.act(one.path, f"it is not sound, and is removed ({error})")
        return found

    async def _plan_subscriptions(self, plan: Plan, *, adopting: bool) -> None:
        """Fall back to the newest readable subscriptions, if those of the manifest are lost."""
        examined = self.examined
        if examined.subscriptions_damaged is None and not adopting:
            return
        self._new_subscriptions = True
        if examined.subscriptions_damaged is not None:
            self._damaged.append(examined.subscriptions_damaged)
        prefix = subscriptions_prefix(self._partition)
        there = await numbered(self._bucket, prefix, self._partition)
        found = [one for one in there if one.path not in self._damaged]
        for one in reversed([one for one in found if one.path.endswith(".batch")]):
            try:
                data = await self._bucket.get(one.path)
                examined.subscriptions = decode_subscriptions(data)
            except (ValueError, ObjectNotFoundError):
                continue
            later = [
                other for other in found if other.number > one.number and other.path.endswith(".changes")
            ]
            number = await self._add_changes(data, later) or one.number
            plan.act(one.path, f"the subscriptions are those of flush {number}")
            return
        if examined.subscriptions_damaged is not None:
            plan.act(
                examined.subscriptions_damaged,
                "there is no other copy: all subscriptions are lost, and what other partitions are owed",
            )

    async def _add_changes(self, data: bytes, later: Sequence[Numbered]) -> int | None:
        """Add the readable changes of later flushes; return the last of these flushes."""
        last = None
        for one in later:
            try:
                data += await self._bucket.get(one.path)
                self.examined.subscriptions = decode_subscriptions(data)
            except (ValueError, ObjectNotFoundError):
                break
            last = one.number
        return last

    # Carrying out -----------------------------------------------------------------------

    async def apply(self, backups: Backups, clock: Clock, ids: Ids) -> None:
        """Carry out the plan: write new objects, then the manifest, and only then remove damaged ones."""
        for path in self._damaged:
            await backups.keep_object(self._bucket, path)
        if self.examined.format_damaged:
            await backups.keep_object(self._bucket, FORMAT)
            await self._bucket.put(FORMAT, msgspec.json.encode(self._format))
        backups.sync()
        if self._new_manifest:
            await ensure_layout(self._bucket, PartitionLayout.of(self._partition))
            await Manifests(self._bucket, self._partition).create_next(await self._next_manifest(clock, ids))
        # Other partitions may refer to segments of an older generation, and save what they can of them.
        own = (None, self._partition.generation)
        await self._bucket.delete([path for path in self._damaged if generation_of(path) in own])

    async def _next_manifest(self, clock: Clock, ids: Ids) -> Manifest:
        number, before = self.examined.newest + 1, self.examined.manifest or self._first
        extra = dict(before.extra)
        extra.pop(SNAPSHOT, None)  # it may say more, or something else, than could be saved
        if self._new_subscriptions:
            extra.pop(SUBSCRIPTIONS, None)
            extra.pop(CHANGES, None)
            extra |= await write_subscriptions(
                self._bucket, self._partition, number, self.examined.subscriptions
            )
        checkpoints = before.checkpoints
        if self._new_sessions:
            checkpoints = await write_sessions(self._bucket, self._partition, number, self._inventory)
            extra[FULL_PARTS] = msgspec.Raw(b"%d" % len(checkpoints))
        return msgspec.structs.replace(
            before,
            number=number,
            writer=ids.token("writer_"),
            next_stream=max(before.next_stream, self._inventory.largest + 1),
            created_at_ms=clock.now_ms(),
            segments=tuple(await self._records.write(number)),
            checkpoints=checkpoints,
            extra=extra,
        )


def _tell_restored(plan: Plan, streams: Sequence[Stream]) -> None:
    for stream in streams:
        plan.act(
            f"stream {stream.id} ({stream.key.workspace}/{stream.key.path})",
            "its checkpoint is lost; records, names and content type come back from its rows, but not its"
            " producers, TTL, fork source and whether it was closed or deleted",
        )
