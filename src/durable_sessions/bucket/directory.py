"""A segment's directory: which rows of which row groups hold which positions of a stream."""

import base64
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec


class Piece(NamedTuple):
    """Consecutive records of one stream in one row group.

    ``size`` is their wire bytes: for JSON each value with its comma.
    """

    stream: int
    first: int
    next: int
    group: int
    row: int
    rows: int
    size: int
    json: bool


class GroupInfo(NamedTuple):
    """Where a row group lies in the object, and the digest of these bytes."""

    offset: int
    bytes: int
    rows: int
    sha256: str


_COLUMNS = len(Piece._fields)
_decode_columns = msgspec.json.Decoder(list[list[int]]).decode
_decode_groups = msgspec.json.Decoder(list[tuple[int, int, int, str]]).decode


class Directory:
    """The pieces of a segment. Those of one stream are adjacent and in order of position.

    They are kept as columns of numbers: an object for each piece would take ten times the memory.
    """

    def __init__(self, columns: list["array[int]"]) -> None:
        self._columns = columns
        self._firsts, self._nexts = columns[1], columns[2]
        self._places: dict[int, tuple[int, int]] = {}
        begin, streams = 0, columns[0]
        for at in range(1, len(streams) + 1):
            if at == len(streams) or streams[at] != streams[begin]:
                self._places[streams[begin]] = (begin, at)
                begin = at

    @classmethod
    def of(cls, pieces: Iterable[Piece]) -> "Directory":
        """Return the directory with these pieces, in the order of the rows."""
        columns = [array("q", column) for column in zip(*pieces, strict=True)]
        return cls(columns or [array("q") for _ in range(_COLUMNS)])

    def __len__(self) -> int:
        return len(self._firsts)

    @property
    def streams(self) -> Iterable[int]:
        """The numbers of the streams in the segment, in the order of the rows."""
        return self._places.keys()

    @property
    def cost(self) -> int:
        """The memory that the directory takes, approximately."""
        return 8 * _COLUMNS * len(self) + 200 * len(self._places)

    def pieces(self, stream: int) -> Iterator[Piece]:
        """Yield every piece of a stream, in order of position."""
        begin, end = self._places.get(stream, (0, 0))
        return (self._piece(at) for at in range(begin, end))

    def runs(self, stream: int) -> list[tuple[int, int]]:
        """Return the first and next position of each gapless run of a stream's records."""
        runs: list[tuple[int, int]] = []
        for piece in self.pieces(stream):
            if runs and runs[-1][1] == piece.first:
                runs[-1] = (runs[-1][0], piece.next)
            else:
                runs.append((piece.first, piece.next))
        return runs

    def pieces_from(self, stream: int, position: int) -> Iterator[Piece]:
        """Yield the piece that holds ``position`` and those that follow it without a gap; maybe none."""
        begin, end = self._places.get(stream, (0, 0))
        at = bisect_right(self._firsts, position, begin, end) - 1
        # The position lies in a gap: it was erased, or is in another segment.
        if at < begin or position >= self._nexts[at]:
            return
        yield self._piece(at)
        while at + 1 < end and self._firsts[at + 1] == self._nexts[at]:
            at += 1
            yield self._piece(at)

    def _piece(self, at: int) -> Piece:
        stream, first, following, group, row, rows, size, json = [column[at] for column in self._columns]
        return Piece(stream, first, following, group, row, rows, size, bool(json))

    def encode(self) -> str:
        """Return the directory as text: JSON columns, compressed with zlib, in base64."""
        columns = msgspec.json.encode([column.tolist() for column in self._columns])
        return base64.b64encode(zlib.compress(columns)).decode()

    @classmethod
    def decode(cls, text: bytes) -> "Directory":
        """Return the directory in the text; ValueError if it is none."""
        columns = _decode_columns(zlib.decompress(base64.b64decode(text, validate=True)))
        if len(columns) != _COLUMNS or len({len(column) for column in columns}) != 1:
            raise ValueError("the columns of the directory do not match")
        return cls([array("q", column) for column in columns])


def encode_groups(groups: Iterable[GroupInfo]) -> str:
    """Return the row groups' places and digests as JSON."""
    return msgspec.json.encode(list(groups)).decode()


def decode_groups(text: bytes) -> list[GroupInfo]:
    """Return the row groups' places and digests; ValueError if the text is something else."""
    return [GroupInfo(*group) for group in _decode_groups(text)]
