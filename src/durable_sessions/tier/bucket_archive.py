"""The archive in a bucket: segments, checkpoints and manifests, with the local catalog over them.

A flush has five steps, each of which takes plain values and returns plain values:

1. fold the log's batches into segments, a checkpoint and changed streams (``flush_contents``);
2. write these objects, which nothing refers to yet (``flush_objects``);
3. build the next manifest and the matching change of the catalog (``next_manifest``);
4. commit that manifest, or lose the bucket to another writer (``manifest_chain``);
5. apply the change to the catalog (``catalog``).

A crash before step 4 loses nothing; at worst it leaves objects that a sweep removes. Merges and sweeps
change the manifest through the last three steps. Only one change is under way at a time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path

import msgspec

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.manifest import Manifest, Manifests
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.clock import Clock
from durable_sessions.errors import ManifestLostError
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.log import Log
from durable_sessions.partition_id import PartitionId
from durable_sessions.storage.archive import Flushed
from durable_sessions.storage.indexed import IndexOf, Place, TimeOrder, nothing_indexed
from durable_sessions.storage.retention import Retention
from durable_sessions.streams.effects import Effect, ErasedRecord
from durable_sessions.streams.state import ColdStreams
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.usage import WorkspaceUsage
from durable_sessions.tier import subscription_objects
from durable_sessions.tier.archived_records import ArchivedRecords
from durable_sessions.tier.catalog import Catalog
from durable_sessions.tier.catalog_opening import open_catalog
from durable_sessions.tier.catalog_rebuild import NamesOf, no_names
from durable_sessions.tier.disposal import free_gradually
from durable_sessions.tier.flush_contents import flush_contents
from durable_sessions.tier.flush_objects import write_objects
from durable_sessions.tier.flush_process import FlushProcess
from durable_sessions.tier.manifest_chain import ManifestChain
from durable_sessions.tier.next_manifest import FlushPoint, Replacement, after_flush, skipped, unchanged
from durable_sessions.tier.ownership import claim, first_manifest, require_numbers


class BucketArchive:
    """Everything up to the newest manifest; the only class that replaces the manifest."""

    def __init__(
        self,
        bucket: ObjectStore,
        catalog: Catalog,
        cache: BlockCache,
        manifest: Manifest,
        clock: Clock,
        limits: Limits,
        log: Log | None,
        partition: PartitionId,
        flushing: FlushProcess | None = None,
    ) -> None:
        self.bucket = bucket
        self.partition = partition
        self.catalog = catalog
        self.records = ArchivedRecords(bucket, catalog.reader, cache, limits)
        self.records.add_segments(manifest)
        self.cache = cache
        self.cold_reads = self.records.cold_reads
        location = "its data directory" if log is None else log.location
        self._chain = ManifestChain(bucket, partition, manifest, location, written=log is not None)
        self._manifest = manifest
        self._turn = asyncio.Lock()
        self._unfinished: Replacement | None = None
        self._log = log
        self._clock = clock
        self._limits = limits
        self._flushing = flushing

    @classmethod
    async def open(
        cls,
        bucket: ObjectStore,
        catalog_path: Path,
        clock: Clock,
        ids: Ids,
        limits: Limits,
        names_of: NamesOf = no_names,
        index_of: IndexOf = nothing_indexed,
        *,
        log: Log | None,
        writers: set[str] | None = None,
        partition: PartitionId,
        flushing: FlushProcess | None = None,
    ) -> "BucketArchive":
        """Open the archive for a log; rebuild the catalog if it does not belong to the newest manifest.

        A log that does not belong to the bucket is refused. Otherwise a new manifest ties the two together
        and fences the writer of the previous one. Without a log opening writes nothing to the bucket, and
        nothing can be flushed. ``names_of`` recovers the names of an append's records for a new catalog;
        ``index_of`` says what streams are listed by, the same at every open.
        ``writers`` are the writer names that this process has used; its new one is added. ``flushing`` folds
        large flushes.
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
        cache = BlockCache(limits.block_cache_bytes_max)
        try:
            catalog = await open_catalog(
                catalog_path, bucket, found, manifest, cache, names_of, index_of, limits
            )
        except BaseException:
            await cache.close()
            raise
        return cls(bucket, catalog, cache, manifest, clock, limits, log, partition, flushing)

    async def close(self) -> None:
        """Stop reads that fill the cache, and close the catalog."""
        await self.cache.close()
        self.catalog.close()

    # What the partition asks ------------------------------------------------------------

    @property
    def manifest(self) -> Manifest:
        """The newest manifest that is committed and applied to the catalog."""
        return self._manifest

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
        """A number that no stream has ever had."""
        return self.manifest.next_stream

    async def subscriptions(self) -> Sequence[Effect]:
        """Return effects that rebuild subscriptions and outbox as of the last flush; they are not cached."""
        return await subscription_objects.load(self.bucket, self.manifest)

    async def govern(self, retention: Retention) -> None:
        """Use these retention policies from now on to decide which streams are due for removal."""
        await self.catalog.govern(retention)

    def due(self, now_ms: int) -> Iterable[tuple[int, Key]]:
        """Return number and path of the streams due for removal by ``now_ms``, as of the last flush."""
        return self.catalog.reader.due(now_ms)

    def paths_after(self, workspace: str, prefix: str, after: str, limit: int) -> Sequence[tuple[int, str]]:
        """Return number and path of the next streams, by path, under a prefix, as of the last flush."""
        return self.catalog.reader.paths_after(workspace, prefix, after, limit)

    def numbers(
        self, workspace: str, folder: str, after: int | None, *, newest_first: bool
    ) -> AbstractContextManager[Iterator[int]]:
        """Yield the numbers of a folder's streams that follow ``after``, in order, as of the last flush."""
        return self.catalog.reader.numbers(workspace, folder, after, newest_first=newest_first)

    @property
    def index_of(self) -> IndexOf:
        """What streams are listed by beside their numbers."""
        return self.catalog.index_of

    def places(
        self, workspace: str, folder: str, order: TimeOrder, after: Place | None, *, newest_first: bool
    ) -> AbstractContextManager[Iterator[Place]]:
        """Yield the places of a folder's streams behind ``after``, in order, as of the last flush."""
        return self.catalog.reader.places(workspace, folder, order, after, newest_first=newest_first)

    def with_term(
        self, workspace: str, folder: str, term: int, after: int | None, *, newest_first: bool
    ) -> AbstractContextManager[Iterator[int]]:
        """Yield the numbers of a folder's streams that have a term, in order, as of the last flush."""
        return self.catalog.reader.with_term(workspace, folder, term, after, newest_first=newest_first)

    def slot_holders(
        self, workspace: str, name: str, after: int | None, *, newest_first: bool
    ) -> AbstractContextManager[Iterator[int]]:
        """Yield the numbers of streams that may hold a slot, in order, as of the last flush."""
        return self.catalog.reader.slot_holders(workspace, name, after, newest_first=newest_first)

    def streams_after(self, number: int, prefix: str, limit: int) -> tuple[int | None, Sequence[Stream]]:
        """Return the next streams by number as of the last flush: see :meth:`CatalogView.streams_after`."""
        return self.catalog.reader.streams_after(number, prefix, limit)

    def settled_erasures(self, limit: int) -> Sequence[tuple[int, Sequence[ErasedRecord]]]:
        """Return erased records that no segment has any more, by stream, as of the last flush."""
        return self.catalog.reader.settled_erasures(limit)

    def stream_count(self) -> int:
        """Return how many streams there were at the last flush."""
        return self.catalog.reader.count()

    def usage(self) -> dict[str, WorkspaceUsage]:
        """Return what each workspace held at the last flush."""
        return self.catalog.reader.usage()

    # The writer -------------------------------------------------------------------------

    async def check_fence(self) -> None:
        """Raise ManifestLostError if another writer has taken over the archive."""
        async with self._turn:
            await self._chain.check_fence()

    def call_when_lost(self, on_lost: Callable[[ManifestLostError], None]) -> None:
        """Set the callback that is called as soon as another writer is seen to have taken the archive."""
        self._chain.on_lost = on_lost

    async def confirmed(self) -> Manifest | None:
        """Return the manifest after making sure that it is the newest one and that this process wrote it.

        Another process that still believes it is the writer can then no longer commit a manifest that refers
        to an object with this manifest's number or a lower one. None while the outcome of a flush is unknown.
        """
        async with self.changing() as manifest:
            if manifest is None:
                return None
            if self._chain.written:
                await self._chain.confirm()
            else:
                # A manifest that was only read proves nothing about its writer, who may still be alive.
                # Committing the next one fences that writer, or shows that this process is not the writer.
                await self.replace(unchanged(manifest, self._clock.now_ms()))
            return self.manifest

    # Changes, one at a time -------------------------------------------------------------

    async def flush(self, batches: Sequence[bytes], through: int) -> Flushed:
        """Archive the batches that follow the last flush, up to ``through``; all or nothing.

        If the outcome of the previous attempt is unknown, that attempt is completed instead; ``through`` of
        the result says what was archived.
        """
        async with self._turn:
            self._chain.require_writer()
            # The unfinished replacement may be a merge's or a sweep's. It is completed first, and the flush
            # follows in the next round, built on the manifest that the merge left.
            while True:
                following = self._unfinished or await self._flush(batches, through)
                await self.replace(following)
                if following.flushed is not None:
                    return following.flushed

    async def skip(self, through: int) -> None:
        """Record that the log has no batch between the last flush and ``through``."""
        assert self._log is not None, "only what has a log can be flushed"
        async with self.changing() as manifest:
            if manifest is not None and manifest.flushed_through < through:
                point = FlushPoint(through, await self._log.checksum(through))
                await self.replace(skipped(manifest, point, self._clock.now_ms()))

    async def _flush(self, batches: Sequence[bytes], through: int) -> Replacement:
        """Write the objects of a flush and build its manifest, which is not committed yet."""
        assert self._log is not None, "only what has a log can be flushed"
        manifest, catalog = self._manifest, self.catalog
        # Folding reads the streams from the catalog, which only changes of the manifest change.
        contents = None
        if self._flushing is not None:
            contents = await self._flushing.contents(catalog.path, batches, manifest.next_stream)
        if contents is None:
            contents = await catalog.run(flush_contents, batches, catalog.writer, manifest.next_stream)
        now_ms = self._clock.now_ms()
        written = await write_objects(self.bucket, self.partition, manifest, contents, self._limits)
        point = FlushPoint(through, await self._log.checksum(through))
        return await catalog.run(after_flush, manifest, contents, written, point, now_ms)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[Manifest | None]:
        """Yield the manifest that may be replaced within the ``with`` block; no other change runs meanwhile.

        A change whose outcome is unknown is finished first. Only a flush may finish a flush, because
        its caller must tell the partition what was archived; until then None is yielded.
        """
        async with self._turn:
            self._chain.require_writer()
            if self._unfinished is not None and self._unfinished.flushed is None:
                await self.replace(self._unfinished)
            yield self._manifest if self._unfinished is None else None

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Wait until no change is under way, and let none begin within the ``with`` block."""
        async with self._turn:
            yield

    async def replace(self, following: Replacement) -> None:
        """Commit a manifest and apply its change to the catalog; the caller holds the turn.

        If this fails, the replacement stays unfinished and is completed before any other change begins.
        """
        assert self._turn.locked()
        self._unfinished = following
        await self._chain.commit(following.manifest)
        await self._apply_replacement(following)
        self._manifest = following.manifest
        self._unfinished = None

    async def _apply_replacement(self, following: Replacement) -> None:
        """Switch to a committed manifest; reads continue meanwhile, by the old one or the new one."""
        # In this order: the catalog may name a segment only while it has a reader. New readers are opened
        # before the catalog changes, and old ones are dropped after it.
        self.records.add_segments(following.manifest)
        await self.catalog.apply(following.change)
        await free_gradually(*following.change.placed)
        self.records.forget_segments(following.manifest)
