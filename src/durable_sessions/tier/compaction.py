"""Compaction: merging small segments, dropping the records of removed streams, full checkpoints.

A merge changes nothing that a reader sees. It writes one segment in place of several. The next manifest
refers to the new one and lists the old ones as garbage, which is kept until nobody can be reading it.
"""

from collections.abc import Collection
from typing import NamedTuple

import msgspec
import structlog

from durable_sessions.bucket.layout import events_path
from durable_sessions.bucket.manifest import Manifest, SegmentInfo
from durable_sessions.bucket.numbered import create_beside
from durable_sessions.bucket.records import DAY_MS, StreamRecords, with_replaced
from durable_sessions.bucket.segment import EncodedSegment, encode_segment
from durable_sessions.clock import Clock
from durable_sessions.errors import ObjectDamagedError
from durable_sessions.limits import Limits
from durable_sessions.tier import segment_contents
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.catalog import Change
from durable_sessions.tier.catalog_view import CatalogView
from durable_sessions.tier.checkpoints import FULL_PARTS, write_full_checkpoint
from durable_sessions.tier.disposal import free_gradually
from durable_sessions.tier.merge_policy import Candidate, choose, day_of, rewrite_at_ms
from durable_sessions.tier.next_manifest import Replacement, about, successor
from durable_sessions.tier.segment_unpacker import Runs, WholeSegment
from durable_sessions.tier.snapshot_info import snapshot_of, with_snapshot

logger = structlog.get_logger(__name__)


class _Looked(NamedTuple):
    """A manifest that was found to have nothing to merge, and until when that stays true."""

    manifest: int
    until_ms: int


