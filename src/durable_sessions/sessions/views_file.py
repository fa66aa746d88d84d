"""``views.sqlite``: what was folded from events for readers, so that it is folded once.

It is derived like the catalog: written without syncs, not trusted after a restart of the machine, and dropped
whenever it cannot be used. Rows have the number of a stream, so that a new session with an old id finds
nothing of the old one, and how many erasures they knew: a row with another number does not count.
"""

import asyncio
import secrets
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Protocol, TypeVar

from durable_sessions.boot_id import boot_id

T = TypeVar("T")

_SCHEMA = """
create table about (boot text not null, token text not null);
create table formats (kind text primary key, format integer not null) without rowid;
create table size (bytes integer not null);
insert into size values (0);
"""
_COUNTED = """
create index {rows}_by_use on {rows} (used);
create trigger {rows}_added after insert on {rows} begin
  update size set bytes = bytes + new.bytes;
end;
create trigger {rows}_removed after delete on {rows} begin
  update size set bytes = bytes - old.bytes;
end;
"""
_EVICTED_ROWS = 16


class ViewTables(Protocol):
    """The tables of one kind of view; other numbers of ``format`` than its own are dropped.

    The first of ``tables`` has the columns ``used`` and ``bytes``, and gives up rows when the file is full.
    """

    @property
    def kind(self) -> str:
        """What it is called in the file."""
        ...

    @property
    def format(self) -> int:
        """The number of its format."""
        ...

    @property
    def schema(self) -> str:
        """The statements that create the tables."""
        ...

    @property
    def tables(self) -> Sequence[str]:
        """The tables; each has a column ``stream``."""
        ...

    def forget_erased(self, stream: int, erasures: int) -> None:
        """Remove what does not know all erasures of a stream."""
        ...


class ViewsFile:
    """The file, used by one thread of its own. Whatever is wrong with it, an answer does not depend on it."""

    def __init__(self, path: Path, bytes_max: int) -> None:
        self._path = path
        self._bytes_max = bytes_max
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="views")
        self._connection: sqlite3.Connection | None = None
        self._uses = 0
        self._kinds: list[ViewTables] = []
        self.token = ""
        """Another one whenever tables are made: numbers in rows mean nothing in others."""

    def add(self, kind: ViewTables) -> None:
        """Keep one more kind of view in the file; all are added before anything is read."""
        self._kinds.append(kind)

    async def run(self, work: Callable[..., T], *arguments: object) -> T:
        """Run work in the file's thread; a file that fails is made anew, and the work is tried again."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, self._tried, work, *arguments)

    async def forget(self, stream: int, erasures: int | None) -> None:
        """Remove what does not know all erasures of a stream; everything, if the stream is gone (None)."""
        await self.run(self._forget, stream, erasures)

    async def streams(self) -> list[int]:
        """Return the numbers of all streams that the file has something of."""
        return await self.run(self._streams)

    async def empty_wal(self) -> None:
        """Empty the write-ahead file, which has rows as they were before they were removed."""
        await self.run(self._empty_wal)

    def close(self) -> None:
        """Finish what is under way, and close the file."""
        self._worker.submit(self._close)
        self._worker.shutdown()

    # In the file's thread ---------------------------------------------------------------

    def connection(self) -> sqlite3.Connection:
        """Return the open file."""
        if self._connection is None:
            self._connection = self._connect()
            try:
                found = self._connection.execute("select boot, token from about").fetchone()
            except sqlite3.DatabaseError:
                found = None
            if found is None or found[0] != boot_id():
                return self._create()
            self.token = found[1]
            self._prepare(self._connection)
        return self._connection

    def next_use(self) -> int:
        """Return a number for a row that is used now; rows with the lowest ones are the first to go."""
        self._uses += 1
        return self._uses

    def evict(self) -> None:
        """Drop the rows that were not used for longest, as long as there is too much."""
        connection = self.connection()
        rows = [kind.tables[0] for kind in self._kinds]
        oldest = " union all ".join(f"select '{name}', rowid, used from {name}" for name in rows)  # noqa: S608
        while self.bytes() > self._bytes_max:
            found = connection.execute(f"{oldest} order by used limit ?", (_EVICTED_ROWS,)).fetchall()
            if not found:
                break
            for name, row, _ in found:
                connection.execute(f"delete from {name} where rowid = ?", (row,))  # noqa: S608

    def bytes(self) -> int:
        """Return how large all rows are together."""
        return int(self.connection().execute("select bytes from size").fetchone()[0])

    def _tried(self, work: Callable[..., T], *arguments: object) -> T:
        try:
            self.connection()
            return work(*arguments)
        except sqlite3.DatabaseError:
            self._create()  # derived, so whatever is wrong with it does not matter
            return work(*arguments)

    def _connect(self) -> sqlite3.Connection:
        self._path.touch(0o600)
        connection = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        connection.execute("pragma journal_mode = wal")
        # Not synced, so after a power cut the file may be torn: one of another boot is made anew.
        connection.execute("pragma synchronous = off")
        # What was derived from erased events must not be left in free pages.
        connection.execute("pragma secure_delete = on")
        return connection

    def _create(self) -> sqlite3.Connection:
        self._close()
        for name in (self._path.name, self._path.name + "-wal", self._path.name + "-shm"):
            self._path.with_name(name).unlink(missing_ok=True)
        self._connection = connection = self._connect()
        connection.executescript(_SCHEMA)
        connection.execute("insert into about values (?, '')", (boot_id(),))
        self._prepare(connection)
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        """Make the tables of views that are missing or of another format, and go on counting uses."""
        formats = dict(connection.execute("select kind, format from formats"))
        for kind in self._kinds:
            if formats.get(kind.kind) != kind.format:
                _make_anew(connection, kind)
                self.token = secrets.token_hex(4)
                connection.execute("update about set token = ?", (self.token,))
        self._uses = 0
        for kind in self._kinds:
            query = f"select max(used) from {kind.tables[0]}"  # noqa: S608
            self._uses = max(self._uses, connection.execute(query).fetchone()[0] or 0)

    def _forget(self, stream: int, erasures: int | None) -> None:
        if erasures is not None:
            for kind in self._kinds:
                kind.forget_erased(stream, erasures)
            return
        for kind in self._kinds:
            for table in kind.tables:
                self.connection().execute(f"delete from {table} where stream = ?", (stream,))  # noqa: S608

    def _streams(self) -> list[int]:
        tables = [table for kind in self._kinds for table in kind.tables]
        query = " union ".join(f"select stream from {table}" for table in tables)  # noqa: S608
        return [number for (number,) in self.connection().execute(query)]

    def _empty_wal(self) -> None:
        self.connection().execute("pragma wal_checkpoint(truncate)").fetchall()

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _make_anew(connection: sqlite3.Connection, kind: ViewTables) -> None:
    """Make the tables of a kind of view, empty, in place of those that there are."""
    rows, names = kind.tables[0], [f"'{table}'" for table in kind.tables]
    query = f"select name from sqlite_master where type = 'table' and name in ({', '.join(names)})"  # noqa: S608
    present = [name for (name,) in connection.execute(query)]
    # The rows first, so that their trigger counts them.
    emptied = [f"delete from {rows};"] if rows in present else []  # noqa: S608
    dropped = [f"drop table {name};" for name in present]
    noted = f"insert or replace into formats values ('{kind.kind}', {kind.format});"  # noqa: S608
    script = ["begin;", *emptied, *dropped, kind.schema, _COUNTED.format(rows=rows), noted, "commit;"]
    connection.executescript("\n".join(script))
