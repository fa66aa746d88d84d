"""The storage formats of OpenCode: a database, a tree of JSON files, or an exported document."""

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from durable_sessions.importers import directory_walk
from durable_sessions.importers.events import members, objects, text
from durable_sessions.importers.lines import parse_document
from durable_sessions.importers.opencode.context import Message
from durable_sessions.importers.sources import SourceError, stat_of

DOCUMENT_BYTES_MAX = 256 * 1024 * 1024
_JSON_COLUMNS = ("revert", "permission", "model", "metadata", "summary_diffs")


class Store(Protocol):
    """A store of sessions; it is only read."""

    path: Path

    def sessions(self) -> list[dict[str, Any]]:
        """Return the metadata of each session."""
        ...

    def messages(self, session: str) -> Iterator[Message]:
        """Yield the messages of a session with their parts, in order."""
        ...

    def extras(self, session: str) -> dict[str, Any]:
        """Return what is stored beside the messages: plans and changes."""
        ...

    def fingerprint(self, session: str) -> str:
        """Return a value that changes when the session does."""
        ...


def _order(message: dict[str, Any]) -> tuple[float, str]:
    created = members(message.get("time")).get("created")
    return (created if isinstance(created, int | float) else 0, text(message.get("id")))


class Database:
    """``opencode.db`` of OpenCode 1.2 and later; read while it is in use, never checkpointed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with self._open() as database:
            names = {
                row[0] for row in database.execute("select name from sqlite_master where type = 'table'")
            }
            if not {"session", "message", "part"} <= names:
                raise SourceError(
                    f"{path} is not OpenCode's: its tables are {', '.join(sorted(names)) or 'missing'}. "
                    "A program of the same name keeps one inside projects; that one is not read."
                )
            self._tables = names
            self._marks = {
                row[0]: f"{row[1]}:{row[2]}"
                for row in database.execute(
                    # The number too: when a part is deleted, the newest time stays the same.
                    "select session_id, count(*), max(time_updated) from part group by session_id"
                )
            }

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        """Open the database for reading; if that fails, as in a read-only folder, a copy with its log."""
        uri = self.path.absolute().as_uri()
        database = sqlite3.connect(f"{uri}?mode=ro", uri=True)
        try:
            try:
                # Opening does not touch the file, so a problem shows only now. A database with a write-ahead
                # log needs an index file beside it, which SQLite must create even for a reader.
                database.execute("select 1 from sqlite_master").fetchone()
            except sqlite3.OperationalError:
                database.close()
                with tempfile.TemporaryDirectory(prefix="durable-sessions-") as folder:
                    copied = Path(folder) / self.path.name
                    # With its log, or the copy would lack everything since the last checkpoint. The index is
                    # not copied: SQLite makes it anew from the log.
                    for ending in ("", "-wal"):
                        beside = self.path.with_name(self.path.name + ending)
                        if beside.exists():
                            shutil.copyfile(beside, copied.with_name(copied.name + ending))
                    database = sqlite3.connect(copied)
                    database.row_factory = sqlite3.Row
                    yield database
                return
            database.row_factory = sqlite3.Row
            yield database
        except sqlite3.DatabaseError as error:
            raise SourceError(f"{self.path} cannot be read as a database: {error}") from error
        finally:
            database.close()

    def sessions(self) -> list[dict[str, Any]]:
        """Return the metadata of each session."""
        with self._open() as database:
            return [_session_row(dict(row)) for row in database.execute("select * from session")]

    def messages(self, session: str) -> Iterator[Message]:
        """Yield the messages of a session with their parts, in order."""
        with self._open() as database:
            found = [
                {"id": row["id"], **_data(row["data"])}
                for row in database.execute("select id, data from message where session_id = ?", (session,))
            ]
            for message in sorted(found, key=_order):
                rows = database.execute(
                    "select id, data from part where message_id = ? order by id", (message["id"],)
                )
                yield message, [{"id": row["id"], **_data(row["data"])} for row in rows]

    def extras(self, session: str) -> dict[str, Any]:
        """Return the plan of a session."""
        if "todo" not in self._tables:
            return {}
        with self._open() as database:
            rows = database.execute("select * from todo where session_id = ? order by position", (session,))
            return {"todo": [dict(row) for row in rows]}

    def fingerprint(self, session: str) -> str:
        """Return the number of parts and when the last one was changed."""
        return self._marks.get(session, "")


def _data(value: object) -> dict[str, Any]:
    try:
        return members(parse_document(text(value).encode(errors="replace")))
    except ValueError:
        return {"type": "damaged", "source_text": value}


def _session_row(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row in the format of the trees: with nested times, and JSON parsed."""
    info = {name: value for name, value in row.items() if value is not None and not name.startswith("time_")}
    info["time"] = {name[5:]: value for name, value in row.items() if name.startswith("time_") and value}
    for name in _JSON_COLUMNS:
        if isinstance(info.get(name), str):
            try:
                info[name] = json.loads(info[name])
            except ValueError:
                pass
    for old, new in (("parent_id", "parentID"), ("project_id", "projectID")):
        if old in info:
            info[new] = info.pop(old)
    return info


