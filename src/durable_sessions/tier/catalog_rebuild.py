"""Fills the catalog from the bucket's checkpoints and the directories of its segments.

Each object is one piece of work in the catalog's thread. Switching threads once per stream instead took
three quarters of the time of a rebuild.
"""

from collections.abc import Callable, Iterable, Sequence

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.checkpoint import SessionRow, read_checkpoint
from durable_sessions.bucket.directory import Directory
from durable_sessions.bucket.manifest import CheckpointInfo, Manifest, SegmentInfo
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.records import AppendRun
from durable_sessions.bucket.segment_reader import SegmentReader
from durable_sessions.streams.effects import Name, SlotChange
from durable_sessions.streams.stream import Stream
from durable_sessions.tier import segment_contents, stream_codec
from durable_sessions.tier.catalog import Catalog, Change
from durable_sessions.tier.catalog_view import About
from durable_sessions.tier.disposal import free_gradually
from durable_sessions.tier.next_manifest import about
from durable_sessions.tier.segment_unpacker import WholeSegment

UNFINISHED = About(-1, -1)
"""Marks a catalog that is being filled: it belongs to no manifest."""

NamesOf = Callable[[Stream, AppendRun], Iterable[Name | SlotChange]]
"""Returns the names that the records of an append were given, and what they did with slots, as they show."""


def no_names(stream: Stream, run: AppendRun) -> Iterable[Name | SlotChange]:
    """Return no names, for streams whose records have none."""
    return ()


async def rebuild(
    catalog: Catalog, bucket: ObjectStore, manifest: Manifest, cache: BlockCache, names_of: NamesOf
) -> None:
    """Fill an empty catalog with everything that the manifest refers to.

    Names are recovered from the records of streams that have some. The bucket does not record since when an
    object has been dirty, so dirty objects count as overdue for a rewrite.
    """
    await add_checkpoints(catalog, bucket, manifest.checkpoints)
    await add_segments(catalog, bucket, manifest.segments, cache, names_of)
    await catalog.apply(Change(about(manifest)))


async def add_checkpoints(
    catalog: Catalog, bucket: ObjectStore, checkpoints: Sequence[CheckpointInfo]
) -> set[int]:
    """Apply the rows of checkpoints, oldest first; return the numbers of the streams that remain."""
    there: set[int] = set()
    for info in checkpoints:
        rows = await read_checkpoint(bucket, info)
        await catalog.run(_add_rows, catalog, info.path, rows, there)
        await free_gradually(rows)
    return there


async def add_segments(
    catalog: Catalog,
    bucket: ObjectStore,
    segments: Sequence[SegmentInfo],
    cache: BlockCache,
    names_of: NamesOf,
) -> None:
    """Add the places and names of the records in these segments; the streams must already be known."""
    for info in segments:
        directory = await SegmentReader(bucket, info, cache).directory()
        named = await catalog.run(_add_places, catalog, info.path, directory)
        if named:
            segment = await WholeSegment.fetch(bucket, info)
            await catalog.run(_add_names, catalog, segment, named, names_of)


# In the catalog's thread ----------------------------------------------------------------


def _add_rows(catalog: Catalog, path: str, rows: Sequence[SessionRow], there: set[int]) -> None:
    states = [row.state or b"" for row in rows if not row.deleted]
    removed = [row.stream for row in rows if row.deleted]
    erased: list[tuple[int, int]] = []
    for stream in map(stream_codec.decode, states):
        there.add(stream.id)
        erased += [(stream.id, one.position) for one in stream.overlay]
    there.difference_update(removed)
    dirty = [path] if removed or erased else []
    change = Change(UNFINISHED, states=states, removed=removed, dirty=dirty, erased=erased)
    catalog.apply_here(change)


def _add_places(catalog: Catalog, path: str, directory: Directory) -> dict[int, Stream]:
    """Add the places of a segment's records; return its streams with named records, by number."""
    live = catalog.writer.existing(directory.streams)
    held = segment_contents.contents(path, directory, live)
    streams = list(catalog.writer.loaded(live))
    erased = {stream.id: stream.overlay for stream in streams if stream.overlay}
    # Whether the erased records are still in this segment is not known, so that it is written anew.
    is_dirty = live < set(directory.streams) or any(
        place.stream in erased and erased[place.stream].first_in(place.first, place.next) is not None
        for place in held.places
    )
    dirty = [path] if is_dirty else []
    catalog.apply_here(Change(UNFINISHED, segments=[held.size], placed=[held.places], dirty=dirty))
    return {stream.id: stream for stream in streams if stream.named or stream.slot_changes}


def _add_names(catalog: Catalog, segment: WholeSegment, named: dict[int, Stream], names_of: NamesOf) -> None:
    names: list[tuple[int, Name]] = []
    slots: list[tuple[int, SlotChange]] = []
    for number, runs in segment.appends(named).items():
        first = named[number].slots_from
        for run in runs:
            for name in names_of(named[number], run):
                if isinstance(name, SlotChange):
                    if first is not None and name.position >= first:
                        slots.append((number, name))
                else:
                    names.append((number, name))
    catalog.apply_here(Change(UNFINISHED, names=names, slots=slots))
