"""The table of snapshots of folds in ``views.sqlite``. Used in the file's thread."""

import zlib
from collections.abc import Iterable

from durable_sessions.sessions.graph import fold
from durable_sessions.sessions.views_file import ViewsFile

_ROW_BYTES = 64


class SnapshotTable:
    """What the file has of folds."""

    kind = "snapshots"
    format = fold.FORMAT
    tables = ("snapshots",)
    schema = """
create table snapshots (
  stream integer not null, position integer not null, erasures integer not null, used integer not null,
  bytes integer not null, data blob not null, unique (stream, position)
);
"""

    def __init__(self, views: ViewsFile) -> None:
        self._views = views
        views.add(self)

    def nearest(self, line: Iterable[tuple[int, int, int]], above: int) -> tuple[int, int, bytes] | None:
        """Return the newest snapshot beyond a position: its stream, its position and its bytes.

        ``line`` has the numbers of streams, each with the erasures that count and the last position that may
        be taken of it; of two at one position the earlier in line counts.
        """
        connection = self._views.connection()
        best: tuple[int, int, int, bytes] | None = None
        query = (
            "select rowid, position, data from snapshots where stream = ? and erasures = ? "
            "and position > ? and position <= ? order by position desc limit 1"
        )
        for stream, erasures, until in line:
            found = connection.execute(query, (stream, erasures, above, until)).fetchone()
            if found is not None:
                row, above, data = found
                best = row, stream, above, data
        if best is None:
            return None
        row, stream, position, data = best
        try:
            snapshot = zlib.decompress(data)
        except zlib.error:  # derived, so a damaged one is as good as none
            connection.execute("delete from snapshots where rowid = ?", (row,))
            return None
        connection.execute("update snapshots set used = ? where rowid = ?", (self._views.next_use(), row))
        return stream, position, snapshot

    def put(self, stream: int, position: int, erasures: int, snapshot: bytes) -> None:
        """Keep a snapshot."""
        connection = self._views.connection()
        data = zlib.compress(snapshot, 1)
        connection.execute("begin")
        try:
            change = "delete from snapshots where stream = ? and position = ?"
            connection.execute(change, (stream, position))
            row = (stream, position, erasures, self._views.next_use(), len(data) + _ROW_BYTES, data)
            connection.execute("insert into snapshots values (?, ?, ?, ?, ?, ?)", row)
            connection.execute("commit")
        except BaseException:
            connection.execute("rollback")
            raise
        self._views.evict()

    def forget_erased(self, stream: int, erasures: int) -> None:
        """Remove snapshots that do not know all erasures of a stream."""
        change = "delete from snapshots where stream = ? and erasures <> ?"
        self._views.connection().execute(change, (stream, erasures))
