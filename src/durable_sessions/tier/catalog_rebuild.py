"""Making the catalog anew from the bucket: from the checkpoints and the segments' directories."""

from collections.abc import Callable, Iterable

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.checkpoint import SessionRow, read_checkpoint
from durable_sessions.bucket.manifest import Manifest
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.records import AppendRun
from durable_sessions.bucket.segment_reader import SegmentReader
from durable_sessions.streams.effects import Name
from durable_sessions.streams.stream import Stream
from durable_sessions.tier import segment_contents, stream_codec
from durable_sessions.tier.catalog import Catalog, Change
from durable_sessions.tier.catalog_view import About
from durable_sessions.tier.disposal import let_go
from durable_sessions.tier.next_manifest import about

_UNFINISHED = About(-1, -1)

NamesOf = Callable[[Stream, AppendRun], Iterable[Name]]
"""Tells from the records of an append which names they were given."""


def no_names(stream: Stream, run: AppendRun) -> Iterable[Name]:
    """Return nothing: for streams whose records have no names."""
    return ()


def _names(stream: Stream, runs: Iterable[AppendRun], names_of: NamesOf) -> list[tuple[int, Name]]:
    """Return the names of records with the number of their stream; takes a while if there are many."""
    return [(stream.id, name) for run in runs for name in names_of(stream, run)]


def _of_checkpoint(path: str, rows: list[SessionRow]) -> Change:
    streams = [stream_codec.decode(row.state or b"") for row in rows if not row.deleted]
    removed = [row.stream for row in rows if row.deleted]
    return Change(_UNFINISHED, streams=streams, removed=removed, dirty=[path] if removed else [])


async def rebuild(
    catalog: Catalog, bucket: ObjectStore, manifest: Manifest, cache: BlockCache, names_of: NamesOf
) -> None:
    """Fill an empty catalog with what the manifest refers to.

    Names are told again from the records of streams that have some. Since when an object has been
    dirty is not written anywhere; so it counts as long overdue.
    """
    for checkpoint in manifest.checkpoints:
        rows = await read_checkpoint(bucket, checkpoint)
        change = await catalog.run(_of_checkpoint, checkpoint.path, rows)
        await catalog.apply(change)
        await let_go(rows, change.streams)
    for info in manifest.segments:
        reader = SegmentReader(bucket, info, cache)
        directory = await reader.directory()
        live = await catalog.run(catalog.writer.existing, directory.streams)
        held = await catalog.run(segment_contents.contents, info.path, directory, live)
        dirty = [info.path] if live < set(directory.streams) else []
        change = Change(_UNFINISHED, segments=[held.size], placed=held.places, dirty=dirty)
        await catalog.apply(change)
        for place in held.places:
            stream = await catalog.run(catalog.writer.load_id, place.stream)
            if stream is not None and stream.named:
                runs = [run async for run in reader.appends(stream.id, place.first, place.next)]
                names = await catalog.run(_names, stream, runs, names_of)
                await catalog.apply(Change(_UNFINISHED, names=names))
    await catalog.apply(Change(about(manifest)))
