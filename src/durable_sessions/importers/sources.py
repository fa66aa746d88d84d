"""Source sessions: the files of a session, and how to continue reading them."""

import io
import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from durable_sessions.importers.events import Event, SessionMetadata
from durable_sessions.importers.lines import LineReader, SourceRecord
from durable_sessions.importers.tally import WAITS, Tally

SETTLED_SECONDS = 60.0
"""After how long without a write a file counts as complete for now."""

_HEAD_BYTES = 256


class SourceError(Exception):
    """A source that cannot be read; the message says which and why."""


def empty_file(path: Path) -> str:
    """Return what is said of a file that was named and has nothing to import."""
    if path.is_file() and path.stat().st_size:
        return f"There is nothing to import in {path} yet: it has no complete record."
    return f"{path} is empty: there is nothing to import."


class Parser(Protocol):
    """Maps records to events, one after another; the result depends only on the records so far."""

    about: SessionMetadata
    tally: Tally

    def feed(self, record: SourceRecord) -> Iterable[Event]:
        """Return the events of the next record."""
        ...

    def finish(self, *, settled: bool) -> Iterable[Event]:
        """Return the events that were held back for a next record.

        Unless the source is ``settled``, events that a next record could change stay held back.
        """
        ...

    @property
    def is_waiting(self) -> bool:
        """Whether something is held back."""
        ...


class Part(Protocol):
    """A file, or a few that belong together, with events of one session."""

    name: str
    path: Path
    is_read_whole: bool

    @property
    def about(self) -> SessionMetadata:
        """The title and metadata that were read."""
        ...

    def take_tally(self) -> Tally:
        """Return the counts since the last time."""
        ...

    def fingerprint(self) -> str:
        """Return a value that changes when the source does."""
        ...

    @property
    def is_waiting(self) -> bool:
        """Whether it must be read again even if it does not change: something is held back."""
        ...

    def read(self, *, ending: bool) -> Iterator[Event]:
        """Yield the events that were not yielded before; with ``ending``, also those that were held back."""
        ...

    def restart(self) -> None:
        """Start over: the next read begins at the first event."""
        ...


@dataclass(frozen=True, slots=True)
class ForkPoint:
    """Where a session was forked from another one: after the event with this id, or at its end."""

    session: str
    behind: str | None


@dataclass(slots=True)
class Transcript:
    """One source session with its parts, the main one first; ``origin`` is set if it is a fork of another.

    Unless it ``renames``, the title and metadata that the session has at its destination are kept. With a
    ``source`` its events are those of another server, and are marked as imported from there.
    """

    tool: str
    session: str
    parts: list[Part]
    directory: str | None = None
    origin: ForkPoint | None = None
    renames: bool = True
    source: str | None = None


def stat_of(paths: Iterable[Path]) -> str:
    """Return identity, size and time of files as one text; missing files are part of it."""
    stats = []
    for path in paths:
        try:
            stat = path.stat()
            stats.append(f"{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}")
        except OSError:
            stats.append("-")
    return " ".join(stats)


def open_maybe_compressed(path: Path) -> BinaryIO:
    """Open a file for reading, unpacked if its name ends with .zst."""
    if path.suffix != ".zst":
        return path.open("rb")
    import pyarrow

    stream: BinaryIO = pyarrow.CompressedInputStream(pyarrow.OSFile(str(path)), "zstd")
    return io.BufferedReader(_Forward(stream))


class _Forward(io.RawIOBase):
    """A compressed stream, which cannot seek."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class LinesPart:
    """A file of JSON lines that only grows; if it was rewritten, it is read again from its start."""

    is_read_whole = False

    def __init__(
        self,
        path: Path,
        name: str,
        parser: Callable[[], Parser],
        check: Callable[[Path], None] = lambda path: None,
    ) -> None:
        self.path = path
        self.name = name
        self._check = check
        self._new_parser = parser
        self._parser = parser()
        self._reader = LineReader()
        self._head = b""

    @property
    def about(self) -> SessionMetadata:
        """The title and metadata that were read."""
        return self._parser.about

    def take_tally(self) -> Tally:
        """Return the counts since the last time."""
        taken = self._parser.tally.take()
        if self._reader.waiting:
            taken.notes[f"unfinished last line, {WAITS}"] += 1
        return taken

    @property
    def is_waiting(self) -> bool:
        """Whether the parser is holding something back."""
        return self._parser.is_waiting

    def fingerprint(self) -> str:
        """Return identity, size and time of the file."""
        return stat_of([self.path])

    def read(self, *, ending: bool) -> Iterator[Event]:
        """Yield the events of the lines that were not read before; SourceError if it is of another format."""
        if self._reader.offset == 0:
            self._check(self.path)
        with open_maybe_compressed(self.path) as file:
            if not file.seekable():
                self.restart()
            else:
                self._restart_if_rewritten(file)
            for record in self._reader.read(file, ending=ending):
                yield from self._parser.feed(record)
        if ending:
            # The distance, not the age: a file from the future, after the clock was set back, is complete,
            # too.
            age = time.time() - self.path.stat().st_mtime
            yield from self._parser.finish(settled=abs(age) >= SETTLED_SECONDS)

    def restart(self) -> None:
        """Start over: the next read begins at the first line."""
        self._parser, self._reader, self._head = self._new_parser(), LineReader(), b""

    def _restart_if_rewritten(self, file: BinaryIO) -> None:
        # Shorter than what was read, or with another beginning: it is not the file that was read before.
        head = file.read(_HEAD_BYTES)
        if os.fstat(file.fileno()).st_size < self._reader.offset or not head.startswith(self._head):
            self.restart()
        self._head = head


class DocumentPart:
    """A file, a database or a tree that is rewritten in place: read as a whole whenever it has changed."""

    is_read_whole = True
    is_waiting = False

    def __init__(
        self,
        path: Path,
        name: str,
        produce: Callable[[SessionMetadata, Tally], Iterator[Event]],
        *,
        beside: Iterable[Path] = (),
        fingerprint: Callable[[], str] | None = None,
    ) -> None:
        self.path = path
        self.name = name
        self.about = SessionMetadata()
        self._produce = produce
        self._paths = [path, *beside]
        self._fingerprint = fingerprint
        self._tally = Tally()

    def take_tally(self) -> Tally:
        """Return the counts since the last time."""
        return self._tally.take()

    def fingerprint(self) -> str:
        """Return identity, size and time of the files."""
        return self._fingerprint() if self._fingerprint else stat_of(self._paths)

    def read(self, *, ending: bool) -> Iterator[Event]:
        """Yield all events; those that were there before have the same ids."""
        self.about = SessionMetadata()
        yield from self._produce(self.about, self._tally)

    def restart(self) -> None:
        """Do nothing: every read starts at the first event."""
