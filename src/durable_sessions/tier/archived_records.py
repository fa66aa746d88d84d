"""Cold reads: records from the segments in the bucket, bounded in memory and in time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.manifest import Manifest
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.segment_reader import READS_AHEAD, SegmentReader, SegmentSlice
from durable_sessions.errors import BucketError, ColdReadError, ObjectDamagedError
from durable_sessions.fair_queue import FairQueue
from durable_sessions.limits import Limits
from durable_sessions.shares import CURRENT_HOLDER
from durable_sessions.tier.catalog_view import CatalogView

T = TypeVar("T")
_ROW_GROUP_BYTES = 1024 * 1024
_COPIES = 3  # a read holds its bytes as fetched, as decompressed and as answered


class ArchivedRecords:
    """Reads records from the segments in which the catalog places them."""

    def __init__(self, bucket: ObjectStore, catalog: CatalogView, cache: BlockCache, limits: Limits) -> None:
        self._bucket = bucket
        self._catalog = catalog
        self._cold_read_seconds_max = limits.cold_read_seconds_max
        self._segments: dict[str, SegmentReader] = {}
        self.cache = cache
        self.cold_reads = FairQueue(limits.cold_read_bytes_max)

    def add_segments(self, manifest: Manifest) -> None:
        """Open readers for the segments of this manifest, before the catalog places records there."""
        for info in manifest.segments:
            if info.path not in self._segments:
                self._segments[info.path] = SegmentReader(self._bucket, info, self.cache)

    def forget_segments(self, manifest: Manifest) -> None:
        """Drop the readers of segments that this manifest no longer has, after the catalog dropped them."""
        for path in self._segments.keys() - {info.path for info in manifest.segments}:
            self.cache.forget(self._segments.pop(path).info.sha256)

    async def read(self, stream: int, start: int, stop: int, bytes_max: int) -> SegmentSlice:
        """Return records from ``start``, before ``stop``, at least one."""
        return await self._read(
            stream, start, lambda reader: reader.read(stream, start, stop, bytes_max), bytes_max
        )

    async def append_end(self, stream: int, position: int) -> int:
        """Return where the append that holds a position ends."""
        return await self._read(stream, position, lambda reader: reader.append_end(stream, position))

    async def _read(
        self, stream: int, position: int, read: Callable[[SegmentReader], Awaitable[T]], bytes_max: int = 0
    ) -> T:
        """Wait for memory, shared fairly between callers, and read; both within the time for cold reads."""
        memory_bytes = _COPIES * max(bytes_max, _ROW_GROUP_BYTES) + READS_AHEAD * bytes_max
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
                # A merge may have replaced the segment during the read, and a sweep removed the object. The
                # records are then in another segment, and the read is repeated there.
                if self._reader(stream, position) is reader:
                    raise ColdReadError(reason=str(error)) from error

    def _reader(self, stream: int, position: int) -> SegmentReader:
        place = self._catalog.place(stream, position)
        if place is None:
            raise ColdReadError(reason=f"no segment holds position {position} of stream {stream}")
        return self._segments[place.segment]
