"""Index of a stream's unflushed appends: their places in the log, 28 bytes per append."""

from bisect import bisect_right
from collections.abc import Iterator
from struct import Struct

from durable_sessions.log import Extent

# The columns of a row: first position, the batch's position in the log, offset in it, length, checksum.
_ROW = Struct("<QQIII")
_pack = _ROW.pack
_FIRST = Struct("<Q")
_LOG_POSITION = Struct("<8xQ")


class RecordIndex:
    """Maps positions to places in the log, for each unflushed append of a stream, in order."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        # One buffer, and none while there are no rows, because there may be a hundred thousand streams.
        self._rows: bytearray | None = None

    def __len__(self) -> int:
        return 0 if self._rows is None else len(self._rows) // _ROW.size

    def add(self, first: int, position: int, offset: int, length: int, checksum: int) -> None:
        """Add the place of the append that begins at ``first``: its batch, and where it is in that."""
        row = _pack(first, position, offset, length, checksum)
        if self._rows is None:
            self._rows = bytearray(row)
        else:
            self._rows += row

    def append_end(self, position: int, tail: int) -> int:
        """Return where the append that contains ``position`` ends."""
        following = self._rows_up_to(_FIRST, position)
        return self._value(_FIRST, following) if following < len(self) else tail

    def extents(self, position: int) -> Iterator[tuple[Extent, int]]:
        """Yield place and checksum of the append that contains ``position`` and of all after it."""
        if self._rows is None:
            return
        for at in range(max(self._rows_up_to(_FIRST, position) - 1, 0), len(self)):
            _, *place, checksum = _ROW.unpack_from(self._rows, at * _ROW.size)
            yield Extent(*place), checksum

    def forget(self, log_position: int) -> None:
        """Remove the appends in batches up to a log position: they are in the bucket now."""
        if self._rows is None:
            return
        del self._rows[: self._rows_up_to(_LOG_POSITION, log_position) * _ROW.size]
        if not self._rows:
            self._rows = None

    def _rows_up_to(self, column: Struct, value: int) -> int:
        """Return how many rows have at most this value in a non-decreasing column."""
        return bisect_right(range(len(self)), value, key=lambda at: self._value(column, at))

    def _value(self, column: Struct, row: int) -> int:
        assert self._rows is not None
        value: int = column.unpack_from(self._rows, row * _ROW.size)[0]
        return value
