"""Faults put into the engine on purpose: each breaks one thing that it promises."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from durable_sessions.bucket.layout import FlushedNames
from durable_sessions.bucket.manifest import Manifest, Manifests
from durable_sessions.bucket.objects import ObjectInfo, ObjectStore
from durable_sessions.clock import Clock
from durable_sessions.errors import (
    LogDivergedError,
    LogError,
    LogForeignError,
    ObjectExistsError,
    StreamNotFoundError,
)
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.log import Log, recovery
from durable_sessions.log.disk import Disk, File, write_all
from durable_sessions.log.file import FileLog
from durable_sessions.log.frame import HEADER_BYTES, SegmentHeader
from durable_sessions.log.segment import ActiveSegment, Segment, segment_name
from durable_sessions.partition_id import PartitionId
from durable_sessions.sessions import wake as wakes
from durable_sessions.sessions.batch import Batch
from durable_sessions.sessions.graph import control, lease, rules
from durable_sessions.sessions.graph.control import CONTROL, Control
from durable_sessions.sessions.graph.lease import Lease
from durable_sessions.sessions.store import Sessions
from durable_sessions.sessions.wake import GrantedLease, WakeRequest
from durable_sessions.sessions.work import Works
from durable_sessions.storage import published
from durable_sessions.storage.archive import Archive, Flushed
from durable_sessions.storage.commit import Committer
from durable_sessions.storage.durable_stream import DurableStream
from durable_sessions.storage.partition import Partition
from durable_sessions.storage.record_reader import Reader
from durable_sessions.streams.effects import Effect, RecordsAppended, StreamRemoved
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.testing.simulation.plan import RunPlan, engines_plan, rival_plan, work_plan
from durable_sessions.tier import bucket_archive, ownership, stream_codec, sweeper
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.manifest_chain import ManifestChain
from durable_sessions.tier.next_manifest import Replacement

Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledge_before_sync(patch: pytest.MonkeyPatch) -> None:
    def append(self: ActiveSegment, payload: bytes) -> int:
        frame = self.segment.codec.encode(self.segment.end, payload)
        write_all(self._file, frame, self.segment.size)
        self.segment.size += len(frame)
        return self.segment.end - len(payload)

    patch.setattr(ActiveSegment, "append", append)


def new_segment_without_directory_sync(patch: pytest.MonkeyPatch) -> None:
    def create(disk: Disk, directory: Path, base: int, salt: int) -> ActiveSegment:
        path = directory / segment_name(base)
        file = disk.create(path)
        write_all(file, SegmentHeader(base, salt).encode(), 0)
        file.sync()
        return ActiveSegment(Segment(path, base, salt, HEADER_BYTES), file)

    patch.setattr(ActiveSegment, "create", create)


def new_segment_without_header_sync(patch: pytest.MonkeyPatch) -> None:
    def create(disk: Disk, directory: Path, base: int, salt: int) -> ActiveSegment:
        path = directory / segment_name(base)
        file = disk.create(path)
        write_all(file, SegmentHeader(base, salt).encode(), 0)
        disk.sync_directory(directory)
        return ActiveSegment(Segment(path, base, salt, HEADER_BYTES), file)

    patch.setattr(ActiveSegment, "create", create)


def go_on_after_a_failed_write(patch: pytest.MonkeyPatch) -> None:
    def refuse(self: FileLog) -> None:
        if self._closed:
            raise LogError(reason="it is closed")

    async def run(self: Committer) -> None:
        while True:
            if not self._queue:
                if self._closing:
                    return
                self._idle = self._loop.create_future()
                await self._idle
                continue
            flying = self._flying = self._take()
            payload = b"".join([part for entry in flying for part in entry.encoded])
            try:
                position = await self._log.append(payload)
            except LogError:
                position = await self._log.append(payload)
            self._publish(position, flying)
            self._flying = []
            for entry in flying:
                self.pending_bytes -= entry.size
                entry.durable()

    patch.setattr(FileLog, "_refuse_if_stopped", refuse)
    patch.setattr(Committer, "_run", run)


def trust_what_a_failed_sync_left(patch: pytest.MonkeyPatch) -> None:
    def settle(file: File, newest: Segment, last_start: int, end: int) -> None:
        if end < newest.size:
            file.truncate(end)
            newest.size = end
        file.sync()

    patch.setattr(recovery, "_settle", settle)


def leave_the_torn_end(patch: pytest.MonkeyPatch) -> None:
    def settle(file: File, newest: Segment, last_start: int, end: int) -> None:
        newest.size = end
        write_all(file, file.read(end - last_start, last_start), last_start)
        file.sync()

    patch.setattr(recovery, "_settle", settle)


def trim_without_directory_sync(patch: pytest.MonkeyPatch) -> None:
    def trim_one(self: FileLog, through: int) -> bool:
        if len(self._segments) < 2 or self._segments[0].end > through:
            return False
        oldest, *rest = self._segments
        self._segments = tuple(rest)
        try:
            self._disk.unlink(oldest.path)
        except OSError as error:
            self._failure = str(error)
            raise LogError(reason=self._failure) from error
        return True

    patch.setattr(FileLog, "_trim_one", trim_one)


def trim_before_the_manifest(patch: pytest.MonkeyPatch) -> None:
    flush = BucketArchive.flush

    async def trimming(self: Partition) -> bool:
        async def early(archive: BucketArchive, batches: Sequence[bytes], through: int) -> Flushed:
            await self._log.trim(through)
            return await flush(archive, batches, through)

        with pytest.MonkeyPatch.context() as within:
            within.setattr(BucketArchive, "flush", early)
            return await original(self)

    original = Partition.flush
    patch.setattr(Partition, "flush", trimming)


def publish_before_durable(patch: pytest.MonkeyPatch) -> None:
    async def run(self: Committer) -> None:
        while True:
            if not self._queue:
                if self._closing:
                    return
                self._idle = self._loop.create_future()
                await self._idle
                continue
            flying = self._flying = self._take()
            payload = b"".join([part for entry in flying for part in entry.encoded])
            self._publish(self._log.ends_at or 1, flying)
            try:
                await self._log.append(payload)
            except LogError as error:
                self._fail(error)
                return
            self._flying = []
            for entry in flying:
                self.pending_bytes -= entry.size
                entry.durable()

    patch.setattr(Committer, "_run", run)


def answer_repeats_at_once(patch: pytest.MonkeyPatch) -> None:
    def settled(self: Committer, result: object) -> object:
        future = self._loop.create_future()
        future.set_result(result)
        return future

    patch.setattr(Committer, "settled", settled)


def forget_producers_in_the_archive(patch: pytest.MonkeyPatch) -> None:
    decode = stream_codec.decode

    def forgetful(data: bytes) -> Stream:
        stream = decode(data)
        stream.producers.clear()
        return stream

    patch.setattr(stream_codec, "decode", forgetful)


def forget_producers_at_replay(patch: pytest.MonkeyPatch) -> None:
    apply = State.apply

    async def replaying(log: Log, clock: Clock, limits: Limits, archive: Archive) -> Partition:
        def forgetful(self: State, effect: Effect) -> None:
            apply(
                self,
                msgspec.structs.replace(effect, producer=None)
                if isinstance(effect, RecordsAppended)
                else effect,
            )

        with pytest.MonkeyPatch.context() as within:
            within.setattr(State, "apply", forgetful)
            return await original(log, clock, limits, archive)

    original = Partition.open
    patch.setattr(Partition, "open", replaying)


def lose_the_close_flag(patch: pytest.MonkeyPatch) -> None:
    decode = stream_codec.decode

    def forgetful(data: bytes) -> Stream:
        stream = decode(data)
        stream.closed = False
        return stream

    patch.setattr(stream_codec, "decode", forgetful)


def catalog_before_the_manifest(patch: pytest.MonkeyPatch) -> None:
    replace = BucketArchive.replace

    async def early(self: BucketArchive, following: Replacement) -> None:
        await self._apply_replacement(following)
        await replace(self, following)

    patch.setattr(BucketArchive, "replace", early)


def take_a_rivals_manifest_for_ours(patch: pytest.MonkeyPatch) -> None:
    async def commit(self: ManifestChain, manifest: Manifest) -> None:
        try:
            await self._manifests.create_next(manifest)
        except ObjectExistsError:
            pass
        self.newest, self.written, self._unsettled = manifest, True, None

    patch.setattr(ManifestChain, "commit", commit)


def sweep_what_is_about_to_be_named(patch: pytest.MonkeyPatch) -> None:
    def reason(names: FlushedNames, info: ObjectInfo, *_: object) -> str | None:
        return sweeper.ORPHAN if names.parse(info.path) else None

    patch.setattr(sweeper, "_reason", reason)


def never_sweep(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sweeper, "_reason", lambda *_: None)


def evict_what_is_not_flushed(patch: pytest.MonkeyPatch) -> None:
    async def evict_idle(self: Partition) -> int:
        self._state.era += 1
        await self.settled()
        for stream in list(self._state.by_id.values()):
            durable = self._published.by_id.get(stream.id)
            if durable is not None and not durable.waiters and durable.flushed:
                self._state.evict(stream)
                self._published.evict(durable)
        return 0

    patch.setattr(Partition, "evict_idle", evict_idle)


def removed_streams_come_back(patch: pytest.MonkeyPatch) -> None:
    remove = State._remove

    def forgetful(self: State, effect: StreamRemoved) -> None:
        remove(self, effect)
        self.removed.pop(effect.stream, None)

    patch.setattr(State, "_remove", forgetful)


def flushed_too_far(patch: pytest.MonkeyPatch) -> None:
    flushed = published.PublishedStreams.flushed

    def further(self: published.PublishedStreams, number: int, tail: int, through: int) -> None:
        durable = self.by_id.get(number)
        flushed(self, number, tail if durable is None else durable.tail, through)

    patch.setattr(published.PublishedStreams, "flushed", further)


def take_a_removed_source_for_impossible(patch: pytest.MonkeyPatch) -> None:
    owner = Reader.owner

    def certain(self: Reader, durable: DurableStream, position: int) -> tuple[DurableStream, int]:
        try:
            return owner(self, durable, position)
        except StreamNotFoundError as error:
            raise AssertionError("a source is kept as long as it has forks") from error

    patch.setattr(Reader, "owner", certain)


def wake_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DurableStream, "wake", lambda self: None)


def no_manifest_at_open(patch: pytest.MonkeyPatch) -> None:
    async def claim(
        bucket: ObjectStore,
        partition: PartitionId,
        log: Log,
        writer: str,
        clock: Clock,
        ids: Ids,
        predecessors: object,
    ) -> tuple[Manifest, Manifest]:
        found = await Manifests(bucket, partition).newest()
        if found is None:
            return await original(bucket, partition, log, writer, clock, ids)
        tie = await ownership.match(log, found)
        lineage = tie.lineage or ids.token("log_")
        await log.tie(lineage)
        if log.ends_at is None:
            log.begin_at(tie.begins)
        return found, msgspec.structs.replace(
            found, writer=writer, lineage=lineage, log_begins=tie.begins, frame=tie.frame
        )

    init = ManifestChain.__init__

    def unwritten(self: ManifestChain, *arguments: Any, **options: Any) -> None:
        init(self, *arguments, **{**options, "written": False})

    original = ownership.claim
    patch.setattr(bucket_archive, "claim", claim)
    patch.setattr(ManifestChain, "__init__", unwritten)


def no_lineage_check(patch: pytest.MonkeyPatch) -> None:
    match = ownership.match

    async def lenient(log: Log, manifest: Manifest | None) -> ownership.Tie:
        try:
            return await match(log, manifest)
        except LogForeignError:
            return ownership.Tie(log.lineage, log.begins_after)

    patch.setattr(ownership, "match", lenient)


def no_frame_checksum(patch: pytest.MonkeyPatch) -> None:
    match = ownership.match

    async def lenient(log: Log, manifest: Manifest | None) -> ownership.Tie:
        try:
            return await match(log, manifest)
        except LogDivergedError:
            assert manifest is not None
            return ownership.Tie(manifest.lineage, manifest.log_begins, manifest.frame)

    patch.setattr(ownership, "match", lenient)


def go_on_after_a_lost_manifest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Partition, "step_down", lambda self, lost: None)


def sweep_what_other_partitions_wrote(patch: pytest.MonkeyPatch) -> None:
    everyone = FlushedNames(PartitionId(0, of=2)), FlushedNames(PartitionId(1, of=2))
    own = FlushedNames.parse

    def parse(self: FlushedNames, path: str) -> object:
        return next((found for names in everyone if (found := own(names, path)) is not None), None)

    patch.setattr(FlushedNames, "parse", parse)


def fence_by_the_principal_alone(patch: pytest.MonkeyPatch) -> None:
    def require(held: Lease | None, kinds: Iterable[str], epoch: int | None, principal: str) -> None:
        stated = epoch if held is None or held.principal != principal else held.epoch
        original(held, kinds, stated, principal)

    original = lease.require
    patch.setattr(lease, "require", require)


def fence_what_is_durable_only(patch: pytest.MonkeyPatch) -> None:
    """Look for the lease before the append is decided, and trust that it is the same then."""
    append = Sessions.append

    def early(self: Sessions, key: Key, batch: Batch, *arguments: Any) -> Any:
        durable = self.streams.peek(key)
        if durable is None or batch.epoch is None:
            return append(self, key, batch, *arguments)
        held = Control(durable.attributes, self.limits).core.lease
        lease.require(held, [draft.type for draft in batch.drafts], batch.epoch, batch.actor)

        async def late() -> Any:
            await asyncio.sleep(0.01)
            with pytest.MonkeyPatch.context() as within:
                within.setattr(lease, "require", lambda *_: None)
                decided = append(self, key, batch, *arguments)
            return await decided

        return late()

    patch.setattr(Sessions, "append", early)


def lose_control_in_the_archive(patch: pytest.MonkeyPatch) -> None:
    decode = stream_codec.decode

    def forgetful(data: bytes) -> Stream:
        stream = decode(data)
        stream.attributes = {name: one for name, one in stream.attributes.items() if name != CONTROL}
        return stream

    patch.setattr(stream_codec, "decode", forgetful)


def grant_a_lease_before_it_is_durable(patch: pytest.MonkeyPatch) -> None:
    def wake(self: Works, key: Key, request: WakeRequest) -> Any:
        granted: list[GrantedLease] = []

        def decide(tip: State, now_ms: int) -> Any:
            effects, lease = decided(tip, key, request, self.times, now_ms, self._limits, self._ids)
            granted.append(lease)
            return effects, lease

        pending = self._streams.commit(decide, (key,))
        if not granted:
            return pending
        pending.add_done_callback(lambda done: done.cancelled() or done.exception())
        answer = asyncio.get_running_loop().create_future()
        answer.set_result(granted[0])
        return answer

    decided = wakes.wake
    patch.setattr(Works, "wake", wake)


def take_over_from_the_living(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(wakes, "_require_free", lambda *_: None)


def work_on_while_paused(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rules, "require_going", lambda *_: None)


def take_over_under_the_same_epoch(patch: pytest.MonkeyPatch) -> None:
    claimed = Control._claimed

    def unchanged(self: Control, event: Any, happened: Any) -> None:
        claimed(self, event, happened)
        self.core.epoch = min(self.core.epoch, 1)

    patch.setattr(control, "_STEPS", {**control._STEPS, "LeaseClaimed": unchanged})


PLANTED: dict[Plant, int] = {
    acknowledge_before_sync: 0,
    new_segment_without_directory_sync: 0,
    new_segment_without_header_sync: 30,
    go_on_after_a_failed_write: 11,
    trust_what_a_failed_sync_left: 291,
    leave_the_torn_end: 33,
    trim_without_directory_sync: 18,
    trim_before_the_manifest: 0,
    publish_before_durable: 0,
    answer_repeats_at_once: 17,
    forget_producers_in_the_archive: 0,
    forget_producers_at_replay: 136,
    lose_the_close_flag: 0,
    catalog_before_the_manifest: 9,
    take_a_rivals_manifest_for_ours: 0,
    sweep_what_is_about_to_be_named: 6,
    never_sweep: 0,
    evict_what_is_not_flushed: 3,
    removed_streams_come_back: 0,
    flushed_too_far: 50,
    take_a_removed_source_for_impossible: 50,
    wake_nobody: 2,
    no_manifest_at_open: 2,
    no_lineage_check: 1,
    no_frame_checksum: 7,
    go_on_after_a_lost_manifest: 2,
    sweep_what_other_partitions_wrote: 0,
    fence_by_the_principal_alone: 0,
    fence_what_is_durable_only: 0,
    lose_control_in_the_archive: 0,
    grant_a_lease_before_it_is_durable: 0,
    take_over_from_the_living: 0,
    take_over_under_the_same_epoch: 0,
    work_on_while_paused: 0,
}
"""Each fault, and a seed from which on it is soon found; from another one it only takes longer."""


PLANS: dict[Plant, Callable[[int], RunPlan]] = {
    take_a_rivals_manifest_for_ours: rival_plan,
    no_manifest_at_open: rival_plan,
    no_lineage_check: rival_plan,
    no_frame_checksum: rival_plan,
    go_on_after_a_lost_manifest: rival_plan,
    sweep_what_other_partitions_wrote: engines_plan,
    fence_by_the_principal_alone: work_plan,
    fence_what_is_durable_only: work_plan,
    lose_control_in_the_archive: work_plan,
    grant_a_lease_before_it_is_durable: work_plan,
    take_over_from_the_living: work_plan,
    take_over_under_the_same_epoch: work_plan,
    work_on_while_paused: work_plan,
}
"""How a seed is to be run for faults that the usual runs show too rarely."""
