"""Records that are in no intact segment: rewritten if found elsewhere, otherwise replaced by markers."""

from collections.abc import AsyncIterator, Iterable
from pathlib import Path

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.layout import events_path
from durable_sessions.bucket.manifest import SegmentInfo
from durable_sessions.bucket.numbered import create_beside
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.records import AppendRun, StreamRecords, split_by_date
from durable_sessions.bucket.segment import encode_segment
from durable_sessions.bucket.segment_reader import SegmentReader
from durable_sessions.log.scan import scan
from durable_sessions.partition_id import PartitionId
from durable_sessions.tools.conflicts import markers
from durable_sessions.tools.repair.missing_ranges import MissingRanges
from durable_sessions.tools.repair.plan import Plan
from durable_sessions.tools.repair.sources import records_in_log
from durable_sessions.tools.verify.coverage import gaps
from durable_sessions.tools.verify.inventory import Inventory, SegmentExtent
from durable_sessions.tools.verify.segments import CheckedSegment

SEGMENT_BYTES = 32 * 1024 * 1024
"""How many bytes of records are collected before they are written as segments."""


class RecordsRepair:
    """Keeps intact segments as they are, and writes new ones for the records of the others."""

    def __init__(self, bucket: ObjectStore, partition: PartitionId, inventory: Inventory, log: Path) -> None:
        self._bucket = bucket
        self._partition = partition
        self._inventory = inventory
        self._log = log
        self._wanted = MissingRanges()
        self._sources: list[CheckedSegment] = []
        self.kept: list[SegmentInfo] = []

    def plan(self, named: Iterable[CheckedSegment], unnamed: Iterable[CheckedSegment], plan: Plan) -> None:
        """Decide which segments stay, and report which records of the others are found and which are lost.

        An intact segment that no manifest names is adopted if all of its records are missing otherwise.
        """
        self._inventory.forget_places()
        for checked in named:
            if checked.intact and not self._overlaps(checked):
                self._keep(checked)
            else:
                self._sources.append(checked)
        for stream, extents in self._inventory.streams():
            self._wanted.add(stream.id, gaps(stream, extents))
        for checked in unnamed:
            if checked.intact and self._all_wanted(checked):
                plan.act(checked.info.path, "the manifest that named it is lost; it is named again")
                self._keep(checked)
            else:
                self._sources.append(checked)
        self._plan_losses(plan)

    def _runs(self, checked: CheckedSegment) -> Iterable[tuple[int, tuple[int, int]]]:
        """Yield the runs of records in a segment, of streams that exist."""
        for number in () if checked.directory is None else checked.directory.streams:
            if self._inventory.load_id(number) is not None:
                for run in checked.good_runs(number):
                    yield number, run

    def _overlaps(self, checked: CheckedSegment) -> bool:
        return any(
            run[0] < extent.next and extent.first < run[1]
            for number, run in self._runs(checked)
            for extent in self._inventory.extents(number)
        )

    def _all_wanted(self, checked: CheckedSegment) -> bool:
        runs = list(self._runs(checked))
        return bool(runs) and all(self._wanted.of(number, run) == [run] for number, run in runs)

    def _keep(self, checked: CheckedSegment) -> None:
        self.kept.append(checked.info)
        for number, run in self._runs(checked):
            self._inventory.place(number, [SegmentExtent(*run, checked.info.path)])
            self._wanted.found(number, run)

    def _plan_losses(self, plan: Plan) -> None:
        left = self._wanted.copy()
        for checked in self._sources:
            found = 0
            for number, run in self._runs(checked):
                for part in left.of(number, run):
                    found += part[1] - part[0]
                    left.found(number, part)
            if found:
                plan.act(checked.info.path, f"{found} positions in it can still be read; they are kept")
        found = sum(run.next - run.first for _, run in records_in_log(scan(self._log), left))
        if found:
            plan.act(str(self._log), f"it still holds {found} positions that are missing in the bucket")
        for number, (first, following) in left:
            plan.lose(number, self._inventory.load_id(number), first, following)

    # Carrying out -----------------------------------------------------------------------

    async def write(self, number: int) -> list[SegmentInfo]:
        """Write the records that were found, and markers for the others; return all valid segments."""
        segments = list(self.kept)
        collected: dict[int, list[AppendRun]] = {}
        size = 0
        async for stream, run in self._found():
            collected.setdefault(stream, []).append(run)
            size += len(run.data)
            if size >= SEGMENT_BYTES:
                segments += await self._write(number, collected)
                collected, size = {}, 0
        return segments + await self._write(number, collected)

    async def _found(self) -> AsyncIterator[tuple[int, AppendRun]]:
        cache = BlockCache()
        for checked in self._sources:
            reader = SegmentReader(self._bucket, checked.info, cache)
            for number, run in list(self._runs(checked)):
                for part in self._wanted.of(number, run):
                    async for append in reader.appends(number, *part):
                        yield number, append
                    self._wanted.found(number, part)
        for number, append in records_in_log(scan(self._log), self._wanted):
            yield number, append
        for number, part in self._wanted:
            stream = self._inventory.load_id(number)
            assert stream is not None, "only records of streams that exist are wanted"
            for append in markers(*part, stream.recorded_at_ms, json=stream.is_json):
                yield number, append
        await cache.close()

    async def _write(self, number: int, collected: dict[int, list[AppendRun]]) -> list[SegmentInfo]:
        records = []
        for one, appends in collected.items():
            stream = self._inventory.load_id(one)
            assert stream is not None, "only records of streams that exist are wanted"
            appends.sort()
            records.append(StreamRecords(one, *stream.key, stream.content_type, appends))
        written = []
        for day, of_day in split_by_date(records).items():
            segment = encode_segment(of_day)
            path = await create_beside(self._bucket, events_path(day, self._partition, number), segment.data)
            written.append(segment.info(path))
        return written
