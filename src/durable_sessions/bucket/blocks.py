"""Decoded row groups and footers: verified bytes turned into what reads are cut from."""

import io
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from durable_sessions.bucket.columns import SCHEMA
from durable_sessions.bucket.directory import Directory, GroupInfo, Piece, decode_groups
from durable_sessions.bucket.records import AppendRun
from durable_sessions.bucket.segment import DIRECTORY_KEY, GROUPS_KEY, VERSION, VERSION_KEY

_MARKS = ["append", "created_at"]
_COMMA = memoryview(b",")
# Made once: of a Python string Arrow makes one in each call, and looks for `dateutil` on the disk first.
_SEPARATOR, _EMPTY = pa.scalar(",", pa.string()), pa.scalar("", pa.string())


@dataclass(frozen=True, slots=True)
class Footer:
    """What the end of a segment says: its schema and pages, its row groups and its directory."""

    metadata: pq.FileMetaData
    groups: list[GroupInfo]
    directory: Directory

    @property
    def cost(self) -> int:
        """The memory that the footer takes, approximately."""
        return 3 * int(self.metadata.serialized_size) + 200 * len(self.groups) + self.directory.cost


def decode_footer(region: bytes) -> Footer:
    """Return the footer in the bytes behind the last row group; ValueError if it is not one of ours."""
    try:
        metadata = pq.read_metadata(pa.BufferReader(region))
    except (pa.ArrowException, OSError) as error:
        raise ValueError(str(error)) from error
    entries = metadata.metadata or {}
    version = entries.get(VERSION_KEY.encode(), b"").decode()
    if version != str(VERSION):
        raise ValueError(f"segment version {version or 'none'}, this program reads version {VERSION}")
    return Footer(
        metadata,
        decode_groups(entries.get(GROUPS_KEY.encode(), b"")),
        Directory.decode(entries.get(DIRECTORY_KEY.encode(), b"")),
    )


@dataclass(slots=True)
class DecodedRowGroup:
    """A decoded row group.

    ``wire`` has every row's JSON (for other rows nothing) with a comma between each two, so that row r
    begins at ``body_ends[r] + r``. The comma behind the last row is not in it: :meth:`_messages` adds it.
    ``data`` has the bytes of the other rows. When rows were appended, and with which others, few reads ask:
    these columns are kept as they were stored until one does.
    """

    wire: memoryview
    body_ends: Sequence[int]
    data: memoryview
    data_ends: Sequence[int]
    stored_marks: "_StoredColumns"
    _marks: tuple[Sequence[int], Sequence[int]] | None = field(default=None, init=False)

    @property
    def cost(self) -> int:
        """The memory that the block takes, approximately."""
        return len(self.wire) + len(self.data) + 24 * len(self.body_ends) + 1_000

    @property
    def starts(self) -> Sequence[int]:
        """For each row the first position of its append; ValueError if the column is malformed."""
        return self._decoded_marks()[0]

    @property
    def times(self) -> Sequence[int]:
        """For each row when it was appended, in milliseconds; ValueError if the column is malformed."""
        return self._decoded_marks()[1]

    def _decoded_marks(self) -> tuple[Sequence[int], Sequence[int]]:
        if self._marks is None:
            starts, times = self.stored_marks.decode(_MARKS)
            self._marks = _numbers(starts), _numbers(times)
        return self._marks

    def cut(self, piece: Piece, start: int, stop: int, bytes_max: int) -> tuple[list[memoryview], int]:
        """Return records of a piece from ``start``, before ``stop``, at least one, and the position after.

        They are views of this block, not copies.
        """
        stop = min(stop, piece.next)
        if not piece.json:
            stop = min(stop, start + max(bytes_max, 1))
            base = self.data_ends[piece.row] - piece.first
            return [self.data[base + start : base + stop]], stop
        row = piece.row + start - piece.first
        last = piece.row + stop - piece.first
        begin = self.body_ends[row] + row
        end = bisect_right(range(last + 1), begin + bytes_max, row + 1, key=self._wire_begin) - 1
        end = max(end, row + 1)
        return self._messages(begin, self._wire_begin(end)), piece.first + end - piece.row

    def _messages(self, begin: int, end: int) -> list[memoryview]:
        """Return a part of ``value,value,``, the comma behind its last value included."""
        return [self.wire[begin:end]] if end <= len(self.wire) else [self.wire[begin:], _COMMA]

    def _wire_begin(self, row: int) -> int:
        return self.body_ends[row] + row

    def append_end(self, piece: Piece, position: int) -> int:
        """Return where the append that holds ``position`` ends, as far as this piece knows."""
        last = piece.row + piece.rows
        if piece.json:
            row = piece.row + position - piece.first
            return piece.first + bisect_right(self.starts, self.starts[row], row, last) - piece.row
        base = self.data_ends[piece.row] - piece.first
        row = bisect_right(self.data_ends, base + position, piece.row, last)
        return self.data_ends[row] - base

    def appends(self, piece: Piece, start: int, stop: int) -> list[tuple[int, AppendRun]]:
        """Return the appends of a piece, clipped to the positions given, each after where it begins."""
        start, stop = max(start, piece.first), min(stop, piece.next)
        return (self._json_appends if piece.json else self._raw_appends)(piece, start, stop)

    def _json_appends(self, piece: Piece, start: int, stop: int) -> list[tuple[int, AppendRun]]:
        begin, end = piece.row + start - piece.first, piece.row + stop - piece.first
        starts = list(self.starts[begin:end])
        ends = [offset + row for row, offset in enumerate(self.body_ends[begin : end + 1], begin)]
        times = self.times[begin:end]
        lengths = [b - a for a, b in pairwise(ends)]
        cuts = [0, *(row for row, (a, b) in enumerate(pairwise(starts), 1) if a != b), len(starts)]
        return [
            (starts[a], AppendRun(start + a, times[a], tuple(lengths[a:b]), self._copied(ends[a], ends[b])))
            for a, b in pairwise(cuts)
        ]

    def _copied(self, begin: int, end: int) -> bytes:
        return b"".join(self._messages(begin, end))

    def _raw_appends(self, piece: Piece, start: int, stop: int) -> list[tuple[int, AppendRun]]:
        base = self.data_ends[piece.row] - piece.first
        found = []
        for row in range(piece.row, piece.row + piece.rows):
            first = max(self.data_ends[row] - base, start)
            data = self.data[base + first : min(self.data_ends[row + 1], base + stop)]
            if data:
                found.append((self.starts[row], AppendRun(first, self.times[row], (), bytes(data))))
        return found


