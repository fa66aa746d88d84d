"""Sources of lost data: objects that no manifest names, and the log."""

from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from durable_sessions.bucket.blocks import decode_footer
from durable_sessions.bucket.checkpoint import SessionRow, decode_checkpoint
from durable_sessions.bucket.fetch import digest
from durable_sessions.bucket.layout import FlushedNames
from durable_sessions.bucket.manifest import SegmentInfo
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.records import AppendRun
from durable_sessions.errors import ObjectDamagedError, ObjectNotFoundError
from durable_sessions.log.scan import LogScan
from durable_sessions.partition_id import PartitionId
from durable_sessions.streams.effects import (
    ErasuresSettled,
    PathFreed,
    RecordsAppended,
    RecordsErased,
    SlotsChanged,
    StreamCreated,
    StreamEffect,
    StreamRemoved,
)
from durable_sessions.threads import CPU
from durable_sessions.tier import stream_codec
from durable_sessions.tools.conflicts import clipped, decode_leniently
from durable_sessions.tools.repair.missing_ranges import MissingRanges
from durable_sessions.tools.verify.findings import Findings
from durable_sessions.tools.verify.inventory import Inventory
from durable_sessions.tools.verify.segments import CheckedSegment, check_segment


class Numbered(NamedTuple):
    """An object with the number of its manifest, of its part, and its path."""

    number: int
    part: int
    again: int
    path: str


async def numbered(bucket: ObjectStore, prefix: str, partition: PartitionId) -> list[Numbered]:
    """Return the objects under a prefix that belong to a partition by their numbers, in order."""
    names = FlushedNames(partition)
    found = [(names.parse(info.path), info.path) for info in await bucket.list(prefix)]
    return sorted(Numbered(*name, path) for name, path in found if name is not None)


async def unnamed_rows(bucket: ObjectStore, path: str) -> list[SessionRow]:
    """Return the rows of a checkpoint without a manifest to check it against; ValueError if it is damaged."""
    try:
        rows = await CPU.run(decode_checkpoint, path, await bucket.get(path))
        for row in rows:
            if not row.deleted:
                stream_codec.decode(row.state or b"")
    except (ObjectDamagedError, ObjectNotFoundError) as error:
        raise ValueError(str(error)) from error
    return rows


async def unnamed_segment(bucket: ObjectStore, path: str) -> CheckedSegment:
    """Return a segment without a manifest to check it against; ValueError if it is damaged."""
    try:
        data = await bucket.get(path)
        footer = decode_footer(data)
        times = pq.read_table(pa.BufferReader(data), columns=["created_at"]).column(0).cast(pa.int64())
    except (ObjectNotFoundError, pa.ArrowException, OSError, IndexError) as error:
        raise ValueError(str(error)) from error
    last = footer.groups[-1]
    streams = list(footer.directory.streams)
    info = SegmentInfo(
        path=path,
        bytes=len(data),
        rows=sum(group.rows for group in footer.groups),
        sha256=digest(data),
        footer_offset=last.offset + last.bytes,
        footer_sha256=digest(data[last.offset + last.bytes :]),
        first_at_ms=pc.min(times).as_py(),
        last_at_ms=pc.max(times).as_py(),
        streams=len(streams),
        stream_min=min(streams),
        stream_max=max(streams),
    )
    return check_segment(info, data, Findings())


def records_in_log(log: LogScan, wanted: MissingRanges) -> Iterator[tuple[int, AppendRun]]:
    """Yield missing records that a log still has, and remove them from the missing ranges."""
    for frame in log.frames():
        if not wanted:
            return
        for _, effect in decode_leniently(frame.payload):
            if isinstance(effect, RecordsAppended):
                run = AppendRun(effect.first, effect.at_ms, effect.lengths, effect.data)
                for first, following in wanted.of(effect.stream, (run.first, run.next)):
                    yield effect.stream, clipped(run, first, following)
                    wanted.found(effect.stream, (first, following))


def flushed_through(log: LogScan, inventory: Inventory) -> int:
    """Return up to which position the inventory contains the log, if no manifest says so.

    That is the last of the leading batches whose creations, records and removals are all present.
    """
    through = log.begins_after
    for frame in log.frames():
        known = [_contained(effect, inventory) for _, effect in decode_leniently(frame.payload)]
        if False in known:
            break
        if True in known:
            through = frame.position
    return through


def _contained(effect: object, inventory: Inventory) -> bool | None:
    """Say whether the inventory contains an effect; None if that cannot be determined."""
    if isinstance(effect, StreamCreated):
        return effect.stream <= inventory.largest
    if not isinstance(effect, StreamEffect) or isinstance(effect, StreamCreated | ErasuresSettled):
        return None
    stream = inventory.load_id(effect.stream)
    if stream is None:
        return True
    if isinstance(effect, RecordsAppended):
        return effect.next <= stream.tail and (stream.closed or not effect.closed)
    if isinstance(effect, StreamRemoved):
        return effect.soft and stream.soft_deleted
    if isinstance(effect, RecordsErased):
        return effect.at_ms <= stream.changed_at_ms and stream.erasures >= len(effect.records)
    if isinstance(effect, PathFreed):
        return stream.freed
    if isinstance(effect, SlotsChanged):
        return all(change.position < stream.tail for change in effect.changes)
    return effect.at_ms <= stream.recorded_at_ms
