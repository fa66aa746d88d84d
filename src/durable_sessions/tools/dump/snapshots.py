"""A snapshot of the catalog as plain values: what it belongs to, and the rows of its tables."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from durable_sessions.bucket.fetch import digest
from durable_sessions.bucket.manifest import decode_manifest
from durable_sessions.errors import ObjectDamagedError
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.tier import stream_codec
from durable_sessions.tier.catalog import Catalog
from durable_sessions.tier.snapshot_restore import UNUSABLE
from durable_sessions.tools.dump.log import Plain

TABLES = {"streams": "stream", "extents": "place", "segments": "segment", "names": "name", "dirty": "dirty"}
"""The tables of the catalog, and what one row of each is called."""


def snapshot_items(path: str, data: bytes, folder: Path) -> Iterator[Plain]:
    """Yield what a snapshot belongs to, then the sizes of its tables, then their rows.

    It is unpacked in ``folder``, and never larger than a server would accept.
    """
    file = folder / "catalog.sqlite"
    try:
        catalog, encoded = Catalog.unpack(file, data, DEFAULT_LIMITS)
        catalog.close()
        manifest = decode_manifest(encoded, path)
    except UNUSABLE as error:
        raise ObjectDamagedError(path=path, problem=f"it cannot be unpacked ({error})") from error
    yield {
        "snapshot": path,
        "bytes": len(data),
        "sha256": digest(data),
        "manifest": manifest.number,
        "flushed_through": manifest.flushed_through,
    }
    with closing(sqlite3.connect(file)) as connection:
        for table in TABLES:
            query = f"select count(*) from {table}"  # noqa: S608  # one of the names above
            yield {"table": table, "rows": connection.execute(query).fetchone()[0]}
        for table, kind in TABLES.items():
            rows = connection.execute(f"select * from {table} order by 1, 2")  # noqa: S608
            names = [column[0] for column in rows.description]
            for values in rows:
                yield {kind: values[0], **_plain(dict(zip(names[1:], values[1:], strict=True)))}


def _plain(row: Plain) -> Plain:
    """Return a row with what is only in the encoded state of a stream, and without that state."""
    state = row.pop("state", None)
    if isinstance(state, bytes):
        stream = stream_codec.decode(state)
        row |= {"content_type": stream.content_type, "tail": stream.tail, "closed": stream.closed}
    return row
