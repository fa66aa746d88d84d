"""Encodes a stream's whole state as bytes, for the catalog and the checkpoints."""

import msgspec

from durable_sessions.streams.effects import ErasedRecord
from durable_sessions.streams.overlay import NO_OVERLAY, Overlay
from durable_sessions.streams.stream import NO_ATTRIBUTES, NO_PRODUCERS, Key, Producer, Stream


class StoredStream(msgspec.Struct, frozen=True, array_like=True):
    """The fields of a stream in a fixed order.

    New fields are added at the end with a default, so that states written before them can still be read.
    """

    id: int
    workspace: str
    path: str
    content_type: str
    tail: int
    ttl_seconds: int | None
    expires_at_ms: int | None
    created_at_ms: int
    recorded_at_ms: int
    parent: int | None
    base: int
    fork_at_tail: bool
    depth: int
    forks: int
    closed: bool
    closed_by: tuple[str, int, int] | None
    last_seq: str | None
    soft_deleted: bool
    producers: dict[str, tuple[int, int]]
    attributes: dict[str, bytes] = {}
    record_bytes: int = 0
    named: int = 0
    changed_at_ms: int | None = None


class ExtendedStream(StoredStream, frozen=True, array_like=True):
    """A stream that has more than most do; all others are written without these fields."""

    overlay: tuple[ErasedRecord, ...] = ()
    erasures: int = 0
    freed: bool = False
    slot_changes: int = 0
    slots_used: int = 0
    emptied_prefixes: int = 0
    closed_at_ms: int | None = None
    slots_from: int | None = None


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(ExtendedStream).decode


def encode(stream: Stream) -> bytes:
    """Return a stream's state, without accesses that are not recorded in the log."""
    fields = (
        stream.id,
        *stream.key,
        stream.content_type,
        stream.tail,
        stream.ttl_seconds,
        stream.expires_at_ms,
        stream.created_at_ms,
        stream.recorded_at_ms,
        stream.parent,
        stream.base,
        stream.fork_at_tail,
        stream.depth,
        stream.forks,
        stream.closed,
        stream.closed_by,
        stream.last_seq,
        stream.soft_deleted,
        stream.producers,
        stream.attributes,
        stream.record_bytes,
        stream.named,
        stream.changed_at_ms,
    )
    more = (stream.erasures, stream.freed, stream.slot_changes, stream.slots_used, stream.emptied_prefixes)
    # Of most closed streams the close was the last change.
    closed_at_ms = None if stream.closed_at_ms == stream.changed_at_ms else stream.closed_at_ms
    if not any(more) and closed_at_ms is None:
        return _encode(StoredStream(*fields))
    return _encode(ExtendedStream(*fields, tuple(stream.overlay), *more, closed_at_ms, stream.slots_from))


def decode(data: bytes) -> Stream:
    """Return the stream that :func:`encode` was given; its last access is the last recorded one."""
    stored = _decode(data)
    # Written before there was this field: the last recorded access is the best that is known.
    changed_at_ms = stored.recorded_at_ms if stored.changed_at_ms is None else stored.changed_at_ms
    closed_at_ms = changed_at_ms if stored.closed_at_ms is None else stored.closed_at_ms
    return Stream(
        id=stored.id,
        key=Key(stored.workspace, stored.path),
        content_type=stored.content_type,
        tail=stored.tail,
        ttl_seconds=stored.ttl_seconds,
        expires_at_ms=stored.expires_at_ms,
        created_at_ms=stored.created_at_ms,
        accessed_at_ms=stored.recorded_at_ms,
        recorded_at_ms=stored.recorded_at_ms,
        parent=stored.parent,
        base=stored.base,
        fork_at_tail=stored.fork_at_tail,
        depth=stored.depth,
        forks=stored.forks,
        closed=stored.closed,
        closed_by=None if stored.closed_by is None else Producer(*stored.closed_by),
        last_seq=stored.last_seq,
        soft_deleted=stored.soft_deleted,
        producers=dict(stored.producers) if stored.producers else NO_PRODUCERS,
        attributes=stored.attributes or NO_ATTRIBUTES,
        record_bytes=stored.record_bytes,
        named=stored.named,
        changed_at_ms=changed_at_ms,
        closed_at_ms=closed_at_ms if stored.closed else None,
        overlay=_overlay(stored),
        erasures=stored.erasures,
        freed=stored.freed,
        slot_changes=stored.slot_changes,
        slots_used=stored.slots_used,
        emptied_prefixes=stored.emptied_prefixes,
        slots_from=0 if stored.slots_from is None and stored.slot_changes else stored.slots_from,
    )


def _overlay(stored: ExtendedStream) -> Overlay:
    return Overlay({record.position: record for record in stored.overlay}) if stored.overlay else NO_OVERLAY
