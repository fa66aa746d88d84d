"""Checkpoints of stream metadata in the bucket: the changes of one flush, or all streams."""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from durable_sessions.bucket.checkpoint import EncodedCheckpoint, SessionRow, encode_checkpoint
from durable_sessions.bucket.layout import sessions_path
from durable_sessions.bucket.manifest import CheckpointInfo
from durable_sessions.bucket.numbered import create_beside
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.partition_id import PartitionId
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.tier import stream_codec
from durable_sessions.tier.catalog import Catalog
from durable_sessions.tier.catalog_view import CatalogView

FULL_PARTS = "full_checkpoint_parts"
"""The member of a manifest's ``extra`` that counts the parts of the full checkpoint, which come first."""
_STATE_BYTES_MAX = 16 * 1024 * 1024
"""The size limit of one part's states: streams with many producers have large states."""


def encode_changes(state: State, states: Sequence[bytes]) -> EncodedCheckpoint:
    """Return the streams that a flush has changed and removed; slow, so not for the event loop.

    ``states`` are the changed streams, encoded, in the order of ``state``.
    """
    rows = [_row(*one) for one in zip(state.by_id.values(), states, strict=True)]
    rows += [_tombstone(number, key) for number, key in state.removed.items()]
    return encode_checkpoint(rows)


async def write_full_checkpoint(
    bucket: ObjectStore, partition: PartitionId, number: int, catalog: Catalog, rows_max: int
) -> list[CheckpointInfo]:
    """Write all streams of a catalog, in parts, for the manifest with this number to refer to."""
    parts = full_parts(catalog.writer, rows_max)
    infos: list[CheckpointInfo] = []
    while part := await catalog.run(next, parts, None):
        path = sessions_path(partition, number)
        if infos:
            path = path.replace(".parquet", f"-part{len(infos)}.parquet")
        infos.append(part.info(await create_beside(bucket, path, part.data)))
    return infos


def full_parts(catalog: CatalogView, rows_max: int) -> Iterator[EncodedCheckpoint]:
    """Yield all streams in parts, one part in memory at a time; slow, so not for the event loop."""
    rows = (_row(stream, stream_codec.encode(stream)) for stream in catalog.streams())
    while part := list(_some(rows, rows_max)):
        yield encode_checkpoint(part)


def _some(rows: Iterator[SessionRow], rows_max: int) -> Iterable[SessionRow]:
    size = 0
    for row in islice(rows, rows_max):
        yield row
        size += len(row.state or b"")
        if size >= _STATE_BYTES_MAX:
            return


def _row(stream: Stream, state: bytes) -> SessionRow:
    return SessionRow(
        workspace=stream.key.workspace,
        session=stream.key.path,
        stream=stream.id,
        content_type=stream.content_type,
        created_at_ms=stream.created_at_ms,
        next_position=stream.tail,
        closed=stream.closed,
        parent=stream.parent,
        base=stream.base,
        ttl_seconds=stream.ttl_seconds,
        expires_at_ms=stream.expires_at_ms,
        last_access_ms=stream.recorded_at_ms,
        attributes=_attributes(stream),
        state=state,
    )


def _attributes(stream: Stream) -> str | None:
    """Return the attributes, which are JSON each, as one object; None if there are none."""
    if not stream.attributes:
        return None
    members = [f"{json.dumps(name)}:{value.decode()}" for name, value in sorted(stream.attributes.items())]
    return "{" + ",".join(members) + "}"


def _tombstone(number: int, key: Key) -> SessionRow:
    return SessionRow(
        workspace=key.workspace,
        session=key.path,
        stream=number,
        content_type="",
        created_at_ms=0,
        next_position=0,
        deleted=True,
    )
