"""Queries on the catalog, through one connection."""

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from itertools import islice
from typing import NamedTuple

from durable_sessions.limits import Limits
from durable_sessions.storage.indexed import ORDERS, Place, TimeOrder
from durable_sessions.streams import lifetime
from durable_sessions.streams.effects import ErasedRecord, Name
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.usage import WorkspaceUsage
from durable_sessions.tier import stream_codec
from durable_sessions.tier.slot_tables import SlotView

_PAGE_ROWS = 500
_PAGE_BYTES = 256 * 1024
_NUMBER_MAX = 2**63 - 1
_IN_FOLDER = "select id from streams where workspace = ? and folder = ? and not soft_deleted and id "
_PATHS_AFTER = (
    "select id, path from streams where workspace = ? and path >= ? and path > ? and path < ? "
    "and not freed and not soft_deleted order by path limit ?"
)
_LAST_CHARACTER = "\U0010ffff"  # sorts after every path that begins with a prefix: no path contains it
_STREAMS_AFTER = (
    "select id, case when path >= ? and path < ? then state end from streams where id > ? order by id limit ?"
)
_STATES_AFTER = (
    "select id, case when workspace = ? then state end from streams where id > ? order by id limit ?"
)
_NEWEST_FIRST = _IN_FOLDER + "< ? order by id desc"
_OLDEST_FIRST = _IN_FOLDER + "> ? order by id"
_WITH_TERM = "select stream from terms where workspace = ? and folder = ? and term = ? and stream "
_NEWEST_WITH_TERM = _WITH_TERM + "< ? order by stream desc"
_OLDEST_WITH_TERM = _WITH_TERM + "> ? order by stream"
# Negative times do not occur: a time before 1970 is taken for none.
_PLACES = {
    (order, newest_first): f"select {order}_ms, id from streams indexed by streams_by_{order} "  # noqa: S608
    f"where workspace = ? and folder = ? and {order}_ms is not null and ({order}_ms, id) "
    + (f"< (?, ?) order by {order}_ms desc, id desc" if newest_first else f"> (?, ?) order by {order}_ms, id")
    for order in ORDERS
    for newest_first in (True, False)
}
"""The queries for streams by one of their times; ``indexed by`` makes SQLite refuse to sort them itself."""


class About(NamedTuple):
    """The manifest that the catalog belongs to, and up to where the log is flushed in it."""

    manifest: int
    flushed_through: int


class Placed(NamedTuple):
    """Consecutive records of a stream in one segment."""

    stream: int
    first: int
    next: int
    segment: str


