"""Where each append that is not in the bucket yet lies in the log: 28 bytes per append."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from durable_sessions.log import Extent


class RecordIndex:
    """For each unflushed append of a stream, in order: its first position and its place in the log."""

    __slots__ = ("_columns",)

    def __init__(self) -> None:
        # First positions, positions in the log, offsets, lengths, checksums. None while there are none,
        # because a hundred thousand idle streams must be small.
        self._columns: tuple[array[int], array[int], array[int], array[int], array[int]] | None = None

    def __len__(self) -> int:
        return 0 if self._columns is None else len(self._columns[0])

    def add(self, first: int, extent: Extent, checksum: int) -> None:
        """Note where the append that begins at position ``first`` lies."""
        if self._columns is None:
            self._columns = array("Q"), array("Q"), array("I"), array("I"), array("I")
        firsts, positions, offsets, lengths, checksums = self._columns
        firsts.append(first)
        positions.append(extent.position)
        offsets.append(extent.offset)
        lengths.append(extent.length)
        checksums.append(checksum)

    def append_end(self, position: int, tail: int) -> int:
        """Return where the append that holds ``position`` ends."""
        firsts = () if self._columns is None else self._columns[0]
        following = bisect_right(firsts, position)
        return firsts[following] if following < len(firsts) else tail

    def extents(self, position: int) -> Iterator[tuple[Extent, int]]:
        """Yield the place and checksum of the append that holds ``position`` and of all after it."""
        if self._columns is None:
            return
        firsts, positions, offsets, lengths, checksums = self._columns
        for at in range(max(bisect_right(firsts, position) - 1, 0), len(firsts)):
            yield Extent(positions[at], offsets[at], lengths[at]), checksums[at]

    def forget(self, log_position: int) -> None:
        """Forget the appends in batches up to a position of the log: they are in the bucket now."""
        if self._columns is None:
            return
        count = bisect_right(self._columns[1], log_position)
        if count == len(self):
            self._columns = None
            return
        for column in self._columns:
            del column[:count]
