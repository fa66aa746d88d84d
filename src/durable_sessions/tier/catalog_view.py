"""What the catalog knows, read through one connection."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import NamedTuple

from durable_sessions.limits import Limits
from durable_sessions.streams import lifetime
from durable_sessions.streams.effects import Name
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.usage import WorkspaceUsage
from durable_sessions.tier import stream_codec

_PAGE_ROWS = 500
_PAGE_BYTES = 256 * 1024
_NUMBER_MAX = 2**63 - 1
_IN_FOLDER = "select id from streams where workspace = ? and folder = ? and not soft_deleted and id "
_PATHS_AFTER = (
    "select id, path from streams where workspace = ? and path >= ? and path > ? and path < ? "
    "and not soft_deleted order by path limit ?"
)
_LAST_CHARACTER = "\U0010ffff"  # no path holds it
_STREAMS_AFTER = (
    "select id, case when path >= ? and path < ? then state end from streams where id > ? order by id limit ?"
)
_NEWEST_FIRST = _IN_FOLDER + "< ? order by id desc"
_OLDEST_FIRST = _IN_FOLDER + "> ? order by id"


class About(NamedTuple):
    """Which flush the catalog is of."""

    manifest: int
    flushed_through: int


class Placed(NamedTuple):
    """Consecutive records of a stream in one segment."""

    stream: int
    first: int
    next: int
    segment: str


class CatalogView:
    """Finds streams and the places of their records through one connection."""

    def __init__(self, connection: sqlite3.Connection, limits: Limits) -> None:
        self._connection = connection
        self._limits = limits

    def load(self, key: Key) -> Stream | None:
        """Return the stream at a path as of the last flush."""
        return self._stream("select state from streams where workspace = ? and path = ?", key)

    def load_id(self, stream: int) -> Stream | None:
        """Return a stream by its number as of the last flush."""
        return self._stream("select state from streams where id = ?", (stream,))

    def load_name(self, stream: int, name: str) -> Name | None:
        """Return which records of a stream have a name, as of the last flush."""
        query = "select name, first, count, checked from names where stream = ? and name = ?"
        found = self._connection.execute(query, (stream, name)).fetchone()
        return None if found is None else Name(*found)

    @contextmanager
    def numbers(
        self, workspace: str, folder: str, after: int | None, *, newest_first: bool
    ) -> Iterator[Iterator[int]]:
        """Give the numbers of a folder's streams after one, in order, as of the last flush.

        They are read as they are taken; until the block ends, the file keeps what they were read from.
        """
        start = after if after is not None else _NUMBER_MAX if newest_first else 0
        query = _NEWEST_FIRST if newest_first else _OLDEST_FIRST
        with closing(self._connection.execute(query, (workspace, folder, start))) as rows:
            yield (number for (number,) in rows)

    def _stream(self, query: str, values: tuple[object, ...]) -> Stream | None:
        found = self._connection.execute(query, values).fetchone()
        if found is None:
            return None
        stream = stream_codec.decode(found[0])
        lifetime.grant_lag(stream, self._limits)
        return stream

    def about(self) -> About:
        """Return which flush the catalog is of."""
        return About(*self._connection.execute("select manifest, flushed_through from about").fetchone())

    def count(self) -> int:
        """Return how many streams there were at the last flush."""
        return int(self._connection.execute("select count(*) from streams").fetchone()[0])

    def usage(self) -> dict[str, WorkspaceUsage]:
        """Return what each workspace held at the last flush."""
        query = "select workspace, count(*), sum(record_bytes) from streams group by workspace"
        return {workspace: WorkspaceUsage(*held) for workspace, *held in self._connection.execute(query)}

    def paths_after(self, workspace: str, prefix: str, after: str, limit: int) -> list[tuple[int, str]]:
        """Return number and path of the next streams, by path, whose paths begin so, as of the last flush."""
        values = (workspace, max(prefix, after), after, prefix + _LAST_CHARACTER, limit)
        return self._connection.execute(_PATHS_AFTER, values).fetchall()

    def due(self, now_ms: int) -> Iterator[tuple[int, Key]]:
        """Yield the streams that are to be removed by ``now_ms`` as far as the last flush knows."""
        query = "select id, workspace, path from streams where removal_ms <= ? order by removal_ms, id"
        return ((row[0], Key(row[1], row[2])) for row in self._connection.execute(query, (now_ms,)))

    def streams(self) -> Iterator[Stream]:
        """Yield every stream as it is stored, by number."""
        last: int | None = -1
        while last is not None:
            last, streams = self.streams_after(last, "", _PAGE_ROWS)
            yield from streams

    def streams_after(self, number: int, prefix: str, limit: int) -> tuple[int | None, list[Stream]]:
        """Look at the next streams by number as of the last flush: ``limit``, or fewer if they are large.

        Return the number of the last one, None at the end, and those whose paths begin with the prefix: what
        is stored of the others is not read, since it may be large.
        """
        found: list[Stream] = []
        last: int | None = None
        size = 0
        values = (prefix, prefix + _LAST_CHARACTER, number, limit)
        for last, state in self._connection.execute(_STREAMS_AFTER, values):  # noqa: B007
            if state is None:
                continue
            found.append(stream_codec.decode(state))
            size += len(state)
            if size > _PAGE_BYTES:
                break
        return last, found

    def all_numbers(self) -> set[int]:
        """Return the numbers of all streams; takes a while."""
        return {number for (number,) in self._connection.execute("select id from streams")}

    def existing(self, streams: Iterable[int]) -> set[int]:
        """Return those of the streams that there were at the last flush."""
        found: set[int] = set()
        left = iter(streams)
        while some := list(islice(left, _PAGE_ROWS)):
            query = f"select id from streams where id in ({','.join('?' * len(some))})"  # noqa: S608
            found.update(row[0] for row in self._connection.execute(query, some))
        return found

    def loaded(self, streams: Iterable[int]) -> Iterator[Stream]:
        """Yield those of the streams that there were at the last flush, as they are stored."""
        left = iter(streams)
        while some := list(islice(left, _PAGE_ROWS)):
            query = f"select state from streams where id in ({','.join('?' * len(some))})"  # noqa: S608
            yield from (stream_codec.decode(state) for (state,) in self._connection.execute(query, some))

    def place(self, stream: int, position: int) -> Placed | None:
        """Return where the flushed record at a position lies."""
        found = self._connection.execute(
            "select stream, first, next, segment from extents"
            " where stream = ? and first <= ? order by first desc limit 1",
            (stream, position),
        ).fetchone()
        return None if found is None or found[2] <= position else Placed(*found)

    def runs(self, segments: Iterable[str]) -> dict[int, list[tuple[int, int]]]:
        """Return where the records in these segments begin and end, by stream, in order."""
        found: dict[int, list[tuple[int, int]]] = {}
        for segment in segments:
            query = "select stream, first, next from extents where segment = ?"
            for stream, first, following in self._connection.execute(query, (segment,)):
                found.setdefault(stream, []).append((first, following))
        return {stream: sorted(runs) for stream, runs in found.items()}

    def record_bytes(self) -> dict[str, int]:
        """Return how many bytes the records of each segment have when they are not compressed."""
        return dict(self._connection.execute("select path, record_bytes from segments"))

    def dirty(self) -> dict[str, int]:
        """Return the objects that hold something of removed streams, and since when."""
        return dict(self._connection.execute("select path, since_ms from dirty"))
