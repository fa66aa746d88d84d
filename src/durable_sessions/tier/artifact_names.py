"""Which artifacts the records of a partition name, so that those that nothing names can be removed.

A record names an artifact if its text has the 64 hex digits of it, wherever they stand. They are found by
reading each segment once, when somebody asks, and kept in a file under the segment's own digest: so the file
is right for whatever manifest there is, and can be deleted at any time. Of a digest the first 64 bits are
kept. If two have the same, an artifact stays that could go, and never the other way.
"""

import asyncio
import re
import sqlite3
from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator
from itertools import accumulate
from pathlib import Path

from durable_sessions.bucket.manifest import Manifest, SegmentInfo
from durable_sessions.bucket.records import AppendRun
from durable_sessions.errors import ColdReadError
from durable_sessions.storage import file_permissions
from durable_sessions.threads import CPU
from durable_sessions.tier.bucket_archive import BucketArchive
from durable_sessions.tier.segment_unpacker import WholeSegment

_VERSION = 1
_SCHEMA = f"""
create table segments (number integer primary key, sha256 text not null unique);
create table names (
  prefix integer not null, segment integer not null, stream integer not null, position integer not null,
  primary key (prefix, stream, segment, position)
) without rowid;
pragma user_version = {_VERSION};
"""
_DIGITS = 64
_RUN = b"0" * _DIGITS
_IS_DIGIT = bytes(ord("0") if chr(byte) in "0123456789abcdefABCDEF" else ord(" ") for byte in range(256))
_ESCAPED_DIGIT = re.compile(rb"\\u00(3[0-9]|[46][1-6])")
_PIECE_BYTES = 256 * 1024
_STATES_AT_ONCE = 500


