"""The chain of manifests: which one is the newest, and how the next one is committed.

A manifest is committed by creating the object of its number, which must not exist yet. If the outcome is
unknown, the same manifest is tried again before any other, so two different manifests of one writer never
compete. A writer that finds the number taken by another writer has lost the bucket for good.
"""

import asyncio
from collections.abc import Callable

from durable_sessions.bucket.manifest import Manifest, Manifests
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import (
    BucketError,
    DurableSessionsError,
    ManifestLostError,
    ObjectDamagedError,
    ObjectExistsError,
)
from durable_sessions.partition_id import PartitionId

_DETAILS_SECONDS_MAX = 1.0


class ManifestChain:
    """Commits one manifest after another; ``newest`` is the last one that is known to be committed.

    When another writer has committed one, ``on_lost`` is called once, and every later call fails.
    ``location`` names the log in that error. ``written`` says whether this process wrote the newest
    manifest. Only one call may be under way at a time.
    """

    def __init__(
        self,
        bucket: ObjectStore,
        partition: PartitionId,
        newest: Manifest,
        location: str = "its data directory",
        *,
        written: bool = False,
    ) -> None:
        self._manifests = Manifests(bucket, partition)
        self._location = location
        self._unsettled: Manifest | None = None
        self._lost: ManifestLostError | None = None
        self.on_lost: Callable[[ManifestLostError], None] = _ignore
        self.newest = newest
        self.written = written

    def require_writer(self) -> None:
        """Raise ManifestLostError if another writer is known to have taken the bucket."""
        if self._lost is not None:
            raise self._lost

    async def commit(self, manifest: Manifest) -> None:
        """Commit a manifest durably; ManifestLostError if another writer was first.

        After any other error the outcome is unknown: commit the same manifest again. Committing the newest
        manifest again does nothing.
        """
        self.require_writer()
        if manifest is self.newest:
            return
        assert manifest.number == self.newest.number + 1
        assert self._unsettled is None or self._unsettled is manifest, "the unsettled one comes first"
        tried, self._unsettled = self._unsettled is not None, manifest
        if not (tried and await self._holds(manifest)):
            try:
                await self._manifests.create_next(manifest)
            except ObjectExistsError:
                # It may be our own: an earlier attempt without an answer can arrive after the check above.
                if not await self._holds(manifest):
                    raise await self._lose() from None
        self.newest, self.written, self._unsettled = manifest, True, None

    async def confirm(self) -> None:
        """Make sure that the newest manifest is the one that this process wrote; raise if it is not."""
        self.require_writer()
        assert self.written
        if not await self._holds(self.newest):
            raise await self._lose()

    async def check_fence(self) -> None:
        """Raise ManifestLostError if another writer has committed a manifest."""
        self.require_writer()
        # While a commit of our own is unsettled, a higher number may be ours: the commit finds out.
        if self._unsettled is None and await self._manifests.newest_number() > self.newest.number:
            raise await self._lose()

    async def _lose(self) -> ManifestLostError:
        """Give up the bucket for good, and return the error that says who has it."""
        self._unsettled = None
        number, how = self.newest.number + 1, "with another data directory or a copy of this one"
        try:
            # The details are only for the error message. A writer that has lost the bucket must stop soon,
            # so it does not wait long for them.
            async with asyncio.timeout(_DETAILS_SECONDS_MAX):
                newest = await self._manifests.newest()
        except (DurableSessionsError, TimeoutError):
            newest = None
        if newest is not None and newest.number > self.newest.number:
            number = newest.number
            same = newest.lineage == self.newest.lineage
            how = "with a copy of this data directory" if same else "with another data directory"
        self._lost = ManifestLostError(
            manifest=number, how=how, after=self.newest.flushed_through, log=self._location
        )
        self.on_lost(self._lost)
        return self._lost

    async def _holds(self, manifest: Manifest) -> bool:
        try:
            newest = await self._manifests.newest()
        except ObjectDamagedError as error:
            # Most likely damaged in transit. As a BucketError it is retried, not taken for a lost bucket.
            raise BucketError(reason=str(error)) from error
        return newest is not None and (newest.number, newest.writer) == (manifest.number, manifest.writer)


def _ignore(lost: ManifestLostError) -> None:
    """Do nothing: the callback while none is set."""
