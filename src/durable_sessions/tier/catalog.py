"""The catalog: every stream as of the last flush, in a local SQLite file.

The catalog is derived from the bucket's checkpoints and the log. It is therefore written without syncs,
and rebuilt if the file is missing, damaged or belongs to another flush. The event loop reads through one
connection while the catalog's own thread writes through another. Each write is one transaction, so a
reader sees the state of one flush or of the next, and nothing in between.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, TypeVar

from durable_sessions.boot_id import boot_id
from durable_sessions.limits import Limits
from durable_sessions.storage import file_permissions
from durable_sessions.storage.indexed import IndexOf, nothing_indexed
from durable_sessions.storage.retention import NO_RETENTION, Retention
from durable_sessions.streams import lifetime
from durable_sessions.streams.effects import Name, SlotChange
from durable_sessions.streams.stream import Stream
from durable_sessions.tier import slot_tables, snapshot_file, stream_codec
from durable_sessions.tier.catalog_view import About, CatalogView, Placed

T = TypeVar("T")

_VERSION = 12
_BUSY_MS = 5_000
_SCHEMA = """
create table about (
  version integer not null, boot text not null, manifest integer not null, flushed_through integer not null,
  policies text not null
);
create table streams (
  id integer primary key, workspace text not null, path text not null, folder text not null,
  soft_deleted integer not null, freed integer not null, removal_ms integer, record_bytes integer not null,
  state blob not null, parent integer, base integer not null, erased integer not null,
  began_ms integer, updated_ms integer, active_ms integer
);
create unique index streams_by_path on streams (workspace, path) where not freed;
create index streams_by_folder on streams (workspace, folder, id);
create index streams_by_removal on streams (removal_ms) where removal_ms is not null;
create index streams_by_parent on streams (parent, id, base) where parent is not null;
create index streams_erased on streams (id) where erased;
create index streams_by_began on streams (workspace, folder, began_ms, id) where began_ms is not null;
create index streams_by_updated on streams (workspace, folder, updated_ms, id) where updated_ms is not null;
create index streams_by_active on streams (workspace, folder, active_ms, id) where active_ms is not null;
create table terms (
  workspace text not null, folder text not null, term integer not null, stream integer not null,
  primary key (workspace, folder, term, stream)
) without rowid;
create index terms_by_stream on terms (stream);
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
OF_STREAMS = ("extents", "names", "terms", *slot_tables.TABLES)
"""The tables that have rows of streams, by their number in the column ``stream``."""
_TAKE_SEGMENTS = (
    "insert or ignore into segments select * from source.segments"
    " where path in (select segment from extents)",
    "insert into dirty select * from source.dirty where path in (select path from segments)"
    " on conflict do update set since_ms = min(since_ms, excluded.since_ms)",
    "update about set policies = (select policies from source.about)",
    "drop table taken",
)
_PUT_STREAM = "insert or replace into streams values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_NO_TIMES = (None, None, None)
_TAINT = (
    "insert or ignore into dirty select segment, ? from extents where stream = ? and first <= ? and next > ?"
)


class Sized(NamedTuple):
    """A segment, and the size of its records before compression."""

    path: str
    record_bytes: int


class Change(NamedTuple):
    """What one flush or compaction changes; it is applied whole or not at all.

    ``states`` are the streams that changed, encoded. ``replaced`` are objects that the manifest no longer
    refers to. ``placed`` says for each new segment where its records are. The segments that hold records of
    ``removed`` streams, or ``erased`` ones (each a stream and a position), become dirty at ``at_ms``, and so
    do the objects in ``dirty``. ``names`` are the names of records, ``slots`` what records did with slots,
    each with the number of its stream. What is iterable can be gone through again.
    """

    about: About
    at_ms: int = 0
    states: Sequence[bytes] = ()
    removed: Sequence[int] = ()
    replaced: Sequence[str] = ()
    segments: Sequence[Sized] = ()
    placed: Sequence[Iterable[Placed]] = ()
    dirty: Sequence[str] = ()
    names: Iterable[tuple[int, Name]] = ()
    slots: Iterable[tuple[int, SlotChange]] = ()
    erased: Iterable[tuple[int, int]] = ()