class Compactor:
    """Makes one merge at a time, so that a flush can run between two of them."""

    def __init__(self, archive: BucketArchive, clock: Clock, limits: Limits) -> None:
        self._archive = archive
        self._bucket = archive.bucket
        self._clock = clock
        self._limits = limits
        self._damaged: dict[str, int] = {}
        self._looked = _Looked(-1, 0)
        self.merges = 0
        self.full_checkpoints = 0

    async def step(self) -> bool:
        """Make the most urgent merge and return True, or False if there is none to make."""
        looked = self._looked
        if looked.manifest == self._archive.manifest.number and self._clock.now_ms() < looked.until_ms:
            return False
        async with self._archive.changing() as manifest:
            following = None if manifest is None else await self._prepare(manifest)
            if following is None:
                return False
            await self._archive.replace(following)
            return True

    async def _prepare(self, manifest: Manifest) -> Replacement | None:
        now_ms = self._clock.now_ms()
        if len(manifest.garbage) >= self._limits.garbage_max:
            return None  # garbage is not being removed, and a merge would add to it
        dirty = await self._archive.catalog.run(self._archive.catalog.writer.dirty)
        following = (
            await self._full_checkpoint(manifest, dirty)
            if self._full_checkpoint_due(manifest, dirty, now_ms)
            else await self._merge(manifest, dirty, now_ms)
        )
        if following is None:
            waiting = [since for path, since in dirty.items() if path not in self._damaged]
            due = [rewrite_at_ms(since, self._limits) for since in waiting]
            # A new day makes more segments worth merging: the policy merges small ones of a day that is over.
            tomorrow = now_ms - now_ms % DAY_MS + DAY_MS
            self._looked = _Looked(manifest.number, min([*due, *self._damaged.values(), tomorrow]))
        return following

    # Segments ---------------------------------------------------------------------------

    async def _merge(self, manifest: Manifest, dirty: dict[str, int], now_ms: int) -> Replacement | None:
        sizes = await self._archive.catalog.run(self._archive.catalog.writer.record_bytes)
        self._damaged = {path: until for path, until in self._damaged.items() if now_ms < until}
        while True:
            candidates = [
                Candidate(info, sizes[info.path], dirty.get(info.path))
                for info in manifest.segments
                if info.path not in self._damaged
            ]
            chosen = choose(candidates, now_ms, self._limits)
            if not chosen:
                return None
            try:
                runs = await self._runs(chosen)
            except ObjectDamagedError as error:
                # The other segments can still be merged. The damaged one is left alone for a while, so that
                # an operator can repair it.
                logger.error("segment_not_merged", reason=str(error))
                self._damaged[str(error.path)] = now_ms + int(self._limits.damaged_retry_seconds * 1000)
                continue
            return await self._replace(manifest, chosen, runs)

    async def _runs(self, chosen: list[SegmentInfo]) -> Runs:
        """Return the appends of the streams that still exist."""
        catalog, runs = self._archive.catalog, Runs()
        for info in chosen:
            segment = await WholeSegment.fetch(self._bucket, info)
            live = await catalog.run(catalog.writer.existing, segment.streams)
            await catalog.run(_add_appends, runs, segment, live, catalog.writer)
        return runs

    async def _replace(self, manifest: Manifest, chosen: list[SegmentInfo], runs: Runs) -> Replacement:
        catalog, replaced = self._archive.catalog, [info.path for info in chosen]
        segments = [info for info in manifest.segments if info.path not in replaced]
        held: list[segment_contents.Contents] = []
        encoded = await catalog.run(self._encode, replaced, runs)
        if encoded is not None:
            wanted = events_path(day_of(replaced[0]), self._archive.partition, manifest.number + 1)
            path = await create_beside(self._bucket, wanted, encoded.data)
            segments.append(encoded.info(path))
            held.append(await catalog.run(segment_contents.contents, path, encoded.directory))
        await free_gradually(runs)
        following = successor(manifest, self._clock.now_ms(), segments=segments, replaced=replaced)
        change = Change(
            about(following),
            replaced=replaced,
            segments=[one.size for one in held],
            placed=[one.places for one in held],
        )
        self.merges += 1
        return Replacement(following, change)

    def _encode(self, replaced: list[str], runs: Runs) -> EncodedSegment | None:
        """Return a segment with the records of those streams that still exist; None if none does."""
        catalog, records = self._archive.catalog.writer, []
        for number, appends in runs.items():
            stream = catalog.load_id(number)
            assert stream is not None
            appends.sort(key=lambda run: run.first)
            records.append(StreamRecords(number, *stream.key, stream.content_type, appends))
        encoded = encode_segment(records) if records else None
        # The last check before the old segments become garbage: each position must be in the new one.
        merged = {} if encoded is None else {n: encoded.directory.runs(n) for n in encoded.directory.streams}
        before = {number: _joined(found) for number, found in catalog.runs(replaced).items()}
        assert merged == before, "a merge loses and adds nothing"
        return encoded

    # Checkpoints ------------------------------------------------------------------------

    def _full_checkpoint_due(self, manifest: Manifest, dirty: dict[str, int], now_ms: int) -> bool:
        full = msgspec.json.decode(manifest.extra.get(FULL_PARTS, b"0"), type=int)
        if len(manifest.checkpoints) - max(full - 1, 0) > self._limits.checkpoints_max:
            return True
        since = [dirty[info.path] for info in manifest.checkpoints if info.path in dirty]
        return bool(since) and now_ms >= rewrite_at_ms(min(since), self._limits)

    async def _full_checkpoint(self, manifest: Manifest, dirty: Collection[str]) -> Replacement:
        archive, rows_max = self._archive, self._limits.checkpoint_rows_max
        infos = await write_full_checkpoint(
            self._bucket, archive.partition, manifest.number + 1, archive.catalog, rows_max
        )
        replaced = [info.path for info in manifest.checkpoints]
        snapshot = snapshot_of(manifest)
        if snapshot is not None and not set(dirty).isdisjoint(replaced):
            # The snapshot may hold streams that were removed since, which must leave the bucket in time. It
            # is dropped; opening is slower until the next snapshot is written.
            manifest = with_snapshot(manifest, None)
            replaced.append(snapshot.path)
        following = msgspec.structs.replace(
            successor(manifest, self._clock.now_ms(), checkpoints=infos, replaced=replaced),
            extra={**manifest.extra, FULL_PARTS: msgspec.Raw(b"%d" % len(infos))},
        )
        self.full_checkpoints += 1
        return Replacement(following, Change(about(following), replaced=replaced))


def _add_appends(runs: Runs, segment: WholeSegment, live: Collection[int], catalog: CatalogView) -> None:
    erased = catalog.erased_streams()
    for number, found in segment.appends(live).items():
        replaced = catalog.replaced(number) if number in erased else {}
        kept = [with_replaced(run, replaced) for run in found] if replaced else found
        runs.setdefault(number, []).extend(kept)


def _joined(runs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join runs that follow each other without a gap."""
    joined: list[tuple[int, int]] = []
    for first, following in runs:
        if joined and joined[-1][1] == first:
            joined[-1] = (joined[-1][0], following)
        else:
            joined.append((first, following))
    return joined
