"""Sources that are whole documents: how they are found, opened within bounds, and become transcripts."""

import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from durable_sessions.importers import directory_walk
from durable_sessions.importers.conversation import Conversation
from durable_sessions.importers.events import Event, EventMaker, SessionMetadata, session_id
from durable_sessions.importers.lines import NOT_JSON, LineReader, SourceRecord, parse_document
from durable_sessions.importers.sources import DocumentPart, SourceError, Transcript, empty_file
from durable_sessions.importers.tally import Tally

DOCUMENT_BYTES_MAX = 256 * 1024 * 1024
"""A document is decoded as a whole, which takes several times its size in memory."""

Produce = Callable[[Conversation], Iterator[Event]]


def files(paths: Iterable[Path], *endings: str) -> Iterator[tuple[Path, Path]]:
    """Yield the files that were named, and those in folders with one of the endings, each with its root."""
    for given in paths:
        if given.is_dir():
            for path in directory_walk.below(given):
                if path.is_file() and path.name.endswith(endings):
                    yield path, given
        elif given.is_file():
            yield given, given.parent


def found_in(
    paths: Iterable[Path], look: Callable[[Path, Path], list[Transcript]], *endings: str
) -> list[Transcript]:
    """Return what ``look`` finds in files; an unreadable file is skipped unless it was named itself."""
    given = list(paths)
    found: list[Transcript] = []
    for path, root in files(given, *endings):
        try:
            found += look(path, root)
        except SourceError:
            if path in given:
                raise
    return found


def relative(path: Path, root: Path) -> str:
    """Return the path of a file relative to its root, with slashes."""
    return os.path.relpath(path, root).replace(os.sep, "/")


def load(path: Path) -> Any:
    """Return the JSON document in a file; SourceError if it is too large or invalid."""
    if path.stat().st_size > DOCUMENT_BYTES_MAX:
        raise SourceError(f"{path} is larger than {DOCUMENT_BYTES_MAX} bytes.")
    data = path.read_bytes()
    if not data.strip():
        raise SourceError(empty_file(path))
    return decode(data, str(path))


def decode(data: bytes, name: str) -> Any:
    """Return decoded JSON; the error names the position, and nothing of the content."""
    try:
        return parse_document(data)
    except ValueError as error:
        why = "" if str(error) == NOT_JSON else f": {error}"
        raise SourceError(f"{name} is not JSON, or half written{why}") from error


def records(path: Path) -> Iterator[SourceRecord]:
    """Yield the records of a file of JSON lines."""
    with path.open("rb") as file:
        yield from LineReader().read(file, ending=True)


@contextmanager
def database(path: Path, *tables: str) -> Iterator[sqlite3.Connection]:
    """Open a foreign database for reading; SourceError if it is not one, or lacks tables."""
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row
    try:
        found = {row[0] for row in connection.execute("select name from sqlite_master where type = 'table'")}
        if missing := set(tables) - found:
            raise SourceError(f"{path} lacks the tables {', '.join(sorted(missing))}.")
        yield connection
    except sqlite3.DatabaseError as error:
        raise SourceError(f"{path} cannot be read as a database: {error}") from error
    finally:
        connection.close()


def transcript(
    tool: str,
    source_id: str,
    path: Path,
    root: Path,
    produce: Produce,
    *,
    part: str = "",
    directory: str | None = None,
    beside: Iterable[Path] = (),
) -> Transcript:
    """Return the transcript of one document, or of one part of it."""
    file = relative(path, root)

    def events(about: SessionMetadata, tally: Tally) -> Iterator[Event]:
        yield from produce(Conversation(EventMaker(tool, source_id, file), about, tally))

    name = f"{file}#{part}" if part else file
    return Transcript(
        tool, session_id(tool, source_id), [DocumentPart(path, name, events, beside=beside)], directory
    )


def transcripts_in(
    path: Path,
    root: Path,
    tool: str,
    rows: Iterable[sqlite3.Row],
    produce: Callable[[Path, str], Produce],
) -> list[Transcript]:
    """Return the transcripts of the sessions that a database names, one a row."""
    beside = [
        path.with_name(path.name + "-wal")
    ]  # where SQLite writes first: it changes, the database may not
    return [
        transcript(tool, name, path, root, produce(path, name), part=name, beside=beside) for (name,) in rows
    ]
