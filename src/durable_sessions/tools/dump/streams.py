"""Everything about one stream: its state, where its records are, and the records themselves."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from durable_sessions.bucket.cache import BlockCache
from durable_sessions.bucket.checkpoint import read_checkpoint
from durable_sessions.bucket.manifest import Manifest, Manifests
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.records import AppendRun
from durable_sessions.bucket.segment_reader import SegmentReader
from durable_sessions.errors import StreamNotFoundError
from durable_sessions.log.scan import scan
from durable_sessions.partition_id import PartitionId
from durable_sessions.streams.effects import RecordsAppended
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.tier import stream_codec
from durable_sessions.tools.conflicts import Undecodable, decode_leniently, mend
from durable_sessions.tools.dump.log import Plain, StreamPaths
from durable_sessions.tools.verify.inventory import Inventory

LOOKS_MAX = 5
"""How often the look-up is repeated because a running server has flushed meanwhile."""


@dataclass(slots=True)
class RecordLocation:
    """Consecutive records of the stream: in a segment of the bucket, or in one batch of the log."""

    tier: str
    where: str
    first: int
    next: int
    run: AppendRun | None = None

    def plain(self) -> Plain:
        """Return the place without the records."""
        return {"tier": self.tier, "where": self.where, "first": self.first, "next": self.next}


@dataclass(slots=True)
class StreamDump:
    """A stream as of one moment."""

    stream: Stream
    flushed: int
    bucket: ObjectStore
    manifest: Manifest | None
    places: list[RecordLocation] = field(default_factory=list)

    def state(self) -> Plain:
        """Return the state of the stream as a dictionary."""
        fields = asdict(self.stream)
        workspace, path = fields.pop("key")
        for passing in ("era", "held", "idle_ms", "accessed_at_ms"):
            fields.pop(passing, None)
        fields["overlay"] = list(self.stream.overlay.positions)
        return {"workspace": workspace, "path": path, **fields}

    async def records(self) -> AsyncIterator[Plain]:
        """Yield the stream's own records in order; those of its source are not repeated."""
        cache = BlockCache()
        segments = {} if self.manifest is None else {info.path: info for info in self.manifest.segments}
        for place in self.places:
            if place.run is not None:
                for record in self._records(place, place.run):
                    yield record
                continue
            reader = SegmentReader(self.bucket, segments[place.where], cache)
            async for run in reader.appends(self.stream.id, place.first, place.next):
                for record in self._records(place, run):
                    yield record
        await cache.close()

    def _records(self, place: RecordLocation, run: AppendRun) -> Iterator[Plain]:
        """Yield the records of an append; what was erased is not shown, even if it is still stored."""
        at = 0
        for position, length in enumerate(run.lengths or (len(run.data),), run.first):
            erased = self.stream.overlay.get(position)
            data = run.data[at : at + length] if erased is None else erased.data
            body = data[:-1] if run.lengths else data
            yield {"position": position, "at_ms": run.at_ms, "tier": place.tier, "body": body}
            at += length


async def load_names(bucket: ObjectStore, partition: PartitionId) -> StreamPaths:
    """Return the names of all streams as of the last flush."""
    names = StreamPaths()
    manifest = await Manifests(bucket, partition).newest()
    for info in () if manifest is None else manifest.checkpoints:
        for row in await read_checkpoint(bucket, info):
            if not row.deleted:
                names.paths[row.stream] = f"{row.workspace}/{row.session}"
    return names


async def look_up(
    bucket: ObjectStore, log: Path, key: Key, folder: Path, partition: PartitionId
) -> StreamDump:
    """Return everything about the stream at a path; a server may be running."""
    for look in range(LOOKS_MAX):
        manifest = await Manifests(bucket, partition).newest()
        found = await _look_up(bucket, manifest, log, key, partition, folder / f"inventory{look}.sqlite")
        newest = await Manifests(bucket, partition).newest()
        # A flush between reading the manifest and reading the log may have trimmed from the log what the
        # older manifest does not name yet. Then records would be missing without a sign of it.
        if newest == manifest:
            break
    if found is None:
        raise StreamNotFoundError(path=f"{key.workspace}/{key.path}")
    return found


async def _look_up(
    bucket: ObjectStore, manifest: Manifest | None, log: Path, key: Key, partition: PartitionId, file: Path
) -> StreamDump | None:
    inventory = Inventory(file, partition)
    try:
        for info in () if manifest is None else manifest.checkpoints:
            # Checkpoints are read in order, each with what has changed since the one before.
            rows = await read_checkpoint(bucket, info)
            inventory.put([stream_codec.decode(row.state or b"") for row in rows if not row.deleted])
            inventory.remove([row.stream for row in rows if row.deleted])
        state = State(inventory)
        appended = _replay(state, log, 0 if manifest is None else manifest.flushed_through)
        stream = state.get(key)
        if stream is None:
            return None
        before = inventory.load_id(stream.id)
    finally:
        inventory.close()
    flushed = stream.base if before is None else before.tail
    found = StreamDump(stream, flushed, bucket, manifest)
    cache = BlockCache()
    for segment in () if manifest is None else manifest.segments:
        if segment.stream_min <= stream.id <= segment.stream_max:
            directory = await SegmentReader(bucket, segment, cache).directory()
            runs = directory.runs(stream.id)
            found.places += [RecordLocation("bucket", segment.path, *run) for run in runs]
    await cache.close()
    found.places.sort(key=lambda place: place.first)
    found.places += appended.get(stream.id, [])
    return found


def _replay(state: State, log: Path, flushed_through: int) -> dict[int, list[RecordLocation]]:
    places: dict[int, list[RecordLocation]] = {}
    for frame in scan(log).frames():
        # It is in the bucket already; a log is trimmed by whole segments, so that some of it is still there.
        if frame.position <= flushed_through:
            continue
        for _, effect in decode_leniently(frame.payload):
            if isinstance(effect, Undecodable):
                continue
            # Effects that contradict what is lost are made to fit: this shows damaged data too.
            mend(state, effect)
            if isinstance(effect, RecordsAppended) and effect.data:
                run = AppendRun(effect.first, effect.at_ms, effect.lengths, effect.data)
                place = RecordLocation("log", f"batch {frame.position}", run.first, run.next, run)
                places.setdefault(effect.stream, []).append(place)
    return places
