"""Making the catalog anew from the bucket: from the checkpoints and the segments' directories."""

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.checkpoint import read_checkpoint
from durable_sessions.bucket.manifest import Manifest
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.segment_reader import SegmentReader
from durable_sessions.storage import placing, stored
from durable_sessions.storage.catalog import Catalog, Change
from durable_sessions.storage.catalog_view import About
from durable_sessions.storage.succession import about

_UNFINISHED = About(-1, -1)


async def rebuild(catalog: Catalog, bucket: ObjectStore, manifest: Manifest, cache: BlockCache) -> None:
    """Fill an empty catalog with what the manifest refers to.

    Since when an object has been dirty is not written anywhere; so it counts as long overdue.
    """
    for checkpoint in manifest.checkpoints:
        rows = await read_checkpoint(bucket, checkpoint)
        streams = [stored.decode(row.state or b"") for row in rows if not row.deleted]
        removed = [row.stream for row in rows if row.deleted]
        dirty = [checkpoint.path] if removed else []
        await catalog.apply(Change(_UNFINISHED, streams=streams, removed=removed, dirty=dirty))
    for info in manifest.segments:
        directory = await SegmentReader(bucket, info, cache).directory()
        live = await catalog.run(catalog.writer.existing, directory.streams)
        held = await catalog.run(placing.contents, info.path, directory, live)
        dirty = [info.path] if live < set(directory.streams) else []
        await catalog.apply(Change(_UNFINISHED, segments=[held.size], placed=held.places, dirty=dirty))
    await catalog.apply(Change(about(manifest)))
