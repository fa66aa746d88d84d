"""Examines a bucket: every manifest, and every object that the newest intact one names."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field

import msgspec

from durable_sessions.bucket import format as bucket_format
from durable_sessions.bucket.checkpoint import SessionRow, read_checkpoint
from durable_sessions.bucket.fetch import fetch_object
from durable_sessions.bucket.layout import FORMAT, LAYOUTS, manifests_prefix
from durable_sessions.bucket.manifest import CheckpointInfo, Manifest, Manifests, decode_manifest
from durable_sessions.bucket.numbered import NumberedObjects
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.partition_layout import all_layouts
from durable_sessions.errors import (
    BucketError,
    BucketRefusedError,
    DurableSessionsError,
    ObjectDamagedError,
    ObjectNotFoundError,
)
from durable_sessions.partition_id import PartitionId
from durable_sessions.storage import batch
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Stream
from durable_sessions.tier import stream_codec, subscription_objects
from durable_sessions.tier.next_manifest import referred
from durable_sessions.tier.snapshot_info import snapshot_of
from durable_sessions.tools.verify.findings import Findings
from durable_sessions.tools.verify.inventory import Inventory, SegmentExtent
from durable_sessions.tools.verify.segments import CheckedSegment, check_segment


@dataclass(slots=True)
class Examined:
    """The contents of a bucket. ``manifest`` is the newest intact one, ``newest`` the highest number."""

    manifest: Manifest | None = None
    newest: int = 0
    manifests: list[Manifest] = field(default_factory=list)
    damaged_manifests: list[str] = field(default_factory=list)
    format_damaged: bool = False
    damaged_checkpoints: list[CheckpointInfo] = field(default_factory=list)
    segments: list[CheckedSegment] = field(default_factory=list)
    subscriptions: list[Effect] = field(default_factory=list)
    subscriptions_damaged: str | None = None
    snapshot_damaged: str | None = None

    @property
    def trusted(self) -> bool:
        """Whether the newest manifest is intact, or there was never a flush."""
        return self.newest == (0 if self.manifest is None else self.manifest.number)

    async def each_manifest(self) -> AsyncIterator[Manifest]:
        """Yield the intact manifests, newest first."""
        for manifest in self.manifests:
            yield manifest

    @property
    def flushed_through(self) -> int:
        """The position of the log up to which everything is in the bucket."""
        return 0 if self.manifest is None else self.manifest.flushed_through


class OvertakenError(Exception):
    """A running server has replaced the manifest and removed one of its objects during the examination."""


class Examiner:
    """Reads everything and continues after problems, which go to ``findings``."""

    def __init__(
        self, bucket: ObjectStore, partition: PartitionId, inventory: Inventory, findings: Findings
    ) -> None:
        self._bucket = bucket
        self._partition = partition
        self._inventory = inventory
        self._findings = findings
        self._examined = Examined()

    async def run(self) -> Examined:
        """Examine the bucket; streams and the places of their records go to the inventory."""
        examined = self._examined
        await self._read_manifests()
        await self._check_format()
        if examined.manifest is not None:
            for checkpoint in examined.manifest.checkpoints:
                await self._read_checkpoint(checkpoint)
            for info in examined.manifest.segments:
                checked = check_segment(info, await self._get(info.path), self._findings)
                examined.segments.append(checked)
                self._place(checked)
            await self._read_subscriptions(examined.manifest)
            await self._check_snapshot(examined.manifest)
        self._findings.checked["streams"] += self._inventory.count()
        return examined

    async def _get(self, path: str) -> bytes | None:
        """Return an object that must exist; if it does not, report it and return None."""
        try:
            return await self._bucket.get(path)
        except ObjectNotFoundError as error:
            await self._report(path, error)
        except BucketError as error:
            await self._report(path, error)
        return None

    async def _report(self, path: str, error: Exception) -> None:
        """Report an object that could not be read, unless a running server has replaced it."""
        try:
            newest = await Manifests(self._bucket, self._partition).newest()
        except DurableSessionsError:
            newest = None
        if newest is not None and newest.number > self._examined.newest and path not in referred(newest):
            raise OvertakenError
        if isinstance(error, ObjectNotFoundError):
            self._findings.add(path, "it is missing")
        elif isinstance(error, ObjectDamagedError):
            self._findings.add(path, str(error.problem))
        else:
            self._findings.add(path, f"it cannot be read: {error}", mendable=False)

    async def _read_manifests(self) -> None:
        examined = self._examined
        objects = NumberedObjects(self._bucket, manifests_prefix(self._partition), ".json")
        for number in reversed(await objects.numbers()):
            path = objects.path(number)
            examined.newest = max(examined.newest, number)
            try:
                manifest = decode_manifest(await objects.get(number), path)
                if manifest.number != number:
                    raise ObjectDamagedError(
                        path=path, problem=f"it says that it is number {manifest.number}"
                    )
            except ObjectNotFoundError:
                continue  # removed by a running server meanwhile
            except ObjectDamagedError as error:
                newest = " It is the newest, so that no server starts." if number == examined.newest else ""
                self._findings.add(path, f"{error.problem}.{newest}")
                examined.damaged_manifests.append(path)
            else:
                examined.manifest = examined.manifest or manifest
                examined.manifests.append(manifest)
            self._findings.checked["manifests"] += 1

    async def _check_format(self) -> None:
        try:
            data = await self._bucket.get(FORMAT)
        except (ObjectNotFoundError, BucketError) as error:
            if self._examined.newest or isinstance(error, BucketError):
                self._examined.format_damaged = True
                await self._report(FORMAT, error)
            return
        try:
            found = msgspec.json.decode(data, type=bucket_format.BucketFormat)
        except (msgspec.MsgspecError, ValueError) as error:
            self._examined.format_damaged = True
            self._findings.add(FORMAT, f"it is not what a server wrote: {error}")
            return
        self._examined.format_damaged = found.format != bucket_format.NAME
        try:
            layouts = await all_layouts(self._bucket)
        except BucketRefusedError:
            layouts = []
        except (ObjectDamagedError, BucketError) as error:
            self._findings.add(LAYOUTS, str(error), mendable=False)
            return
        known = [(layout.generation, layout.partitions) for layout in layouts]
        if (self._partition.generation, self._partition.of) not in known:
            problem = f"this program does not read {data.decode(errors='replace')}"
            self._findings.add(FORMAT, problem, mendable=self._examined.format_damaged)

    # Checkpoints ------------------------------------------------------------------------

    async def _read_checkpoint(self, info: CheckpointInfo) -> None:
        self._findings.checked["checkpoints"] += 1
        try:
            await fetch_object(self._bucket, info.path, info.bytes, info.sha256)
        except (ObjectDamagedError, BucketError) as error:
            await self._report(info.path, error)
            self._examined.damaged_checkpoints.append(info)
            return
        try:
            rows = await read_checkpoint(self._bucket, info)
        except (ObjectDamagedError, BucketError) as error:
            self._findings.add(info.path, str(error), mendable=False)
            return
        if len(rows) != info.rows:
            self._findings.add(info.path, f"it has {len(rows)} rows, not {info.rows}", mendable=False)
        self.apply_rows(info.path, rows)

    def apply_rows(self, path: str, rows: Iterable[SessionRow]) -> None:
        """Add the valid rows of a checkpoint to the inventory."""
        streams: list[Stream] = []
        removed: list[int] = []
        for number, row in enumerate(rows):
            if row.deleted:
                removed.append(row.stream)
                continue
            try:
                stream = stream_codec.decode(row.state or b"")
            except (msgspec.MsgspecError, ValueError) as error:
                problem = f"the state of stream {row.stream} is malformed: {error}"
                self._findings.add(path, problem, row=number, mendable=False)
                continue
            if not _agree(stream, row):
                problem = f"the state of stream {row.stream} is not what the other columns say"
                self._findings.add(path, problem, row=number, mendable=False)
                continue
            streams.append(stream)
        self._inventory.put(streams)
        self._inventory.remove(removed)

    # Segments ---------------------------------------------------------------------------

    def _place(self, checked: CheckedSegment) -> None:
        """Note where records are, and compare them with the checkpoints."""
        for number in () if checked.directory is None else checked.directory.streams:
            stream = self._inventory.load_id(number)
            if stream is None:
                continue  # a removed stream: compaction will drop its records
            names = checked.names.get(number)
            if names is not None and names != (*stream.key, stream.content_type):
                problem = f"the rows of stream {number} say {names}, its checkpoint {stream.key}"
                self._findings.add(checked.info.path, problem, mendable=False)
            runs = checked.good_runs(number)
            self._inventory.place(number, [SegmentExtent(*run, checked.info.path) for run in runs])

    # Subscriptions ----------------------------------------------------------------------

    async def _read_subscriptions(self, manifest: Manifest) -> None:
        found: list[bytes] = []
        infos = subscription_objects.objects(manifest)
        for info in infos:
            self._findings.checked["subscription objects"] += 1
            try:
                found.append(await fetch_object(self._bucket, info.path, info.bytes, info.sha256))
            except (ObjectDamagedError, BucketError) as error:
                await self._report(info.path, error)
                self._examined.subscriptions_damaged = info.path
                return
        try:
            self._examined.subscriptions = decode_subscriptions(b"".join(found))
        except ValueError as error:
            self._findings.add(infos[-1].path, str(error), mendable=False)

    # The catalog's snapshot -------------------------------------------------------------

    async def _check_snapshot(self, manifest: Manifest) -> None:
        info = snapshot_of(manifest)
        if info is None:
            return
        self._findings.checked["catalog snapshots"] += 1
        try:
            await fetch_object(self._bucket, info.path, info.bytes, info.sha256)
        except (ObjectDamagedError, BucketError) as error:
            await self._report(info.path, error)
            self._examined.snapshot_damaged = info.path


def decode_subscriptions(data: bytes) -> list[Effect]:
    """Return the effects that restore the subscriptions; ValueError if they are damaged."""
    try:
        found = [effect for effect, _, _ in batch.decode(data)]
        state = State()
        for effect in found:
            state.apply(effect)
    except Exception as error:
        raise ValueError(f"it does not give subscriptions: {error!r}") from error
    return found


def _agree(stream: Stream, row: SessionRow) -> bool:
    return (
        stream.id == row.stream
        and stream.key == (row.workspace, row.session)
        and stream.content_type == row.content_type
        and stream.tail == row.next_position
        and stream.closed == row.closed
        and (stream.parent, stream.base) == (row.parent, row.base)
        and stream.base <= stream.tail
    )
