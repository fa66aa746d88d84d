"""The archive in a bucket: segments, checkpoints and manifests, with the local catalog over them.

A flush writes segments, then a checkpoint of what changed, then the next manifest, and only then
changes the catalog. Until the manifest is there, nothing refers to what was written, and a
crash leaves at worst objects that a sweep removes.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import date
from pathlib import Path
from typing import TypeVar

import msgspec

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.layout import events_path, sessions_path
from durable_sessions.bucket.manifest import Manifest, Manifests, SegmentInfo
from durable_sessions.bucket.numbered import create_beside
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.records import split_by_date
from durable_sessions.bucket.segment import EncodedSegment, encode_segment
from durable_sessions.bucket.segment_reader import SegmentReader
from durable_sessions.clock import Clock
from durable_sessions.errors import BucketError, ColdReadError, ManifestLostError, ObjectDamagedError
from durable_sessions.fair_queue import FairQueue
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.log import Log
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from durable_sessions.shares import CURRENT_HOLDER
from durable_sessions.storage.archive import Flushed
from durable_sessions.storage.retention import Retention
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import ColdStreams
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.usage import WorkspaceUsage
from durable_sessions.threads import CPU
from durable_sessions.tier import segment_contents, subscription_objects
from durable_sessions.tier.catalog import Catalog, Change
from durable_sessions.tier.catalog_rebuild import NamesOf, no_names, rebuild
from durable_sessions.tier.checkpoints import encode_changes
from durable_sessions.tier.disposal import let_go
from durable_sessions.tier.fold import Folded, fold
from durable_sessions.tier.manifest_chain import (
    ManifestChain,
    Next,
    about,
    successor,
)
from durable_sessions.tier.ownership import claim, first_manifest, require_numbers

T = TypeVar("T")
_ROW_GROUP_BYTES = 1024 * 1024
_COPIES = 3  # as it came, as it was unpacked, and as it is answered


class BucketArchive:
    """Everything up to the newest manifest; the manifest changes in ``chain``."""

    def __init__(
        self,
        bucket: ObjectStore,
        catalog: Catalog,
        manifest: Manifest,
        clock: Clock,
        limits: Limits,
        log: Log | None,
        partition: PartitionId = ONLY_PARTITION,
    ) -> None:
        self.bucket = bucket
        self.partition = partition
        self.catalog = catalog
        location = "its data directory" if log is None else log.location
        self.chain = ManifestChain(
            bucket, partition, manifest, clock, self._carry_out, location, written=log is not None
        )
        self._log = log
        self.cache = BlockCache(limits.block_cache_bytes_max)
        self.cold_reads = FairQueue(limits.cold_read_bytes_max)
        self._cold_read_seconds_max = limits.cold_read_seconds_max
        self.records = self
        self._clock = clock
        self._limits = limits
        self._segments: dict[str, SegmentReader] = {}

    @classmethod
    async def open(
        cls,
        bucket: ObjectStore,
        catalog_path: Path,
        clock: Clock,
        ids: Ids,
        limits: Limits,
        names_of: NamesOf = no_names,
        *,
        log: Log | None,
        writers: set[str] | None = None,
        partition: PartitionId = ONLY_PARTITION,
    ) -> "BucketArchive":
        """Open the archive for a log; a catalog that is not of the newest manifest is made anew.

        A log that is not the bucket's is refused. Else a new manifest ties both and fences whoever
        wrote the one before it. Without a log nothing is written, and nothing can be flushed. ``names_of``
        tells again, for a new catalog, which names the records of an append were given. ``writers`` are
        those that this process was before, and the one that it becomes.
        """
        writer = ids.token("writer_")
        predecessors = frozenset(writers or ())
        if writers is not None:
            writers.add(writer)
        if log is None:
            found = await Manifests(bucket, partition).newest() or first_manifest(partition, clock)
            require_numbers(found, partition)
            manifest = msgspec.structs.replace(found, writer=writer)
        else:
            found, manifest = await claim(bucket, partition, log, writer, clock, ids, predecessors)
        catalog = Catalog.open(catalog_path, limits)
        archive = cls(bucket, catalog, manifest, clock, limits, log, partition)
        try:
            archive._add_segments(manifest)
            if catalog.reader.about() not in (about(manifest), about(found)):
                catalog.close()
                archive.catalog = await CPU.run(
                    Catalog.create, catalog_path, limits
                )  # it removes a large file
                await rebuild(archive.catalog, bucket, manifest, archive.cache, names_of)
            elif catalog.reader.about() != about(manifest):
                await catalog.apply(Change(about(manifest)))  # the claim has changed nothing else
        except BaseException:
            await archive.close()
            raise
        return archive

    async def close(self) -> None:
        """Let the catalog and what is being read go."""
        await self.cache.close()
        self.catalog.close()

    # What the partition asks ------------------------------------------------------------

    @property
    def manifest(self) -> Manifest:
        """The manifest that holds."""
        return self.chain.manifest

    @property
    def cold(self) -> ColdStreams:
        """The streams as of the last flush."""
        return self.catalog.reader

    @property
    def flushed_through(self) -> int:
        """The position of the log up to which everything is archived."""
        return self.manifest.flushed_through

    @property
    def next_stream(self) -> int:
        """A number that no stream has had."""
        return self.manifest.next_stream

    async def subscriptions(self) -> Sequence[Effect]:
        """Return effects that give the subscriptions as of the last flush; they are not kept."""
        return await subscription_objects.load(self.bucket, self.manifest)

    async def govern(self, retention: Retention) -> None:
        """Tell by these policies from now on which streams are due."""
        await self.catalog.govern(retention)

    def due(self, now_ms: int) -> Iterable[tuple[int, Key]]:
        """Return number and path of the streams to be removed by now, as far as the last flush knows."""
        return self.catalog.reader.due(now_ms)

    def paths_after(self, workspace: str, prefix: str, after: str, limit: int) -> Sequence[tuple[int, str]]:
        """Return number and path of the next streams, by path, whose paths begin so, as of the last flush."""
        return self.catalog.reader.paths_after(workspace, prefix, after, limit)

    def numbers(
        self, workspace: str, folder: str, after: int | None, *, newest_first: bool
    ) -> AbstractContextManager[Iterator[int]]:
        """Give the numbers of a folder's streams after one, in order, as of the last flush."""
        return self.catalog.reader.numbers(workspace, folder, after, newest_first=newest_first)

    def streams_after(self, number: int, prefix: str, limit: int) -> tuple[int | None, Sequence[Stream]]:
        """Look at the next streams by number as of the last flush."""
        return self.catalog.reader.streams_after(number, prefix, limit)

    def stream_count(self) -> int:
        """Return how many streams there were at the last flush."""
        return self.catalog.reader.count()

    def usage(self) -> dict[str, WorkspaceUsage]:
        """Return what each workspace held at the last flush."""
        return self.catalog.reader.usage()

    async def read(self, stream: int, start: int, stop: int, bytes_max: int) -> tuple[bytes, int]:
        """Return records from ``start``, before ``stop``, at least one, and the position after them."""
        return await self._read(
            stream, start, lambda reader: reader.read(stream, start, stop, bytes_max), bytes_max
        )

    async def append_end(self, stream: int, position: int) -> int:
        """Return where the append that holds a position ends."""
        return await self._read(stream, position, lambda reader: reader.append_end(stream, position))

    async def _read(
        self, stream: int, position: int, read: Callable[[SegmentReader], Awaitable[T]], bytes_max: int = 0
    ) -> T:
        """Read when it is the turn of whoever asks, within the time that a reader may have to wait."""
        memory_bytes = _COPIES * max(bytes_max, _ROW_GROUP_BYTES)
        seconds = self._cold_read_seconds_max
        try:
            async with asyncio.timeout(seconds), self.cold_reads.part(CURRENT_HOLDER.get(), memory_bytes):
                return await self._read_now(stream, position, read)
        except TimeoutError as error:
            raise ColdReadError(
                reason=f"the bucket did not answer within {seconds:g} seconds (cold_read_seconds_max)"
            ) from error

    async def _read_now(self, stream: int, position: int, read: Callable[[SegmentReader], Awaitable[T]]) -> T:
        while True:
            reader = self._reader(stream, position)
            try:
                return await read(reader)
            except (BucketError, ObjectDamagedError) as error:
                if self._reader(stream, position) is reader:  # else a merge has replaced the segment
                    raise ColdReadError(reason=str(error)) from error

    def _reader(self, stream: int, position: int) -> SegmentReader:
        place = self.catalog.reader.place(stream, position)
        if place is None:
            raise ColdReadError(reason=f"no segment holds position {position} of stream {stream}")
        return self._segments[place.segment]

    # The writer -------------------------------------------------------------------------

    async def look(self) -> None:
        """Find out whether another writer has taken the archive; raise ManifestLostError if one has."""
        await self.chain.look()

    def tell_lost(self, on_lost: Callable[[ManifestLostError], None]) -> None:
        """Say whom to tell, at once, when another writer has taken the archive."""
        self.chain.on_lost = on_lost

    # Flushing ---------------------------------------------------------------------------

    async def flush(self, batches: Sequence[bytes], through: int) -> Flushed:
        """Archive the batches that follow the last flush, up to ``through``; all or nothing.

        If the outcome of the last try is unknown, that one is completed instead; ``through`` of
        the answer says what was archived.
        """
        return await self.chain.flush(lambda manifest: self._prepare(manifest, batches, through))

    async def _prepare(self, manifest: Manifest, batches: Sequence[bytes], through: int) -> Next:
        assert self._log is not None, "only what has a log can be flushed"
        number = manifest.number + 1
        folded, encoded = await self.catalog.run(self._fold, batches)
        state, now_ms = folded.state, self._clock.now_ms()
        segments: list[SegmentInfo] = []
        held: list[segment_contents.Contents] = []
        for day, segment in encoded.items():
            path = await create_beside(self.bucket, events_path(day, self.partition, number), segment.data)
            segments.append(segment.info(path))
            held.append(await self.catalog.run(segment_contents.contents, path, segment.directory))
        checkpoint = await CPU.run(encode_changes, state)
        sessions = await create_beside(self.bucket, sessions_path(self.partition, number), checkpoint.data)
        subscriptions = await subscription_objects.write(
            self.bucket, self.partition, manifest, number, folded.subscriptions, self._limits
        )
        following = msgspec.structs.replace(
            successor(
                manifest,
                now_ms,
                segments=(*manifest.segments, *segments),
                checkpoints=(*manifest.checkpoints, checkpoint.info(sessions)),
                replaced=subscriptions.replaced,
            ),
            flushed_through=through,
            frame=await self._log.checksum(through),
            next_stream=state.next_stream,
            extra=subscriptions.extra,
        )
        prepared = await self.catalog.run(_next, following, folded, held, sessions, now_ms)
        await let_go(folded.runs, state.streams, state.by_id, folded.named)
        return prepared

    def _fold(self, batches: Sequence[bytes]) -> tuple[Folded, dict[date, EncodedSegment]]:
        folded = fold(batches, self.catalog.writer, self.manifest.next_stream)
        days = split_by_date(folded.records())
        return folded, {day: encode_segment(records) for day, records in days.items()}

    # What a manifest says ---------------------------------------------------------------

    async def _carry_out(self, following: Next) -> None:
        """Go over to a manifest that holds. Reads go on, by the old or the new one, all the while."""
        self._add_segments(following.manifest)
        await self.catalog.apply(following.change)
        await let_go(following.change.streams, following.change.placed, following.change.names)
        for path in self._segments.keys() - {info.path for info in following.manifest.segments}:
            self.cache.forget(self._segments.pop(path).info.sha256)

    def _add_segments(self, manifest: Manifest) -> None:
        for info in manifest.segments:
            if info.path not in self._segments:
                self._segments[info.path] = SegmentReader(self.bucket, info, self.cache)


def _next(
    following: Manifest, folded: Folded, held: Sequence[segment_contents.Contents], sessions: str, now_ms: int
) -> Next:
    """Return what a flush changes; takes a while if it is of many streams."""
    state = folded.state
    change = Change(
        about(following),
        at_ms=now_ms,
        streams=list(state.by_id.values()),
        removed=list(state.removed),
        segments=[one.size for one in held],
        placed=[place for one in held for place in one.places],
        dirty=[sessions] if state.removed else [],
        names=folded.names(),
    )
    tails = {stream.id: stream.tail for stream in state.by_id.values()}
    return Next(following, change, Flushed(tails, list(state.removed), following.flushed_through))
