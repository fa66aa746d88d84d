"""Import progress: how far each source was read and sent. Losing it costs only time."""

import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from weakref import finalize

_VERSION = 1
_SCHEMA = """
create table if not exists parts (
    destination text not null,
    source text not null,
    tool text not null,
    session text not null,
    fingerprint text not null,
    sent integer not null,
    last text not null,
    primary key (destination, source)
) without rowid
"""


def default_path(environment: Mapping[str, str], home: Path) -> Path:
    """Return where the state is kept on this machine."""
    base = environment.get("XDG_STATE_HOME")
    return (Path(base) if base else home / ".local" / "state") / "durable-sessions" / "imports.db"


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a source: events sent, the last one's id, and the fingerprint when all were sent."""

    fingerprint: str = ""
    sent: int = 0
    last: str = ""


class ImportState:
    """Progress by destination and source, in one small database."""

    def __init__(
        self, path: Path | None, destination: str, *, read_only: bool = False, empty: bool = False
    ) -> None:
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
        self._destination = destination
        self._read_only = read_only
        self._database = _open(path)
        finalize(self, self._database.close)
        if empty and not read_only:
            self._remove("destination = ?", (destination,))

    def get(self, tool: str, source: str) -> Progress:
        """Return how far a source was sent as a transcript of this tool; as another tool's it is none."""
        found = self._database.execute(
            "select fingerprint, sent, last from parts where destination = ? and source = ? and tool = ?",
            (self._destination, source, tool),
        ).fetchone()
        return Progress(*found) if found else Progress()

    def set(self, tool: str, session: str, progress: Mapping[str, Progress]) -> None:
        """Remember how far sources were sent; nothing if this was a dry run."""
        if self._read_only:
            return
        with self._database:
            self._database.executemany(
                "insert or replace into parts values (?, ?, ?, ?, ?, ?, ?)",
                [
                    (self._destination, source, tool, session, one.fingerprint, one.sent, one.last)
                    for source, one in progress.items()
                ],
            )

    def keep_sessions(self, tool: str, sessions: Collection[str]) -> None:
        """Forget the progress of sessions of a tool that no longer exist."""
        rows = self._database.execute(
            "select distinct session from parts where destination = ? and tool = ?",
            (self._destination, tool),
        )
        for (session,) in rows.fetchall():
            if session not in sessions:
                self._remove("destination = ? and session = ?", (self._destination, session))

    def _remove(self, where: str, values: tuple[str, ...]) -> None:
        with self._database:
            self._database.execute(f"delete from parts where {where}", values)  # noqa: S608 - both are our own

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def _open(path: Path | None) -> sqlite3.Connection:
    """Open the database; a damaged one is set aside, because it can be rebuilt."""
    try:
        return _connect(path)
    except sqlite3.DatabaseError:
        if path is None:
            raise
        path.replace(path.with_name(path.name + ".damaged"))
        return _connect(path)


def _connect(path: Path | None) -> sqlite3.Connection:
    database = sqlite3.connect(path or ":memory:", timeout=30, check_same_thread=False)
    try:
        database.execute("pragma synchronous = off")  # what a crash loses is only sent again, and recognised
        if database.execute("pragma user_version").fetchone()[0] != _VERSION:
            database.execute("drop table if exists parts")
            database.execute(f"pragma user_version = {_VERSION}")
        database.execute(_SCHEMA)
    except sqlite3.DatabaseError:
        database.close()
        raise
    return database