class StorageTree:
    """``storage`` of OpenCode 0.6 to 1.1, or that of a project before; one file for each record."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._old = (path / "session" / "info").is_dir()

    def sessions(self) -> list[dict[str, Any]]:
        """Return the metadata of each session."""
        base = self.path / "session"
        pattern = "info/*.json" if self._old else "*/*.json"
        found = directory_walk.below(base, pattern, self.path, deep=False)
        return [info for path in found if (info := _read(path)).get("id")]

    def _folders(self, session: str) -> tuple[Path, Path]:
        if self._old:
            base = self.path / "session"
            return base / "message" / session, base / "part" / session
        return self.path / "message" / session, self.path / "part"

    def _files(self, folder: Path) -> list[Path]:
        return directory_walk.below(folder, "*.json", self.path, deep=False)

    def messages(self, session: str) -> Iterator[Message]:
        """Yield the messages of a session with their parts, in order."""
        messages, parts = self._folders(session)
        # The name of a file is the id, which the oldest versions do not repeat inside.
        found = [{"id": path.stem, **_read(path)} for path in self._files(messages)]
        for message in sorted(found, key=_order):
            files = sorted(self._files(parts / text(message.get("id"))), key=lambda path: path.stem)
            yield message, [{"id": path.stem, **_read(path)} for path in files]

    def extras(self, session: str) -> dict[str, Any]:
        """Return the plan of a session, and what it has changed."""
        found: dict[str, Any] = {}
        for name in ("todo", "session_diff"):
            path = self.path / name / f"{session}.json"
            if path.is_file() and directory_walk.lies_in(path, self.path):
                try:
                    found[name] = parse_document(path.read_bytes())
                except ValueError:
                    found[name] = {"source_text": path.read_text(errors="replace")}
        return found

    def fingerprint(self, session: str) -> str:
        """Return number and times of the files of a session."""
        messages, parts = self._folders(session)
        newest = number = 0
        for path in self._files(messages):
            for file in (path, *self._files(parts / path.stem)):
                number, newest = number + 1, max(newest, file.stat().st_mtime_ns)
        return f"{number}:{newest}"


def _read(path: Path) -> dict[str, Any]:
    """Return the object in a file; one that cannot be read is kept as text."""
    try:
        return members(parse_document(path.read_bytes()))
    except ValueError:
        return {"type": "damaged", "source_text": path.read_text(errors="replace")}


class Exported:
    """The output of ``opencode export``: one session in one document."""

    def __init__(self, path: Path) -> None:
        self.path = path
        if path.stat().st_size > DOCUMENT_BYTES_MAX:
            raise SourceError(f"{path} is larger than {DOCUMENT_BYTES_MAX} bytes.")
        try:
            self._document = members(parse_document(path.read_bytes()))
        except ValueError as error:
            raise SourceError(f"{path} is not JSON: {error}") from error
        if "info" not in self._document or "messages" not in self._document:
            raise SourceError(
                f"{path} is not a session that OpenCode has exported: it lacks info or messages."
            )

    def sessions(self) -> list[dict[str, Any]]:
        """Return the metadata of the session."""
        return [members(self._document["info"])]

    def messages(self, session: str) -> Iterator[Message]:
        """Yield the messages with their parts, in order."""
        found = [
            (members(one.get("info")), objects(one.get("parts")))
            for one in objects(self._document["messages"])
        ]
        yield from sorted(found, key=lambda message: _order(message[0]))

    def extras(self, session: str) -> dict[str, Any]:
        """Return nothing: an export holds no more."""
        return {}

    def fingerprint(self, session: str) -> str:
        """Return identity, size and time of the file."""
        return stat_of([self.path])
