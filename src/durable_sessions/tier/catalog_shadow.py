"""The catalog of a partition that another process owns, kept ready for the day that this one takes it over.

A new owner needs the catalog of the newest manifest. To make it takes as long as the bucket is large; to
keep it takes only what each manifest adds. Nobody reads from a shadow: it is always a little behind.
"""

import asyncio
from pathlib import Path

import structlog

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.manifest import Manifest, Manifests
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.limits import Limits
from durable_sessions.partition_id import PartitionId
from durable_sessions.storage.indexed import IndexOf
from durable_sessions.tier.catalog import Catalog
from durable_sessions.tier.catalog_advance import advance
from durable_sessions.tier.catalog_opening import open_catalog
from durable_sessions.tier.catalog_rebuild import NamesOf
from durable_sessions.tier.snapshot_restore import UNUSABLE

logger = structlog.get_logger(__name__)


class CatalogShadow:
    """Follows the manifests of one partition; its file is the one that an engine opens at a take-over."""

    def __init__(
        self,
        path: Path,
        bucket: ObjectStore,
        partition: PartitionId,
        names_of: NamesOf,
        index_of: IndexOf,
        limits: Limits,
    ) -> None:
        self._path = path
        self._bucket = bucket
        self._manifests = Manifests(bucket, partition)
        self._names_of = names_of
        self._index_of = index_of
        self._limits = limits
        self._turn = asyncio.Lock()
        self._catalog: Catalog | None = None
        self._manifest: Manifest | None = None

    @property
    def manifest(self) -> int:
        """The number of the manifest that the catalog is of; 0 if there is none yet."""
        return 0 if self._manifest is None else self._manifest.number

    async def advance(self) -> None:
        """Bring the catalog to the newest manifest."""
        async with self._turn:
            newest = await self._manifests.newest()
            if newest is None or self.manifest >= newest.number:
                return
            cache = BlockCache(self._limits.block_cache_bytes_max)
            try:
                if not await self._advanced(newest, cache):
                    await self._open(newest, cache)
                self._manifest = newest
            finally:
                await cache.close()

    async def close(self) -> None:
        """Follow nothing more; the file stays for an engine."""
        async with self._turn:
            self._release()

    async def _advanced(self, newest: Manifest, cache: BlockCache) -> bool:
        """Bring the catalog to a later manifest; return False if it must be made anew."""
        if self._catalog is None or self._manifest is None:
            return False
        try:
            await advance(self._catalog, self._bucket, self._manifest, newest, cache, self._names_of)
        except UNUSABLE as error:
            logger.info("shadow_made_anew", manifest=newest.number, reason=str(error) or repr(error))
            return False
        return True

    async def _open(self, newest: Manifest, cache: BlockCache) -> None:
        self._release()
        await asyncio.to_thread(self._path.parent.mkdir, mode=0o700, parents=True, exist_ok=True)
        self._catalog = await open_catalog(
            self._path, self._bucket, newest, newest, cache, self._names_of, self._index_of, self._limits
        )

    def _release(self) -> None:
        catalog, self._catalog, self._manifest = self._catalog, None, None
        if catalog is not None:
            catalog.close()
