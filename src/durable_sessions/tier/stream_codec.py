"""Encodes a stream's whole state as bytes, for the catalog and the checkpoints."""

import msgspec

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


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StoredStream).decode


def encode(stream: Stream) -> bytes:
    """Return a stream's state, without accesses that are not recorded in the log."""
    return _encode(
        StoredStream(
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
    )


def decode(data: bytes) -> Stream:
    """Return the stream that :func:`encode` was given; its last access is the last recorded one."""
    stored = _decode(data)
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
        changed_at_ms=stored.recorded_at_ms if stored.changed_at_ms is None else stored.changed_at_ms,
    )
