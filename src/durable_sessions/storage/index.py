"""Where each append of a stream lies in the log: 28 bytes per append."""

from array import array
from bisect import bisect_right
from collections.abc import Iterator

from durable_sessions.log import Extent


class RecordIndex:
    """For each append of a stream, in order: its first position and its place in the log."""

    __slots__ = ("_checksums", "_firsts", "_lengths", "_offsets", "_positions")

    def __init__(self) -> None:
        self._firsts = array("Q")
        self._positions = array("Q")
        self._offsets = array("I")
        self._lengths = array("I")
        self._checksums = array("I")

    def __len__(self) -> int:
        return len(self._firsts)

    def add(self, first: int, extent: Extent, checksum: int) -> None:
        """Note where the append that begins at position ``first`` lies."""
        self._firsts.append(first)
        self._positions.append(extent.position)
        self._offsets.append(extent.offset)
        self._lengths.append(extent.length)
        self._checksums.append(checksum)

    def append_end(self, position: int, tail: int) -> int:
        """Return where the append that holds ``position`` ends."""
        following = bisect_right(self._firsts, position)
        return self._firsts[following] if following < len(self._firsts) else tail

    def extents(self, position: int) -> Iterator[tuple[Extent, int]]:
        """Yield the place and checksum of the append that holds ``position`` and of all after it."""
        for at in range(max(bisect_right(self._firsts, position) - 1, 0), len(self._firsts)):
            yield Extent(self._positions[at], self._offsets[at], self._lengths[at]), self._checksums[at]
