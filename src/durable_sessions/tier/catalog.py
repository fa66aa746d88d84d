"""The catalog: every stream as of the last flush, in a local SQLite file.

The catalog is derived from the bucket's checkpoints and the log. It is therefore written without syncs,
and rebuilt if the file is missing, damaged or belongs to another flush. The event loop reads through one
connection while the catalog's own thread writes through another. Each write is one transaction, so a
reader sees the state of one flush or of the next, and nothing in between.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeVar

from durable_sessions.limits import Limits
from durable_sessions.storage import file_permissions
from durable_sessions.storage.retention import NO_RETENTION, Retention
from durable_sessions.streams import lifetime
from durable_sessions.streams.effects import Name
from durable_sessions.streams.stream import Stream
from durable_sessions.tier import snapshot_file, stream_codec
from durable_sessions.tier.catalog_view import About, CatalogView, Placed

T = TypeVar("T")

_VERSION = 4
_SCHEMA = """
create table about (
  version integer not null, boot text not null, manifest integer not null, flushed_through integer not null,
  policies text not null
);
create table streams (
  id integer primary key, workspace text not null, path text not null, folder text not null,
  soft_deleted integer not null, removal_ms integer, record_bytes integer not null, state blob not null
);
create unique index streams_by_path on streams (workspace, path);
create index streams_by_folder on streams (workspace, folder, id);
create index streams_by_removal on streams (removal_ms) where removal_ms is not null;
create table extents (
  stream integer not null, first integer not null, next integer not null, segment text not null,
  primary key (stream, first)
) without rowid;
create index extents_by_segment on extents (segment);
create table segments (path text primary key, record_bytes integer not null) without rowid;
create table names (
  stream integer not null, name text not null, first integer not null, count integer not null,
  checked integer not null, primary key (stream, name)
) without rowid;
create table dirty (path text primary key, since_ms integer not null) without rowid;
"""


class Sized(NamedTuple):
    """A segment, and the size of its records before compression."""

    path: str
    record_bytes: int


class Change(NamedTuple):
    """What one flush or compaction changes; it is applied whole or not at all.

    ``replaced`` are objects that the manifest no longer refers to. The segments that hold records of
    ``removed`` streams become dirty at ``at_ms``, and so do the objects in ``dirty``. ``names`` are the names
    of records, each with the number of its stream.
    """

    about: About
    at_ms: int = 0
    streams: Sequence[Stream] = ()
    removed: Sequence[int] = ()
    replaced: Sequence[str] = ()
    segments: Sequence[Sized] = ()
    placed: Sequence[Placed] = ()
    dirty: Sequence[str] = ()
    names: Sequence[tuple[int, Name]] = ()


class Catalog:
    """The catalog's file. ``reader`` is for the event loop, ``writer`` for work given to :meth:`run`."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._retention = NO_RETENTION
        self._reading = _connect(path)
        self._writing = _connect(path)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="catalog")
        self.reader = CatalogView(self._reading, limits)
        self.writer = CatalogView(self._writing, limits)

    @classmethod
    def open(cls, path: Path, limits: Limits) -> "Catalog":
        """Open the catalog; if it cannot be trusted, replace it with an empty one."""
        try:
            catalog = cls(path, limits)
            if catalog._trusted():
                return catalog
            catalog.close()
        except sqlite3.DatabaseError:
            pass  # damaged, which is harmless: it is derived and can be rebuilt
        return cls.create(path, limits)

    @classmethod
    def create(cls, path: Path, limits: Limits) -> "Catalog":
        """Create an empty catalog, replacing any file that is there."""
        _remove(path)
        catalog = cls(path, limits)
        with catalog._writing as connection:
            connection.executescript(_SCHEMA)
            about = (_VERSION, _boot(), NO_RETENTION.fingerprint)
            connection.execute("insert into about values (?, ?, 0, 0, ?)", about)
        return catalog

    @classmethod
    def unpack(cls, path: Path, data: bytes, limits: Limits) -> "tuple[Catalog, bytes]":
        """Replace any file that is there by the catalog of a snapshot; also return the snapshot's manifest.

        A crash must not leave a file that is trusted. While it is being unpacked, the file has no boot id, as
        the snapshot was packed; afterwards it claims no manifest until it is brought up to a newer one.
        """
        _remove(path)
        snapshot_file.unpack(data, path, limits.snapshot_bytes_max)
        catalog = cls(path, limits)
        try:
            with catalog._writing as connection:
                found = connection.execute(
                    "select version, snapshot.manifest from about, snapshot"
                ).fetchone()
                if found is None or found[0] != _VERSION:
                    raise sqlite3.DatabaseError(f"this program reads version {_VERSION} of the catalog")
                # Streams added from now on are stored without retention policies applied. Unless the snapshot
                # had none either, clearing the fingerprint makes govern() compute all removal times again.
                connection.execute(
                    "update about set boot = ?1, manifest = -1, flushed_through = -1,"
                    " policies = case policies when ?2 then ?2 else '' end",
                    (_boot(), NO_RETENTION.fingerprint),
                )
                connection.execute("drop table snapshot")
        except BaseException:
            catalog.close()
            raise
        return catalog, found[1]

    def _trusted(self) -> bool:
        """Return whether the file has our version and was created since the machine started."""
        try:
            found = self._reading.execute("select version, boot from about").fetchone()
        except sqlite3.OperationalError:
            return False
        return bool(found == (_VERSION, _boot()))

    def close(self) -> None:
        """Finish pending writes and close the file."""
        self._worker.shutdown()
        self._reading.close()
        self._writing.close()

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Run ``work`` in the catalog's thread and return its result.

        There is only one thread, so work whose caller was cancelled ends before other work begins.
        """
        return await asyncio.get_running_loop().run_in_executor(self._worker, work, *arguments)

    async def apply(self, change: Change) -> None:
        """Apply a change, whole or not at all."""
        await self.run(self._apply, change)

    async def govern(self, retention: Retention) -> None:
        """Use these retention policies from now on to decide which streams are due for removal."""
        await self.run(self._govern, retention)

    # In the catalog's thread ------------------------------------------------------------

    def apply_here(self, change: Change) -> None:
        """Apply a change from within the catalog's thread, for work given to :meth:`run`."""
        self._apply(change)

    def _apply(self, change: Change) -> None:
        with self._writing as connection:
            for path in change.replaced:
                connection.execute("delete from extents where segment = ?", (path,))
                connection.execute("delete from segments where path = ?", (path,))
                connection.execute("delete from dirty where path = ?", (path,))
            for stream in change.removed:
                connection.execute(
                    "insert or ignore into dirty select distinct segment, ? from extents where stream = ?",
                    (change.at_ms, stream),
                )
                connection.execute("delete from streams where id = ?", (stream,))
                connection.execute("delete from extents where stream = ?", (stream,))
                connection.execute("delete from names where stream = ?", (stream,))
            connection.executemany(
                "insert or replace into streams values (?, ?, ?, ?, ?, ?, ?, ?)",
                map(self._row, change.streams),
            )
            names = ((stream, one.name, one.first, one.count, one.check) for stream, one in change.names)
            connection.executemany("insert or replace into names values (?, ?, ?, ?, ?)", names)
            connection.executemany("insert or replace into extents values (?, ?, ?, ?)", change.placed)
            connection.executemany("insert or replace into segments values (?, ?)", change.segments)
            dirty = ((path, change.at_ms) for path in change.dirty)
            connection.executemany("insert or ignore into dirty values (?, ?)", dirty)
            connection.execute("update about set manifest = ?, flushed_through = ?", change.about)

    def pack(self, manifest: bytes, bytes_max: int) -> bytes | None:
        """Return a snapshot of the catalog with its manifest; None if the catalog exceeds ``bytes_max``."""
        pages = self._writing.execute("pragma page_count").fetchone()[0]
        if pages * self._writing.execute("pragma page_size").fetchone()[0] > bytes_max:
            return None

        def copy(path: Path) -> None:
            self._writing.execute("vacuum into ?", (str(path),))
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute("create table snapshot (manifest blob not null)")
                connection.execute("insert into snapshot values (?)", (manifest,))
                # Without a boot id the copy is not trusted wherever it is unpacked, until that is complete.
                connection.execute("update about set boot = ''")

        return snapshot_file.pack(copy, self._path.with_name(self._path.name + "-snapshot"))

    def _govern(self, retention: Retention) -> None:
        self._retention = retention
        with self._writing as connection:
            if connection.execute("select policies from about").fetchone()[0] == retention.fingerprint:
                return
            for stream in self.writer.streams():
                values = (self._removal_ms(stream), stream.id)
                connection.execute("update streams set removal_ms = ? where id = ?", values)
            connection.execute("update about set policies = ?", (retention.fingerprint,))

    def _row(self, stream: Stream) -> tuple[int, str, str, str, bool, int | None, int, bytes]:
        state = stream_codec.encode(stream)
        # Decoded again because _removal_ms changes the stream that it is given.
        removal_ms = self._removal_ms(stream_codec.decode(state))
        key, folder = stream.key, stream.key.folder
        return stream.id, *key, folder, stream.soft_deleted, removal_ms, stream.record_bytes, state

    def _removal_ms(self, stream: Stream) -> int | None:
        self._retention.govern(stream)
        lifetime.grant_lag(stream, self._limits)
        return lifetime.removal_ms(stream, self._limits)


def _connect(path: Path) -> sqlite3.Connection:
    file_permissions.make_file(path)
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = off")
    return connection


def _remove(path: Path) -> None:
    for name in (path.name, path.name + "-wal", path.name + "-shm"):
        path.with_name(name).unlink(missing_ok=True)


def _boot() -> str:
    """Return the machine's boot id: only when the machine restarts can an unsynced file have lost pages."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
