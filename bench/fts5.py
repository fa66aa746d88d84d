"""SQLite FTS5 with the same words, laid out as well as it can be for searches in one session."""

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from durable_sessions.search import tokenizer

CACHE_KIB = 512 * 1024
MMAP_BYTES = 8 * 2**30


class Fts5:
    """A contentless table on disk. Rowids go by session, so that a session is a range of them."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "events.db"
        self._connection = sqlite3.connect(self.path, isolation_level=None)
        for setting in (
            "journal_mode = WAL",
            "synchronous = NORMAL",
            f"cache_size = -{CACHE_KIB}",
            f"mmap_size = {MMAP_BYTES}",
        ):
            self._connection.execute(f"PRAGMA {setting}").fetchall()
        self._connection.execute(
            "CREATE VIRTUAL TABLE events USING fts5"
            "(text, content='', tokenize='unicode61 remove_diacritics 0')"
        )
        self._ranges: dict[str, tuple[int, int]] = {}
        self._rows = 0

    def add(self, session: str, texts: Iterable[str]) -> None:
        """Add what one session says, all at once, split into words as our index splits it."""
        begin = self._rows
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT INTO events (rowid, text) VALUES (?, ?)", self._numbered(texts))
        self._connection.execute("COMMIT")
        self._ranges[session] = begin, self._rows - 1

    def finish(self) -> int:
        """Merge everything into one segment, and return the size of the file."""
        self._connection.execute("INSERT INTO events (events) VALUES ('optimize')")
        self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        return self.path.stat().st_size

    def add_places(self) -> None:
        """Add a table that says of every row which session it is of."""
        self._connection.execute("CREATE TABLE places (id INTEGER PRIMARY KEY, session TEXT)")
        self._connection.execute("BEGIN")
        for session, (first, last) in self._ranges.items():
            rows = ((row, session) for row in range(first, last + 1))
            self._connection.executemany("INSERT INTO places VALUES (?, ?)", rows)
        self._connection.execute("COMMIT")

    def search(self, match: str, session: str | None, limit: int) -> list[int]:
        """Return the best rows, in a session or everywhere."""
        where, values = self._where(match, session)
        found = self._connection.execute(
            f"SELECT rowid FROM events WHERE {where} ORDER BY rank LIMIT ?", (*values, limit)
        )
        return [row for (row,) in found]

    def search_joined(self, match: str, session: str, limit: int) -> list[int]:
        """Return the best rows in a session as one asks for them whose rowids mean nothing."""
        found = self._connection.execute(
            "SELECT events.rowid FROM events JOIN places ON places.id = events.rowid "
            "WHERE events MATCH ? AND places.session = ? ORDER BY rank LIMIT ?",
            (match, session, limit),
        )
        return [row for (row,) in found]

    def count(self, match: str, session: str | None) -> int:
        """Return how many rows match."""
        where, values = self._where(match, session)
        found = self._connection.execute(f"SELECT count(*) FROM events WHERE {where}", values).fetchone()
        return int(found[0])

    def close(self) -> None:
        self._connection.close()

    def _numbered(self, texts: Iterable[str]) -> Iterator[tuple[int, str]]:
        for text in texts:
            yield self._rows, tokenizer.indexed(text)
            self._rows += 1

    def _where(self, match: str, session: str | None) -> tuple[str, tuple[str | int, ...]]:
        if session is None:
            return "events MATCH ?", (match,)
        return "events MATCH ? AND rowid BETWEEN ? AND ?", (match, *self._ranges[session])
