"""The catalog: every stream as of the last flush, in a local SQLite file.

It is derived: the bucket's checkpoints and the log hold the truth, so it is written without
syncs, and a file that is missing, damaged or of another flush is made anew. The event loop
reads through one connection while a worker thread writes through another; a write is one
transaction, so a reader sees one flush or the next and nothing in between.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from durable_sessions.limits import Limits
from durable_sessions.storage import stored
from durable_sessions.streams import lifetime
from durable_sessions.streams.stream import Key, Stream

_VERSION = 1
_SCHEMA = """
create table about (
  version integer not null, boot text not null, manifest integer not null, flushed_through integer not null,
  next_stream integer not null
);
create table streams (
  id integer primary key, workspace text not null, path text not null, deadline_ms integer, state blob not null
);
create unique index streams_by_path on streams (workspace, path);
create index streams_by_deadline on streams (deadline_ms) where deadline_ms is not null;
create table extents (
  stream integer not null, first integer not null, next integer not null, segment text not null,
  primary key (stream, first)
) without rowid;
create index extents_by_segment on extents (segment);
"""


class About(NamedTuple):
    """Which flush the catalog is of."""

    manifest: int
    flushed_through: int
    next_stream: int


class Placed(NamedTuple):
    """Consecutive records of a stream in one segment."""

    stream: int
    first: int
    next: int
    segment: str


class Change(NamedTuple):
    """What one flush or compaction changes; it is applied whole or not at all."""

    about: About
    streams: Iterable[Stream] = ()
    removed: Iterable[int] = ()
    replaced_segments: Sequence[str] = ()
    placed: Iterable[Placed] = ()


class Catalog:
    """Finds streams that are not in memory, and where their flushed records lie."""

    def __init__(self, path: Path, limits: Limits) -> None:
        self._path = path
        self._limits = limits
        self._reader = _connect(path)
        self._writer = _connect(path)

    @classmethod
    def open(cls, path: Path, limits: Limits) -> "Catalog":
        """Open the catalog, made anew and empty if it cannot be trusted."""
        try:
            catalog = cls(path, limits)
            if catalog._trusted():
                return catalog
            catalog.close()
        except sqlite3.DatabaseError:
            pass  # not a database any more: it is derived
        for name in (path.name, path.name + "-wal", path.name + "-shm"):
            path.with_name(name).unlink(missing_ok=True)
        catalog = cls(path, limits)
        with catalog._writer as connection:
            connection.executescript(_SCHEMA)
            connection.execute("insert into about values (?, ?, 0, 0, 1)", (_VERSION, _boot()))
        return catalog

    def _trusted(self) -> bool:
        """Say whether the file is one of ours and was not open when the machine went down."""
        try:
            found = self._reader.execute("select version, boot from about").fetchone()
        except sqlite3.OperationalError:
            return False
        return found == (_VERSION, _boot())

    def close(self) -> None:
        """Let the file go."""
        self._reader.close()
        self._writer.close()

    # Reading, in the event loop ---------------------------------------------------------

    def about(self) -> About:
        """Return which flush the catalog is of."""
        return About(*self._reader.execute("select manifest, flushed_through, next_stream from about").fetchone())

    def load(self, key: Key) -> Stream | None:
        """Return the stream at a path as of the last flush."""
        return self._stream("select state from streams where workspace = ? and path = ?", key)

    def load_id(self, stream: int) -> Stream | None:
        """Return a stream by its number as of the last flush."""
        return self._stream("select state from streams where id = ?", (stream,))

    def _stream(self, query: str, values: tuple[object, ...]) -> Stream | None:
        found = self._reader.execute(query, values).fetchone()
        if found is None:
            return None
        stream = stored.decode(found[0])
        lifetime.grant_lag(stream, self._limits)
        return stream

    def count(self) -> int:
        """Return how many streams there were at the last flush."""
        return int(self._reader.execute("select count(*) from streams").fetchone()[0])

    def paths(self, workspace: str) -> list[str]:
        """Return the paths of a workspace's streams as of the last flush."""
        return [path for (path,) in self._reader.execute("select path from streams where workspace = ?", (workspace,))]

    def due(self, now_ms: int, most: int) -> list[Key]:
        """Return streams whose time was over by ``now_ms`` as far as the last flush knows."""
        query = "select workspace, path from streams where deadline_ms <= ? order by deadline_ms limit ?"
        return [Key(*row) for row in self._reader.execute(query, (now_ms, most))]

    def place(self, stream: int, position: int) -> Placed | None:
        """Return where the flushed record at a position lies."""
        query = "select stream, first, next, segment from extents where stream = ? and first <= ? order by first desc limit 1"
        found = self._reader.execute(query, (stream, position)).fetchone()
        return None if found is None or found[2] <= position else Placed(*found)

    # Writing, in a worker thread --------------------------------------------------------

    def apply(self, change: Change) -> None:
        """Apply a change, whole or not at all."""
        with self._writer as connection:
            for segment in change.replaced_segments:
                connection.execute("delete from extents where segment = ?", (segment,))
            for stream in change.removed:
                connection.execute("delete from streams where id = ?", (stream,))
                connection.execute("delete from extents where stream = ?", (stream,))
            connection.executemany(
                "insert or replace into streams values (?, ?, ?, ?, ?)", map(self._row, change.streams)
            )
            connection.executemany("insert or replace into extents values (?, ?, ?, ?)", change.placed)
            connection.execute("update about set manifest = ?, flushed_through = ?, next_stream = ?", change.about)

    def _row(self, stream: Stream) -> tuple[int, str, str, int | None, bytes]:
        deadline = None
        if not stream.soft_deleted and stream.deadline_ms() is not None:
            granted = stored.decode(stored.encode(stream))
            lifetime.grant_lag(granted, self._limits)
            deadline = granted.deadline_ms()
        return stream.id, *stream.key, deadline, stored.encode(stream)


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, check_same_thread=False)
    connection.execute("pragma journal_mode = wal")
    connection.execute("pragma synchronous = off")
    return connection


def _boot() -> str:
    """Return what changes when the machine restarts: only then can an unsynced file have lost pages."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
