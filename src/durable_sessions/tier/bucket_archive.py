"""The archive in a bucket: segments, checkpoints and manifests, with the local catalog over them.

A flush is five steps, each of which takes plain values and gives plain values:

1. fold the log's batches into segments, a checkpoint and changed streams (``flush_contents``);
2. write these objects, which nothing refers to yet (``flush_objects``);
3. make the next manifest, and the change of the catalog that goes with it (``next_manifest``);
4. commit that manifest, or lose the bucket to another writer (``manifest_chain``);
5. carry the change out in the catalog (``catalog``).

A crash before the fourth loses nothing and leaves at worst objects that a sweep removes. Merges and
sweeps change the manifest by the last three steps, and only one change is under way at a time.
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
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from durable_sessions.storage.archive import Flushed
from durable_sessions.storage.retention import Retention
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import ColdStreams
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.usage import WorkspaceUsage
from durable_sessions.tier import subscription_objects
from durable_sessions.tier.archived_records import ArchivedRecords
from durable_sessions.tier.catalog import Catalog
from durable_sessions.tier.catalog_opening import open_catalog
from durable_sessions.tier.catalog_rebuild import NamesOf, no_names
from durable_sessions.tier.disposal import let_go
from durable_sessions.tier.flush_contents import flush_contents
from durable_sessions.tier.flush_objects import write_objects
from durable_sessions.tier.manifest_chain import ManifestChain
from durable_sessions.tier.next_manifest import FlushPoint, Replacement, after_flush, unchanged
from durable_sessions.tier.ownership import claim, first_manifest, require_numbers


class BucketArchive:
    """Everything up to the newest manifest, and the one place where that is replaced."""

    def __init__(
        self,
        bucket: ObjectStore,
        catalog: Catalog,
        cache: BlockCache,
        manifest: Manifest,
        clock: Clock,
        limits: Limits,
        log: Log | None,
        partition: PartitionId = ONLY_PARTITION,
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
        cache = BlockCache(limits.block_cache_bytes_max)
        try:
            catalog = await open_catalog(catalog_path, bucket, found, manifest, cache, names_of, limits)
        except BaseException:
            await cache.close()
            raise
        return cls(bucket, catalog, cache, manifest, clock, limits, log, partition)

    async def close(self) -> None:
        """Let the catalog and what is being read go."""
        await self.cache.close()
        self.catalog.close()

    # What the partition asks ------------------------------------------------------------

    @property
    def manifest(self) -> Manifest:
        """The manifest that the catalog is of: it holds, and nothing more has been carried out."""
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

    # The writer -------------------------------------------------------------------------

    async def look(self) -> None:
        """Find out whether another writer has taken the archive; raise ManifestLostError if one has."""
        async with self._turn:
            await self._chain.look()

    def tell_lost(self, on_lost: Callable[[ManifestLostError], None]) -> None:
        """Say whom to tell, at once, when another writer has taken the archive."""
        self._chain.on_lost = on_lost

    async def confirmed(self) -> Manifest | None:
        """Return the manifest after making sure that it holds and that this process wrote it.

        Whoever else believes to be the writer can then no longer make a manifest that refers
        to an object with a number up to this one's. None while the outcome of a flush is unknown.
        """
        async with self.changing() as manifest:
            if manifest is None:
                return None
            if self._chain.written:
                await self._chain.confirm()
            else:
                await self.replace(unchanged(manifest, self._clock.now_ms()))
            return self.manifest

    # Changes, one at a time -------------------------------------------------------------

    async def flush(self, batches: Sequence[bytes], through: int) -> Flushed:
        """Archive the batches that follow the last flush, up to ``through``; all or nothing.

        If the outcome of the last try is unknown, that one is completed instead; ``through`` of
        the answer says what was archived.
        """
        async with self._turn:
            self._chain.require_writer()
            while True:
                following = self._unfinished or await self._flush(batches, through)
                await self.replace(following)
                if following.flushed is not None:
                    return following.flushed

    async def _flush(self, batches: Sequence[bytes], through: int) -> Replacement:
        """Write what a flush needs, up to its manifest; nothing refers to it yet."""
        assert self._log is not None, "only what has a log can be flushed"
        manifest, catalog = self._manifest, self.catalog
        contents = await catalog.run(flush_contents, batches, catalog.writer, manifest.next_stream)
        now_ms = self._clock.now_ms()
        written = await write_objects(self.bucket, self.partition, manifest, contents, self._limits)
        point = FlushPoint(through, await self._log.checksum(through))
        return await catalog.run(after_flush, manifest, contents, written, point, now_ms)

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[Manifest | None]:
        """Give the manifest that may be replaced in a ``with`` block, in which nobody else can.

        A change whose outcome is unknown is finished first; but only a flush may finish a flush,
        because it tells the partition: until then there is nothing to replace, and None is given.
        """
        async with self._turn:
            self._chain.require_writer()
            if self._unfinished is not None and self._unfinished.flushed is None:
                await self.replace(self._unfinished)
            yield self._manifest if self._unfinished is None else None

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Let no change begin for the length of a ``with`` block, which is entered when none is under way."""
        async with self._turn:
            yield

    async def replace(self, following: Replacement) -> None:
        """Commit a manifest and carry out what it changes; for those whose turn it is.

        What fails here is unfinished: it is completed before anything else begins.
        """
        assert self._turn.locked()
        self._unfinished = following
        await self._chain.commit(following.manifest)
        await self._carry_out(following)
        self._manifest = following.manifest
        self._unfinished = None

    async def _carry_out(self, following: Replacement) -> None:
        """Go over to a manifest that holds. Reads go on, by the old or the new one, all the while."""
        self.records.add_segments(following.manifest)
        await self.catalog.apply(following.change)
        await let_go(following.change.streams, following.change.placed, following.change.names)
        self.records.forget_segments(following.manifest)