class Catalog:
    """The catalog's file. ``reader`` is for the event loop, ``writer`` for work given to :meth:`run`."""

    def __init__(self, path: Path, limits: Limits, index_of: IndexOf = nothing_indexed) -> None:
        self.path = path
        self.index_of = index_of
        self._limits = limits
        self._retention = NO_RETENTION
        self._wal_is_stale = False
        self._reading = _connect(path)
        self._writing = _connect(path)
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="catalog")
        self.reader = CatalogView(self._reading, limits)
        self.writer = CatalogView(self._writing, limits)

    @classmethod
    def open(cls, path: Path, limits: Limits, index_of: IndexOf = nothing_indexed) -> "Catalog":
        """Open the catalog; if it cannot be trusted, replace it with an empty one."""
        try:
            catalog = cls(path, limits, index_of)
            if catalog._trusted():
                return catalog
            catalog.close()
        except sqlite3.DatabaseError:
            pass  # damaged, which is harmless: it is derived and can be rebuilt
        return cls.create(path, limits, index_of)

    @classmethod
    def create(cls, path: Path, limits: Limits, index_of: IndexOf = nothing_indexed) -> "Catalog":
        """Create an empty catalog, replacing any file that is there."""
        _remove(path)
        catalog = cls(path, limits, index_of)
        with catalog._writing as connection:
            connection.executescript(_SCHEMA + slot_tables.SCHEMA)
            about = (_VERSION, boot_id(), NO_RETENTION.fingerprint)
            connection.execute("insert into about values (?, ?, 0, 0, ?)", about)
        return catalog

    @classmethod
    def unpack(
        cls, path: Path, data: bytes, limits: Limits, index_of: IndexOf = nothing_indexed
    ) -> "tuple[Catalog, bytes]":
        """Replace any file that is there by the catalog of a snapshot; also return the snapshot's manifest.

        A crash must not leave a file that is trusted. While it is being unpacked, the file has no boot id, as
        the snapshot was packed; afterwards it claims no manifest until it is brought up to a newer one.
        """
        _remove(path)
        snapshot_file.unpack(data, path, limits.snapshot_bytes_max)
        catalog = cls(path, limits, index_of)
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
                    (boot_id(), NO_RETENTION.fingerprint),
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
        return bool(found == (_VERSION, boot_id()))

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
                self._taint_source(stream, change.at_ms)
                connection.execute("delete from streams where id = ?", (stream,))
                connection.execute("delete from extents where stream = ?", (stream,))
                connection.execute("delete from names where stream = ?", (stream,))
                connection.execute("delete from terms where stream = ?", (stream,))
                slot_tables.remove(connection, stream)
            # Before new segments are added, which have the erased records no more.
            connection.executemany(
                _TAINT,
                ((change.at_ms, stream, position, position) for stream, position in change.erased),
            )
            for state in change.states:
                self._put(connection, state)
            names = ((stream, one.name, one.first, one.count, one.check) for stream, one in change.names)
            connection.executemany("insert or replace into names values (?, ?, ?, ?, ?)", names)
            slot_tables.add(connection, change.slots)
            for places in change.placed:
                connection.executemany("insert or replace into extents values (?, ?, ?, ?)", places)
            connection.executemany("insert or replace into segments values (?, ?)", change.segments)
            dirty = ((path, change.at_ms) for path in change.dirty)
            connection.executemany("insert or ignore into dirty values (?, ?)", dirty)
            connection.execute("update about set manifest = ?, flushed_through = ?", change.about)
        self._wal_is_stale = self._wal_is_stale or any(True for _ in change.erased)
        if self._wal_is_stale:
            self._empty_wal()

    def _taint_source(self, fork: int, at_ms: int) -> None:
        """Let segments be written anew that have erased records only because a fork was spared."""
        query = (
            "select source.id, source.state from streams as fork join streams as source"
            " on source.id = fork.parent where fork.id = ? and source.erased"
        )
        for source, state in self._writing.execute(query, (fork,)).fetchall():
            spared = [one.position for one in stream_codec.decode(state).overlay if one.spares]
            self._writing.executemany(_TAINT, ((at_ms, source, position, position) for position in spared))

    def _empty_wal(self) -> None:
        """Empty the write-ahead file, which has rows as they were before an erasure.

        If a reader is in the way, this is tried again after the next change: there is no waiting for it.
        """
        connection = self._writing
        connection.execute("pragma busy_timeout = 0")
        is_busy, _, _ = connection.execute("pragma wal_checkpoint(truncate)").fetchone()
        connection.execute(f"pragma busy_timeout = {_BUSY_MS}")
        self._wal_is_stale = bool(is_busy)

    def take_streams(self, source: Path, numbers: Iterable[int]) -> None:
        """Copy streams from another catalog, with all that it knows of them; both have the same policies."""
        connection = self._writing
        connection.execute("attach database ? as source", (str(source),))
        try:
            with connection:
                connection.execute("create temp table taken (id integer primary key)")
                connection.executemany("insert into taken values (?)", ((number,) for number in numbers))
                connection.execute("insert into streams select * from source.streams where id in taken")
                for table in OF_STREAMS:
                    query = f"insert into {table} select * from source.{table} where stream in taken"  # noqa: S608
                    connection.execute(query)
                for query in _TAKE_SEGMENTS:
                    connection.execute(query)
        finally:
            connection.execute("detach database source")

    def share_segments(self, streams: Iterable[tuple[str, int]], at_ms: int) -> None:
        """Make segments dirty that also hold records of other streams than the catalog knows.

        ``streams`` are the paths of segments, and how many streams each of them has.
        """
        held = "select count(distinct stream) from extents where segment = ?"
        with self._writing as connection:
            for path, count in streams:
                if connection.execute(held, (path,)).fetchone()[0] < count:
                    connection.execute("insert or ignore into dirty values (?, ?)", (path, at_ms))

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

        return snapshot_file.pack(copy, self.path.with_name(self.path.name + "-snapshot"))

    def _govern(self, retention: Retention) -> None:
        self._retention = retention
        with self._writing as connection:
            if connection.execute("select policies from about").fetchone()[0] == retention.fingerprint:
                return
            for stream in self.writer.streams():
                values = (self._removal_ms(stream), stream.id)
                connection.execute("update streams set removal_ms = ? where id = ?", values)
            connection.execute("update about set policies = ?", (retention.fingerprint,))

    def _put(self, connection: sqlite3.Connection, state: bytes) -> None:
        """Write the rows of a stream: its state, and what it is listed by."""
        stream = stream_codec.decode(state)
        key, folder = stream.key, stream.key.folder
        indexed = None
        if not stream.soft_deleted:
            indexed = self.index_of(key, stream.created_at_ms, stream.changed_at_ms, stream.attributes)
        times, terms = indexed or (_NO_TIMES, ())
        removal_ms = self._removal_ms(stream)
        row = (
            *(stream.id, *key, folder, stream.soft_deleted, stream.freed, removal_ms, stream.record_bytes),
            *(state, stream.parent, stream.base, bool(stream.overlay), *times),
        )
        is_new_fork = stream.parent is not None and not self._has(connection, stream.id)
        connection.execute(_PUT_STREAM, row)
        if is_new_fork and stream.parent is not None:
            slot_tables.add_fork(connection, stream.parent)
        connection.execute("delete from terms where stream = ?", (stream.id,))
        if terms:
            rows = ((key.workspace, folder, term, stream.id) for term in terms)
            connection.executemany("insert or ignore into terms values (?, ?, ?, ?)", rows)

    @staticmethod
    def _has(connection: sqlite3.Connection, number: int) -> bool:
        return connection.execute("select 1 from streams where id = ?", (number,)).fetchone() is not None

    def _removal_ms(self, stream: Stream) -> int | None:
        self._retention.govern(stream)
        lifetime.grant_lag(stream, self._limits)
        return lifetime.removal_ms(stream, self._limits)


def _connect(path: Path) -> sqlite3.Connection:
    file_permissions.make_file(path)
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = off")
    connection.execute("pragma secure_delete = on")  # what is erased must leave the file, too
    return connection


def _remove(path: Path) -> None:
    for name in (path.name, path.name + "-wal", path.name + "-shm"):
        path.with_name(name).unlink(missing_ok=True)
