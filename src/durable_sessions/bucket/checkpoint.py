"""Session metadata as Parquet: one row per stream, written whole and read whole."""

import io

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from durable_sessions.bucket.columns import TIMESTAMP
from durable_sessions.bucket.fetch import digest, fetch_object
from durable_sessions.bucket.manifest import CheckpointInfo
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.errors import ObjectDamagedError
from durable_sessions.threads import CPU

VERSION = 1
VERSION_KEY = "durable_sessions.sessions_version"


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one stream. ``state`` is the engine's own and means nothing here.

    ``attributes`` are a JSON object. ``deleted`` marks a stream that is gone: its row exists to replace
    earlier ones.
    """

    workspace: str
    session: str
    stream: int
    content_type: str
    created_at_ms: int
    next_position: int
    closed: bool = False
    deleted: bool = False
    parent: int | None = None
    base: int = 0
    ttl_seconds: int | None = None
    expires_at_ms: int | None = None
    last_access_ms: int | None = None
    attributes: str | None = None
    state: bytes | None = None


_SCHEMA = pa.schema(
    [
        pa.field("workspace", pa.string(), nullable=False),
        pa.field("session", pa.string(), nullable=False),
        pa.field("stream", pa.int64(), nullable=False),
        pa.field("content_type", pa.string(), nullable=False),
        pa.field("created_at", TIMESTAMP, nullable=False),
        pa.field("next_position", pa.int64(), nullable=False),
        pa.field("closed", pa.bool_(), nullable=False),
        pa.field("deleted", pa.bool_(), nullable=False),
        pa.field("parent", pa.int64()),
        pa.field("base", pa.int64(), nullable=False),
        pa.field("ttl_seconds", pa.int64()),
        pa.field("expires_at", TIMESTAMP),
        pa.field("last_access", TIMESTAMP),
        pa.field("attributes", pa.string()),
        pa.field("state", pa.binary()),
    ]
)
_TIMES = {"created_at": "created_at_ms", "expires_at": "expires_at_ms", "last_access": "last_access_ms"}
# Times are built and read as whole numbers and only cast to timestamps: no datetime objects, which are slow.
_STORED = pa.schema([field.with_type(pa.int64()) if field.type == TIMESTAMP else field for field in _SCHEMA])
_FIELDS = [_TIMES.get(name, name) for name in _SCHEMA.names]


class EncodedCheckpoint(msgspec.Struct, frozen=True):
    """The bytes of a checkpoint and what the manifest has to say of them."""

    data: bytes
    rows: int
    sha256: str

    def info(self, path: str) -> CheckpointInfo:
        """Return the manifest's entry for the checkpoint at this path."""
        return CheckpointInfo(path=path, bytes=len(self.data), rows=self.rows, sha256=self.sha256)


def encode_checkpoint(rows: list[SessionRow]) -> EncodedCheckpoint:
    """Return the object that holds these rows, sorted by workspace and session; slow: run it in a thread."""
    ordered = sorted(rows, key=lambda row: (row.workspace, row.session, row.stream))
    columns = [
        pa.array([getattr(row, name) for row in ordered], kind)
        for name, kind in zip(_FIELDS, _STORED.types, strict=True)
    ]
    sink = io.BytesIO()
    with pq.ParquetWriter(
        sink,
        _SCHEMA,
        version="2.6",
        compression="zstd",
        use_dictionary=["workspace", "content_type"],
        write_statistics=[name for name in _SCHEMA.names if name != "state"],
        store_schema=False,
    ) as writer:
        writer.add_key_value_metadata({VERSION_KEY: str(VERSION)})
        writer.write_table(pa.Table.from_arrays(columns, schema=_STORED).cast(_SCHEMA))
    data = sink.getvalue()
    return EncodedCheckpoint(data, len(rows), digest(data))


async def read_checkpoint(bucket: ObjectStore, info: CheckpointInfo) -> list[SessionRow]:
    """Return the rows of a checkpoint, verified."""
    data = await fetch_object(bucket, info.path, info.bytes, info.sha256)
    return await CPU.run(decode_checkpoint, info.path, data)


def decode_checkpoint(path: str, data: bytes) -> list[SessionRow]:
    """Return the rows in the bytes of a checkpoint; slow, so not for the event loop."""
    try:
        return _decode(data)
    except (pa.ArrowException, ValueError, KeyError, OSError) as error:
        raise ObjectDamagedError(path=path, problem=str(error)) from error


def _decode(data: bytes) -> list[SessionRow]:
    file = pq.ParquetFile(pa.BufferReader(data))
    version = (file.metadata.metadata or {}).get(VERSION_KEY.encode(), b"none").decode()
    if version != str(VERSION):
        raise ValueError(f"checkpoint version {version}, this program reads version {VERSION}")
    table = file.read(use_threads=False).select(_SCHEMA.names).cast(_STORED)
    columns = [column.to_pylist() for column in table.columns]
    return [SessionRow(**dict(zip(_FIELDS, values, strict=True))) for values in zip(*columns, strict=True)]