def digests_in(text: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the digests in a text with the places where they end; those with escaped digits too.

    Places are only right where nothing is escaped. Looking for runs is done by bytes' own methods: a regular
    expression takes ten times as long.
    """
    if b"\\u00" in text:
        text = _ESCAPED_DIGIT.sub(lambda found: bytes([int(found[1], 16)]), text)
    kinds = text.translate(_IS_DIGIT)
    at = kinds.find(_RUN)
    while at >= 0:
        end = kinds.find(b" ", at)
        end = len(kinds) if end < 0 else end
        if end - at == _DIGITS:
            yield end, text[at:end].lower()
        at = kinds.find(_RUN, end)


def names_in(run: AppendRun) -> Iterator[tuple[int, int]]:
    """Yield the prefixes of the digests in an append, with the positions of the records that have them."""
    ends = list(accumulate(run.lengths)) or [len(run.data)]
    first, begin = 0, 0
    while first < len(ends):  # in pieces: a search holds the interpreter until it is over
        following = max(bisect_right(ends, begin + _PIECE_BYTES), first + 1)
        piece = run.data[begin : ends[following - 1]]
        if b"\\u00" in piece and following > first + 1:
            following, piece = first + 1, run.data[begin : ends[first]]
        for end, digest in digests_in(piece):
            at = first if following == first + 1 else bisect_right(ends, begin + end - 1)
            yield _prefix(digest), run.first + at
        begin, first = ends[following - 1], following


def _prefix(digest: bytes) -> int:
    return int(digest[:16], 16) - 2**63  # what an integer of SQLite can be


class ArtifactNames:
    """Answers for one partition which artifacts of a workspace its streams name, as of the last flush."""

    def __init__(self, path: Path, archive: BucketArchive) -> None:
        self._path = path
        self._archive = archive
        self._connection: sqlite3.Connection | None = None
        self._turn = asyncio.Lock()
        self.segments_read = 0

    async def named(self, workspace: str, digests: Collection[str]) -> set[str]:
        """Return those of some artifacts that a record or an attribute of a stream names.

        Records of deleted streams count as long as forks share them; erased ones do not count, but what
        stands in their places does. If anything cannot be read, ColdReadError or BucketError is raised.
        """
        async with self._turn:
            try:
                return await self._named(workspace, digests)
            except sqlite3.Error as error:
                self._close()
                raise ColdReadError(reason=f"{self._path.name}: {error}") from error

    async def close(self) -> None:
        """Close the file, after what is under way."""
        async with self._turn:
            self._close()

    async def _named(self, workspace: str, digests: Collection[str]) -> set[str]:
        # A server that was fenced without knowing it does not see what the new writer names.
        manifest, catalog = await self._archive.confirmed(), self._archive.catalog
        if manifest is None:
            raise ColdReadError(reason="the outcome of a flush is not known yet")
        connection = await CPU.run(self._opened)
        await self._read_segments(connection, manifest)
        found = await catalog.run(self._in_records, connection, workspace, digests)
        left = {digest.encode() for digest in digests if digest not in found}
        after: int | None = -1
        while left and after is not None:
            after, named = await catalog.run(self._in_states, workspace, left, after)
            found |= {digest.decode() for digest in named}
            left -= named
        return found

    # The file ---------------------------------------------------------------------------

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            try:
                self._connection = self._connect()
            except sqlite3.DatabaseError:
                self._close()
                for suffix in ("", "-wal", "-shm"):
                    self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
                self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        file_permissions.make_file(self._path)
        connection = sqlite3.connect(self._path, check_same_thread=False, isolation_level=None)
        try:
            connection.execute("pragma journal_mode = wal")
            connection.execute("pragma synchronous = normal")
            (version,) = connection.execute("pragma user_version").fetchone()
            if version == 0:
                connection.executescript(_SCHEMA)
            elif version != _VERSION:
                raise sqlite3.DatabaseError(f"version {version}")
        except BaseException:
            connection.close()
            raise
        return connection

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # Reading segments -------------------------------------------------------------------

    async def _read_segments(self, connection: sqlite3.Connection, manifest: Manifest) -> None:
        """Read the segments that were not read before, one by one, and forget those that are gone."""
        known = await CPU.run(_known, connection)
        for info in manifest.segments:
            if info.sha256 not in known:
                segment = await WholeSegment.fetch(self._archive.bucket, info)
                await CPU.run(_add, connection, info, segment)
                self.segments_read += 1
        gone = known.keys() - {info.sha256 for info in manifest.segments}
        if gone:
            await CPU.run(_forget, connection, [known[sha256] for sha256 in gone])

    # In the catalog's thread ------------------------------------------------------------

    def _in_records(self, connection: sqlite3.Connection, workspace: str, digests: Iterable[str]) -> set[str]:
        return {digest for digest in digests if self._is_named(connection, workspace, digest)}

    def _is_named(self, connection: sqlite3.Connection, workspace: str, digest: str) -> bool:
        prefix, catalog = _prefix(digest.encode()), self._archive.catalog.writer
        streams = connection.execute("select distinct stream from names where prefix = ?", (prefix,))
        for (number,) in streams.fetchall():
            stream = catalog.load_id(number)
            if stream is None or stream.key.workspace != workspace:
                continue
            replaced = catalog.replaced(number) if stream.overlay else {}
            query = "select position from names where prefix = ? and stream = ?"
            if any(position not in replaced for (position,) in connection.execute(query, (prefix, number))):
                return True
        return False

    def _in_states(
        self, workspace: str, digests: Collection[bytes], after: int
    ) -> tuple[int | None, set[bytes]]:
        """Look at the next streams; return the last one, None at the end, and the digests that they have."""
        last, states = self._archive.catalog.writer.states_after(after, workspace, _STATES_AT_ONCE)
        found = {digest for state in states for _, digest in digests_in(state)}
        return last, found.intersection(digests)


def _known(connection: sqlite3.Connection) -> dict[str, int]:
    return dict(connection.execute("select sha256, number from segments").fetchall())


def _add(connection: sqlite3.Connection, info: SegmentInfo, segment: WholeSegment) -> None:
    runs = segment.appends(segment.streams)
    connection.execute("begin")
    try:
        number = connection.execute("insert into segments (sha256) values (?)", (info.sha256,)).lastrowid
        connection.executemany(
            "insert or ignore into names values (?, ?, ?, ?)",
            (
                (prefix, number, stream, position)
                for stream, appends in runs.items()
                for run in appends
                for prefix, position in names_in(run)
            ),
        )
        connection.execute("commit")
    except BaseException:
        if connection.in_transaction:
            connection.execute("rollback")
        raise


def _forget(connection: sqlite3.Connection, numbers: Collection[int]) -> None:
    some = ",".join(map(str, numbers))
    connection.execute("begin")
    connection.execute(f"delete from names where segment in ({some})")  # noqa: S608
    connection.execute(f"delete from segments where number in ({some})")  # noqa: S608
    connection.execute("commit")
