"""The manifest that holds, and how the next one takes its place: one change at a time.

Flushes, merges and sweeps all go this way. What a change needs is written first; then its
manifest is created; then it is carried out here. If the outcome of the creation is not known,
the same manifest is tried again before anything else: two different ones never compete.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import NamedTuple

import msgspec

from durable_sessions.bucket.manifest import (
    CheckpointInfo,
    GarbageInfo,
    Manifest,
    Manifests,
    SegmentInfo,
)
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.clock import Clock
from durable_sessions.errors import (
    BucketError,
    DurableSessionsError,
    ManifestLostError,
    ObjectDamagedError,
    ObjectExistsError,
)
from durable_sessions.partition_id import PartitionId
from durable_sessions.storage.archive import Flushed
from durable_sessions.tier import subscription_objects
from durable_sessions.tier.catalog import Change
from durable_sessions.tier.catalog_view import About

_LOOK_SECONDS_MAX = 1.0


class Next(NamedTuple):
    """A change that is written to the bucket, up to its manifest, which may or may not hold yet.

    ``flushed`` is a flush's.
    """

    manifest: Manifest
    change: Change
    flushed: Flushed | None = None


def about(manifest: Manifest) -> About:
    """Return what the catalog says of itself when it is of this manifest."""
    return About(manifest.number, manifest.flushed_through)


def successor(
    manifest: Manifest,
    now_ms: int,
    *,
    segments: Iterable[SegmentInfo] | None = None,
    checkpoints: Iterable[CheckpointInfo] | None = None,
    replaced: Iterable[str] = (),
) -> Manifest:
    """Return the manifest after this one; replaced objects become garbage now."""
    garbage = [GarbageInfo(path=path, since_ms=now_ms) for path in replaced]
    return msgspec.structs.replace(
        manifest,
        number=manifest.number + 1,
        created_at_ms=now_ms,
        segments=manifest.segments if segments is None else tuple(segments),
        checkpoints=manifest.checkpoints if checkpoints is None else tuple(checkpoints),
        garbage=(*manifest.garbage, *garbage),
    )


def referred(manifest: Manifest) -> set[str]:
    """Return the paths of the objects that a manifest refers to, garbage left out."""
    paths = {info.path for info in manifest.segments}
    paths.update(info.path for info in manifest.checkpoints)
    paths.update(info.path for info in subscription_objects.objects(manifest))
    return paths


class ManifestChain:
    """Replaces the manifest that holds; ``carry_out`` is told of each that does.

    Who loses a manifest to another writer has lost the bucket: ``on_lost`` is told once, and nothing
    is tried any more. ``location`` is where the log is, for those who are told. ``written`` says that
    this process wrote the manifest that holds.
    """

    def __init__(
        self,
        bucket: ObjectStore,
        partition: PartitionId,
        manifest: Manifest,
        clock: Clock,
        carry_out: Callable[[Next], Awaitable[None]],
        location: str = "its data directory",
        *,
        written: bool = False,
    ) -> None:
        self._manifests = Manifests(bucket, partition)
        self._clock = clock
        self._carry_out = carry_out
        self._turn = asyncio.Lock()
        self._location = location
        self._unsettled: Next | None = None
        self._lost: ManifestLostError | None = None
        self.on_lost: Callable[[ManifestLostError], None] = _ignore
        self._written = manifest.number if written else -1
        self.manifest = manifest

    async def flush(self, prepare: Callable[[Manifest], Awaitable[Next]]) -> Flushed:
        """Replace the manifest by a flush's; an earlier one that is not settled is finished instead."""
        async with self._turn:
            self._require_writer()
            while True:
                settled = await self._settle()
                if settled is None:
                    settled = await self._commit(await prepare(self.manifest))
                if settled.flushed is not None:
                    return settled.flushed

    async def change(self, prepare: Callable[[Manifest], Awaitable[Next | None]]) -> bool:
        """Replace the manifest by what ``prepare`` makes of it; say whether it made anything."""
        async with self._turn:
            self._require_writer()
            if not await self._ready():
                return False
            following = await prepare(self.manifest)
            if following is None:
                return False
            await self._commit(following)
            return True

    @asynccontextmanager
    async def quiet(self) -> AsyncIterator[None]:
        """Let no change begin for the length of a ``with`` block, which is entered when none is under way."""
        async with self._turn:
            yield

    async def confirmed(self) -> Manifest | None:
        """Return the manifest after making sure that it holds and that this process wrote it.

        Whoever else believes to be the writer can then no longer make a manifest that refers
        to an object with a number up to this one's. None while the outcome of a flush is unknown.
        """
        async with self._turn:
            self._require_writer()
            if not await self._ready():
                return None
            if self._written != self.manifest.number:
                manifest = successor(self.manifest, self._clock.now_ms())
                await self._commit(Next(manifest, Change(about(manifest))))
            elif not await self._holds(self.manifest):
                raise await self._lose()
            return self.manifest

    async def look(self) -> None:
        """Find out whether another writer has replaced the manifest; raise if one has."""
        async with self._turn:
            self._require_writer()
            if self._unsettled is None and await self._manifests.newest_number() > self.manifest.number:
                raise await self._lose()

    def _require_writer(self) -> None:
        if self._lost is not None:
            raise self._lost

    async def _lose(self) -> ManifestLostError:
        """Give the bucket up for good, and tell who has it."""
        self._unsettled = None
        number, how = self.manifest.number + 1, "with another data directory or a copy of this one"
        try:
            # Who has lost the bucket may not go on for long, only to tell more of it.
            async with asyncio.timeout(_LOOK_SECONDS_MAX):
                newest = await self._manifests.newest()
        except (DurableSessionsError, TimeoutError):
            newest = None
        if newest is not None and newest.number > self.manifest.number:
            number = newest.number
            same = newest.lineage == self.manifest.lineage
            how = "with a copy of this data directory" if same else "with another data directory"
        self._lost = ManifestLostError(
            manifest=number, how=how, after=self.manifest.flushed_through, log=self._location
        )
        self.on_lost(self._lost)
        return self._lost

    async def _ready(self) -> bool:
        """Settle what is not; but only a flush may finish a flush, because it tells the partition."""
        if self._unsettled is not None and self._unsettled.flushed is not None:
            return False
        await self._settle()
        return True

    async def _commit(self, following: Next) -> Next:
        assert following.manifest.number == self.manifest.number + 1
        self._unsettled = following
        return await self._finish(following)

    async def _settle(self) -> Next | None:
        """Finish the change whose outcome is unknown, and return it; None if there is none."""
        following = self._unsettled
        if following is None:
            return None
        return await self._finish(following, look_first=True)

    async def _finish(self, following: Next, *, look_first: bool = False) -> Next:
        if not (look_first and await self._holds(following.manifest)):
            try:
                await self._manifests.create_next(following.manifest)
            except ObjectExistsError:
                if not await self._holds(following.manifest):
                    raise await self._lose() from None
        await self._carry_out(following)
        self.manifest = following.manifest
        self._written = following.manifest.number
        self._unsettled = None
        return following

    async def _holds(self, manifest: Manifest) -> bool:
        try:
            newest = await self._manifests.newest()
        except ObjectDamagedError as error:
            raise BucketError(reason=str(error)) from error  # on the way, most likely: we shall look again
        return newest is not None and (newest.number, newest.writer) == (manifest.number, manifest.writer)


def _ignore(lost: ManifestLostError) -> None:
    """Do nothing: nobody is to be told."""