def decode_block(footer: Footer, group: int, data: bytes) -> DecodedRowGroup:
    """Return the row group in ``data``, whose digest has been checked; ValueError if it is malformed."""
    stored = _StoredColumns(footer, group, _Window([(footer.groups[group].offset, memoryview(data))]))
    (body,) = stored.decode(["body"])
    body_ends, _ = _binary_parts(body)
    data_ends: Sequence[int] = ()
    raw_bytes = memoryview(b"")
    if body.null_count:
        data_ends, raw_bytes = _binary_parts(*stored.decode(["data"]))
    return DecodedRowGroup(
        wire=_joined(body),
        body_ends=body_ends,
        data=raw_bytes,
        data_ends=data_ends,
        stored_marks=stored.only(_MARKS),
    )


class _StoredColumns:
    """Columns of a row group as they are stored, decoded when they are needed."""

    __slots__ = ("_footer", "_group", "_window")

    def __init__(self, footer: Footer, group: int, window: "_Window") -> None:
        self._footer = footer
        self._group = group
        self._window = window

    def only(self, names: Sequence[str]) -> "_StoredColumns":
        """Return a copy of some columns, so that the others need not be kept."""
        row_group = self._footer.metadata.row_group(self._group)
        columns = [row_group.column(SCHEMA.get_field_index(name)) for name in names]
        return _StoredColumns(self._footer, self._group, self._window.copied(map(_place, columns)))

    def decode(self, names: Sequence[str]) -> list[pa.Array]:
        """Return columns in the order of their names; ValueError if they are malformed."""
        try:
            source = pa.PythonFile(self._window.opened(), mode="r")
            file = pq.ParquetFile(source, metadata=self._footer.metadata, pre_buffer=False)
            table = file.read_row_group(self._group, columns=names, use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise ValueError(str(error)) from error
        return [_whole(table.column(name)) for name in names]


def _place(column: pq.ColumnChunkMetaData) -> tuple[int, int]:
    """Return where a column of a row group is in the object, and how many bytes it has."""
    begin = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
    return begin, column.total_compressed_size


def _whole(column: pa.ChunkedArray) -> pa.Array:
    # Usually there is one chunk, which Arrow would copy.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _joined(body: pa.Array) -> memoryview:
    """Return all bodies with commas between them, joined by Arrow: a loop in Python would take far longer."""
    if body.null_count:
        body = pc.fill_null(body, _EMPTY)
    # As one list of strings: a join of list elements takes half the time of a join of two columns.
    whole = pa.ListArray.from_arrays(pa.array([0, len(body)], pa.int32()), body)
    ends, joined = _binary_parts(pc.binary_join(whole, _SEPARATOR))
    return joined[ends[0] : ends[-1]]


def _binary_parts(values: pa.Array) -> tuple[Sequence[int], memoryview]:
    # Views of Arrow's own buffers: no body is copied or becomes a Python object.
    _, offsets, content = values.buffers()
    ends = memoryview(offsets).cast("i")[values.offset : values.offset + len(values) + 1]
    return ends, memoryview(content or b"")


def _numbers(values: pa.Array) -> Sequence[int]:
    return memoryview(values.buffers()[1]).cast("q")[values.offset : values.offset + len(values)]


class _Window(io.RawIOBase):
    """A file of which only some parts are there, each at its place."""

    def __init__(self, parts: Sequence[tuple[int, memoryview]]) -> None:
        self._parts = parts
        self._at = 0

    def opened(self) -> "_Window":
        """Return the same file anew: whoever reads it may close it."""
        return _Window(self._parts)

    def copied(self, places: Iterable[tuple[int, int]]) -> "_Window":
        """Return a file with copies of some places only."""
        found = []
        for offset, size in sorted(places):  # the last part says where the file ends
            self._at = offset
            found.append((offset, memoryview(self.read(size))))
        return _Window(found)

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        offset_of_last, last = self._parts[-1]
        self._at = offset if whence == io.SEEK_SET else offset_of_last + len(last) + offset
        return self._at

    def read(self, size: int = -1) -> bytes:
        for offset, part in self._parts:
            begin = self._at - offset
            if 0 <= begin <= len(part):
                found = bytes(part[begin:] if size < 0 else part[begin : begin + size])
                self._at += len(found)
                return found
        raise OSError("this part of the object was not fetched")
