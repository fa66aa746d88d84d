"""The tables of outlines in ``views.sqlite``: blocks, late pairs, and numbered names. Used in its thread."""

import sqlite3
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from durable_sessions.sessions.outline.block import LatePair
from durable_sessions.sessions.views_file import ViewsFile

NUMBERS_MAX = 2**16 - 1


class OutlineRow(NamedTuple):
    """A block as it is stored: of which events, knowing how many erasures and late pairs, and in short."""

    stream: int
    block: int
    events: int
    erasures: int
    late: int
    summary: bytes


class OutlineTables:
    """What the file has of outlines."""

    kind = "outlines"
    format = 3
    tables = ("outlines", "late_pairs", "numbered", "numbered_as_of")
    schema = """
create table outlines (
  stream integer not null, block integer not null, count integer not null, erasures integer not null,
  late integer not null, used integer not null, bytes integer not null, summary blob not null,
  data blob not null, unique (stream, block)
);
create table late_pairs (
  stream integer not null, call_block integer not null, call integer not null, result integer not null,
  failed integer not null, primary key (stream, call_block, call, result)
) without rowid;
create table numbered (
  stream integer not null, kind text not null, number integer not null, text text not null,
  primary key (stream, kind, number)
) without rowid;
create table numbered_as_of (stream integer primary key, erasures integer not null);
"""

    def __init__(self, views: ViewsFile) -> None:
        self._views = views
        views.add(self)

    def rows(self, streams: Iterable[int]) -> list[OutlineRow]:
        """Return all blocks of some streams, in short."""
        found: list[OutlineRow] = []
        for stream in streams:
            query = "select stream, block, count, erasures, late, summary from outlines where stream = ?"
            found += (OutlineRow(*row) for row in self._views.connection().execute(query, (stream,)))
        return found

    def data(self, stream: int, block: int, count: int, erasures: int) -> bytes | None:
        """Return a block, if it is of this many events and knows all erasures; it counts as used now."""
        connection = self._views.connection()
        query = "select data from outlines where stream = ? and block = ? and count = ? and erasures = ?"
        found = connection.execute(query, (stream, block, count, erasures)).fetchone()
        if found is None:
            return None
        change = "update outlines set used = ? where stream = ? and block = ?"
        connection.execute(change, (self._views.next_use(), stream, block))
        return bytes(found[0])

    def put(
        self, row: OutlineRow, data: bytes, span: tuple[int, int], late: Sequence[LatePair], block_events: int
    ) -> None:
        """Keep a block, and its late pairs in place of all that had their results in this span."""
        connection = self._views.connection()
        # What a row costs beside its data, about: the file is bounded by the sum of these.
        size = len(row.summary) + len(data) + 64
        connection.execute("begin")
        try:
            connection.execute("delete from outlines where stream = ? and block = ?", (row.stream, row.block))
            connection.execute(
                "insert into outlines values (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*row[:5], self._views.next_use(), size, row.summary, data),
            )
            connection.execute(
                "delete from late_pairs where stream = ? and result >= ? and result < ?", (row.stream, *span)
            )
            connection.executemany(
                "insert or ignore into late_pairs values (?, ?, ?, ?, ?)",
                ((row.stream, one.call // block_events, *one) for one in late),
            )
            connection.execute("commit")
        except BaseException:
            connection.execute("rollback")
            raise
        self._views.evict()

    def update_summary(self, stream: int, block: int, late: int, summary: bytes) -> None:
        """Keep the summary of a block that knows this many late pairs."""
        change = "update outlines set late = ?, summary = ? where stream = ? and block = ?"
        self._views.connection().execute(change, (late, summary, stream, block))

    def late_pairs(self, streams: Iterable[int], block: int | None = None) -> list[tuple[int, LatePair]]:
        """Return the late pairs of some streams, of the calls in one block or in all, by result."""
        found: list[tuple[int, LatePair]] = []
        for stream in streams:
            query = "select call, result, failed from late_pairs where stream = ?"
            values = [stream]
            if block is not None:
                query += " and call_block = ?"
                values.append(block)
            for call, result, failed in self._views.connection().execute(query, values):
                found.append((stream, LatePair(call, result, bool(failed))))
        found.sort(key=lambda pair: pair[1].result)
        return found

    def numbered(self, stream: int, kind: str, texts: Iterable[str], erasures: int) -> list[str]:
        """Return a table of a stream, numbered from 1 on; new texts are added at its end.

        Texts may be of erased events: when there are more erasures than before, all are replaced by "", which
        keeps their numbers, and those that are still there come again at the end. Whoever knows fewer adds
        nothing.
        """
        connection = self._views.connection()
        is_newest = _note_erasures(connection, stream, erasures)
        query = "select text from numbered where stream = ? and kind = ? order by number"
        table = [text for (text,) in connection.execute(query, (stream, kind))]
        known = set(table)
        added = [text for text in dict.fromkeys(texts) if text not in known] if is_newest else []
        for text in added[: max(0, NUMBERS_MAX - len(table))]:
            table.append(text)
            connection.execute("insert into numbered values (?, ?, ?, ?)", (stream, kind, len(table), text))
        return table

    def forget_erased(self, stream: int, erasures: int) -> None:
        """Remove blocks that do not know all erasures of a stream, and empty its names."""
        connection = self._views.connection()
        change = "delete from outlines where stream = ? and erasures <> ?"
        connection.execute(change, (stream, erasures))
        _note_erasures(connection, stream, erasures)


def _note_erasures(connection: sqlite3.Connection, stream: int, erasures: int) -> bool:
    """Empty the tables of a stream if there are new erasures; say if the caller knows all of them."""
    query = "select erasures from numbered_as_of where stream = ?"
    found = connection.execute(query, (stream,)).fetchone()
    if found is None or found[0] < erasures:
        connection.execute("begin")
        connection.execute("update numbered set text = '' where stream = ?", (stream,))
        connection.execute("insert or replace into numbered_as_of values (?, ?)", (stream, erasures))
        connection.execute("commit")
    return found is None or found[0] <= erasures