class CatalogView(SlotView):
    """Finds streams and the places of their records through one connection."""

    def __init__(self, connection: sqlite3.Connection, limits: Limits) -> None:
        super().__init__(connection)
        self._connection = connection
        self._limits = limits

    def load(self, key: Key) -> Stream | None:
        """Return the stream at a path as of the last flush."""
        return self._stream("select state from streams where workspace = ? and path = ? and not freed", key)

    def load_id(self, stream: int) -> Stream | None:
        """Return a stream by its number as of the last flush."""
        return self._stream("select state from streams where id = ?", (stream,))

    def load_name(self, stream: int, name: str) -> Name | None:
        """Return the records of a stream that have this name, as of the last flush."""
        query = "select name, first, count, checked from names where stream = ? and name = ?"
        found = self._connection.execute(query, (stream, name)).fetchone()
        return None if found is None else Name(*found)

    def load_forks(self, stream: int) -> list[int]:
        """Return the numbers of a stream's forks as of the last flush."""
        query = "select id from streams where parent = ? order by id"
        return [number for (number,) in self._connection.execute(query, (stream,))]

    def is_spared(self, stream: int, erased: ErasedRecord) -> bool:
        """Say whether a fork that an erasure spares still shows the record, as of the last flush."""
        query = "select 1 from streams where parent = ? and id < ? and base > ? limit 1"
        values = (stream, erased.spares, erased.position)
        return erased.spares > 0 and self._connection.execute(query, values).fetchone() is not None

    def erased_streams(self) -> set[int]:
        """Return the streams with erased records that a segment may still have, as of the last flush."""
        return {number for (number,) in self._connection.execute("select id from streams where erased")}

    def replaced(self, stream: int) -> dict[int, bytes]:
        """Return what is stored in place of a stream's erased records, by position."""
        found = self.load_id(stream)
        erased = () if found is None else found.overlay
        return {one.position: one.data for one in erased if not self.is_spared(stream, one)}

    def settled_erasures(self, limit: int) -> list[tuple[int, list[ErasedRecord]]]:
        """Return erased records that no segment has any more, by stream, of at most ``limit`` streams."""
        query = "select id, state from streams where erased order by id limit ?"
        found: list[tuple[int, list[ErasedRecord]]] = []
        for number, state in self._connection.execute(query, (limit,)).fetchall():
            stream = stream_codec.decode(state)
            settled = [one for one in stream.overlay if self._is_settled(number, one)]
            if settled:
                found.append((number, settled))
        return found

    def _is_settled(self, stream: int, erased: ErasedRecord) -> bool:
        query = (
            "select 1 from extents join dirty on dirty.path = extents.segment"
            " where stream = ? and first <= ? and next > ? limit 1"
        )
        values = (stream, erased.position, erased.position)
        is_stored = self._connection.execute(query, values).fetchone() is not None
        return not is_stored and not self.is_spared(stream, erased)

    @contextmanager
    def numbers(
        self, workspace: str, folder: str, after: int | None, *, newest_first: bool
    ) -> Iterator[Iterator[int]]:
        """Yield the numbers of a folder's streams that follow ``after``, in order, as of the last flush.

        Rows are fetched as the caller takes them. Until the block ends, SQLite keeps the version of the file
        that they are read from, so the write-ahead file can only grow.
        """
        start = after if after is not None else _NUMBER_MAX if newest_first else 0
        query = _NEWEST_FIRST if newest_first else _OLDEST_FIRST
        with closing(self._connection.execute(query, (workspace, folder, start))) as rows:
            yield (number for (number,) in rows)

    @contextmanager
    def places(
        self, workspace: str, folder: str, order: TimeOrder, after: Place | None, *, newest_first: bool
    ) -> Iterator[Iterator[Place]]:
        """Yield the places of a folder's streams behind ``after``, in order, as of the last flush."""
        start = after or ((_NUMBER_MAX, _NUMBER_MAX) if newest_first else (-1, 0))
        query = _PLACES[order, newest_first]
        with closing(self._connection.execute(query, (workspace, folder, *start))) as rows:
            yield rows

    @contextmanager
    def with_term(
        self, workspace: str, folder: str, term: int, after: int | None, *, newest_first: bool
    ) -> Iterator[Iterator[int]]:
        """Yield the numbers of a folder's streams that have a term, in order, as of the last flush."""
        start = after if after is not None else _NUMBER_MAX if newest_first else 0
        query = _NEWEST_WITH_TERM if newest_first else _OLDEST_WITH_TERM
        with closing(self._connection.execute(query, (workspace, folder, term, start))) as rows:
            yield (number for (number,) in rows)

    def _stream(self, query: str, values: tuple[object, ...]) -> Stream | None:
        found = self._connection.execute(query, values).fetchone()
        if found is None:
            return None
        stream = stream_codec.decode(found[0])
        lifetime.grant_lag(stream, self._limits)
        return stream

    def about(self) -> About:
        """Return the manifest that the catalog belongs to."""
        return About(*self._connection.execute("select manifest, flushed_through from about").fetchone())

    def count(self) -> int:
        """Return how many streams there were at the last flush."""
        return int(self._connection.execute("select count(*) from streams").fetchone()[0])

    def usage(self) -> dict[str, WorkspaceUsage]:
        """Return what each workspace held at the last flush."""
        query = "select workspace, count(*), sum(record_bytes) from streams group by workspace"
        return {workspace: WorkspaceUsage(*held) for workspace, *held in self._connection.execute(query)}

    def paths_after(self, workspace: str, prefix: str, after: str, limit: int) -> list[tuple[int, str]]:
        """Return number and path of the next streams, by path, under a prefix, as of the last flush."""
        values = (workspace, max(prefix, after), after, prefix + _LAST_CHARACTER, limit)
        return self._connection.execute(_PATHS_AFTER, values).fetchall()

    def due(self, now_ms: int) -> Iterator[tuple[int, Key]]:
        """Yield number and path of the streams due for removal by ``now_ms``, as of the last flush."""
        query = "select id, workspace, path from streams where removal_ms <= ? order by removal_ms, id"
        return ((row[0], Key(row[1], row[2])) for row in self._connection.execute(query, (now_ms,)))

    def streams(self) -> Iterator[Stream]:
        """Yield every stream as it is stored, by number."""
        last: int | None = -1
        while last is not None:
            last, streams = self.streams_after(last, "", _PAGE_ROWS)
            yield from streams

    def streams_after(self, number: int, prefix: str, limit: int) -> tuple[int | None, list[Stream]]:
        """Look at the next ``limit`` streams by number as of the last flush, or fewer if they are large.

        Return the number of the last one looked at, None at the end, and the streams whose paths begin with
        the prefix. The states of the others are not read, since they may be large.
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

    def states_after(self, number: int, workspace: str, limit: int) -> tuple[int | None, list[bytes]]:
        """Look at the next ``limit`` streams by number; return the last one's, None at the end, and what is
        stored of those of a workspace.
        """
        rows = self._connection.execute(_STATES_AFTER, (workspace, number, limit)).fetchall()
        return rows[-1][0] if rows else None, [state for _, state in rows if state is not None]

    def all_numbers(self) -> set[int]:
        """Return the numbers of all streams; slow, so not for the event loop."""
        return {number for (number,) in self._connection.execute("select id from streams")}

    def existing(self, streams: Iterable[int]) -> set[int]:
        """Return those of the given streams that existed at the last flush."""
        found: set[int] = set()
        left = iter(streams)
        while some := list(islice(left, _PAGE_ROWS)):
            query = f"select id from streams where id in ({','.join('?' * len(some))})"  # noqa: S608
            found.update(row[0] for row in self._connection.execute(query, some))
        return found

    def loaded(self, streams: Iterable[int]) -> Iterator[Stream]:
        """Yield those of the given streams that existed at the last flush, as they are stored."""
        left = iter(streams)
        while some := list(islice(left, _PAGE_ROWS)):
            query = f"select state from streams where id in ({','.join('?' * len(some))})"  # noqa: S608
            yield from (stream_codec.decode(state) for (state,) in self._connection.execute(query, some))

    def place(self, stream: int, position: int) -> Placed | None:
        """Return the run of records in one segment that holds this position; None if no segment does."""
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
        """Return the size of each segment's records before compression."""
        return dict(self._connection.execute("select path, record_bytes from segments"))

    def dirty(self) -> dict[str, int]:
        """Return the objects that still hold data of removed streams, and since when."""
        return dict(self._connection.execute("select path, since_ms from dirty"))
