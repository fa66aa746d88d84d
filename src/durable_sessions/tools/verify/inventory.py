"""All streams of a bucket, collected in a temporary SQLite file so that any number fits.

The catalog must agree with it, and the log is replayed on top of it.
"""

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from durable_sessions.partition_id import PartitionId
from durable_sessions.streams.effects import Name
from durable_sessions.streams.slots import NothingFlushed
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.tier import stream_codec

_SCHEMA = """
create table streams (
  id integer primary key, workspace text not null, path text not null, freed integer not null,
  state blob not null
);
create index streams_by_path on streams (workspace, path) where not freed;
create table removed (id integer primary key);
create table extents (
  stream integer not null, first integer not null, next integer not null, segment text not null
);
create index extents_by_place on extents (stream, first);
"""

_DIFFERENT_EXTENTS = """
select * from (select * from extents except select stream, first, next, segment from found.extents)
union select * from (select stream, first, next, segment from found.extents except select * from extents)
order by 1, 2
"""
_DIFFERENT_STREAMS = """
select id from (select id, state from streams except select id, state from found.streams)
union select id from (select id, state from found.streams except select id, state from streams) order by 1
"""


class SegmentExtent(NamedTuple):
    """Consecutive records of a stream in one segment."""

    first: int
    next: int
    segment: str


class Inventory(NothingFlushed):
    """Streams and the places of their records.

    ``largest`` is the highest stream number that the partition has allocated; before the first, one less than
    its first number.
    """

    def __init__(self, path: Path, partition: PartitionId) -> None:
        self.path = path
        self.partition = partition
        self.largest = partition.streams.start - 1
        self._connection = sqlite3.connect(path, isolation_level=None)
        # The file is private and temporary, so it needs neither a journal nor syncs.
        self._connection.execute("pragma journal_mode = off")
        self._connection.execute("pragma synchronous = off")
        self._connection.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def put(self, streams: Iterable[Stream]) -> None:
        """Add streams, replacing those with the same numbers."""
        rows = [(stream.id, *stream.key, stream.freed, stream_codec.encode(stream)) for stream in streams]
        self._note(row[0] for row in rows)
        self._connection.execute("begin")
        self._connection.executemany("delete from removed where id = ?", [row[:1] for row in rows])
        self._connection.executemany("insert or replace into streams values (?, ?, ?, ?, ?)", rows)
        self._connection.execute("commit")

    def remove(self, numbers: Iterable[int]) -> None:
        """Remove streams; their numbers are remembered."""
        for number in numbers:
            self._note((number,))
            self._connection.execute("delete from streams where id = ?", (number,))
            self._connection.execute("insert or ignore into removed values (?)", (number,))

    def _note(self, numbers: Iterable[int]) -> None:
        given = self.partition.streams
        self.largest = max([self.largest, *(number for number in numbers if number in given)])

    def forget_streams(self) -> None:
        """Remove all streams."""
        self._connection.execute("delete from streams")

    def place(self, stream: int, extents: Iterable[SegmentExtent]) -> None:
        """Add places of a stream's records."""
        rows = [(stream, *extent) for extent in extents]
        self._connection.executemany("insert into extents values (?, ?, ?, ?)", rows)

    def forget_places(self) -> None:
        """Remove all places of records."""
        self._connection.execute("delete from extents")

    def removed(self) -> list[int]:
        """Return the numbers of streams that existed and were removed."""
        return [number for (number,) in self._connection.execute("select id from removed")]

    def shared_paths(self) -> list[list[int]]:
        """Return, for each path with several streams, their numbers in order."""
        query = (
            "select group_concat(id) from streams where not freed group by workspace, path"
            " having count(*) > 1"
        )
        return [sorted(map(int, numbers.split(","))) for (numbers,) in self._connection.execute(query)]

    def was_removed(self, number: int) -> bool:
        """Say whether a stream with this number existed and was removed."""
        query = "select 1 from removed where id = ?"
        return self._connection.execute(query, (number,)).fetchone() is not None

    def load(self, key: Key) -> Stream | None:
        """Return the stream at a path, the newest if there are several."""
        query = (
            "select state from streams where workspace = ? and path = ? and not freed"
            " order by id desc limit 1"
        )
        return self._one(query, key)

    def load_id(self, stream: int) -> Stream | None:
        """Return a stream by its number."""
        return self._one("select state from streams where id = ?", (stream,))

    def load_name(self, stream: int, name: str) -> Name | None:
        """Return None: names are not looked up while a log is replayed."""

    def load_forks(self, stream: int) -> Iterable[int]:
        """Return nothing: forks are not looked up while a log is replayed."""
        return ()

    def _one(self, query: str, values: tuple[object, ...]) -> Stream | None:
        found = self._connection.execute(query, values).fetchone()
        return None if found is None else stream_codec.decode(found[0])

    def workspaces(self) -> set[str]:
        """Return the workspaces of all streams."""
        return {name for (name,) in self._connection.execute("select distinct workspace from streams")}

    def count(self) -> int:
        """Return how many streams there are."""
        return int(self._connection.execute("select count(*) from streams").fetchone()[0])

    def numbers(self) -> list[int]:
        """Return the numbers of all streams."""
        return [number for (number,) in self._connection.execute("select id from streams")]

    def streams(self) -> Iterator[tuple[Stream, list[SegmentExtent]]]:
        """Yield every stream, in order of its number, and the places of its records in order of position."""
        for (state,) in self._connection.execute("select state from streams order by id"):
            stream = stream_codec.decode(state)
            yield stream, self.extents(stream.id)

    def extents(self, stream: int) -> list[SegmentExtent]:
        """Return the places of a stream's records in order of position."""
        query = "select first, next, segment from extents where stream = ? order by first, next"
        return [SegmentExtent(*row) for row in self._connection.execute(query, (stream,))]

    def differences(self, catalog: Path) -> Iterator[str]:
        """Yield the differences to a catalog; sqlite3.DatabaseError if it is damaged."""
        connection = self._connection
        connection.execute("attach database ? as found", (str(catalog),))
        try:
            for (problem,) in connection.execute("pragma found.integrity_check(20)"):
                if problem != "ok":
                    yield f"SQLite says: {problem}"
            for (number,) in connection.execute(_DIFFERENT_STREAMS):
                there = connection.execute("select 1 from found.streams where id = ?", (number,)).fetchone()
                here = self.load_id(number)
                what = "is missing" if there is None else "is too much" if here is None else "differs"
                yield f"stream {number} {what}"
            for stream, first, following, segment in connection.execute(_DIFFERENT_EXTENTS):
                yield f"the place of stream {stream}, positions {first} to {following} in {segment}, differs"
        finally:
            connection.execute("detach database found")
