"""The partitions that a node is ready to take over: it keeps their catalogs up to date."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from durable_sessions.bucket.store import Bucket
from durable_sessions.limits import Limits
from durable_sessions.node.partition_files import CATALOG_NAME
from durable_sessions.partition_id import PartitionId
from durable_sessions.sessions.event_ids import names_of
from durable_sessions.sessions.indexing import index_of
from durable_sessions.tier.catalog_shadow import CatalogShadow


class CatalogShadows:
    """The shadows of one node, by partition."""

    def __init__(self, bucket: Bucket, data: Path, limits: Limits) -> None:
        self._bucket = bucket
        self._data = data
        self._limits = limits
        self._shadows: dict[int, CatalogShadow] = {}

    def __contains__(self, partition: int) -> bool:
        """Say whether a partition is followed."""
        return partition in self._shadows

    def manifest(self, partition: int) -> int:
        """Return the manifest that the catalog of a partition is of; 0 if there is none."""
        shadow = self._shadows.get(partition)
        return 0 if shadow is None else shadow.manifest

    async def keep(self, wanted: Mapping[PartitionId, int]) -> None:
        """Follow exactly these partitions, each at least to the manifest that its owner has told of."""
        numbers = {partition.number for partition in wanted}
        gone = [self._shadows.pop(number) for number in list(self._shadows) if number not in numbers]
        for partition in wanted:
            if partition.number not in self._shadows:
                path = partition.directory(self._data) / CATALOG_NAME
                self._shadows[partition.number] = CatalogShadow(
                    path, self._bucket, partition, names_of, index_of, self._limits
                )
        behind = [
            shadow
            for partition, told in wanted.items()
            if (shadow := self._shadows[partition.number]).manifest < max(told, 1)
        ]
        await asyncio.gather(*(one.close() for one in gone), *(one.advance() for one in behind))

    async def finish(self, partition: int) -> None:
        """Bring a catalog that is followed to the newest manifest, and let the engine have it."""
        shadow = self._shadows.pop(partition, None)
        if shadow is not None:
            try:
                await shadow.advance()
            finally:
                await shadow.close()

    async def close(self) -> None:
        """Follow nothing more."""
        await self.keep({})
