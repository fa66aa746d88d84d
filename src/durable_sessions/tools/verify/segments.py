"""Checks an event segment: the object, its footer, each row group, and the rows against the directory."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from durable_sessions.bucket.blocks import Footer, decode_footer
from durable_sessions.bucket.directory import Directory, Piece
from durable_sessions.bucket.fetch import digest
from durable_sessions.bucket.manifest import SegmentInfo
from durable_sessions.streams import content
from durable_sessions.tools.verify.findings import Findings

COLUMNS = [
    "stream",
    "position",
    "append",
    "workspace",
    "session",
    "content_type",
    "created_at",
    "body",
    "data",
]


class StreamIdentity(NamedTuple):
    """The properties of a stream according to its rows."""

    workspace: str
    path: str
    content_type: str


@dataclass(frozen=True, slots=True)
class CheckedSegment:
    """A segment and which parts of it are intact; without a directory none are."""

    info: SegmentInfo
    directory: Directory | None
    names: dict[int, StreamIdentity]
    bad_groups: frozenset[int]
    intact: bool

    def good_runs(self, stream: int) -> list[tuple[int, int]]:
        """Return first and next position of each intact run of a stream's records, without gaps."""
        runs: list[tuple[int, int]] = []
        for piece in () if self.directory is None else self.directory.pieces(stream):
            if piece.group in self.bad_groups:
                continue
            if runs and runs[-1][1] == piece.first:
                runs[-1] = runs[-1][0], piece.next
            else:
                runs.append((piece.first, piece.next))
        return runs


def check_segment(info: SegmentInfo, data: bytes | None, findings: Findings) -> CheckedSegment:
    """Check a segment's bytes (None if unreadable) against the manifest; slow, so run it in a thread."""
    findings.checked["segments"] += 1
    before = len(findings.problems)
    footer = None
    if data is not None:
        if len(data) != info.bytes:
            findings.add(
                info.path, f"it has {len(data)} bytes, not {info.bytes}", byte=min(len(data), info.bytes)
            )
        footer = _footer(info, data, findings)
    if data is None or footer is None:
        return CheckedSegment(info, None, {}, frozenset(), intact=False)
    names: dict[int, StreamIdentity] = {}
    bad_groups = frozenset(_bad_groups(info.path, data, footer, names, findings))
    _check_counts(info, footer, findings)
    # Footer and row groups have digests of their own, which say where the damage is. What no digest but that
    # of the whole covers are the first bytes of the file.
    if len(findings.problems) == before and digest(data) != info.sha256:
        findings.add(info.path, "its first bytes have changed", byte=0)
    intact = len(findings.problems) == before
    return CheckedSegment(info, footer.directory, names, bad_groups, intact)


def _footer(info: SegmentInfo, data: bytes, findings: Findings) -> Footer | None:
    region = data[info.footer_offset :]
    if digest(region) != info.footer_sha256:
        problem = f"the footer (bytes {info.footer_offset} to {info.bytes}) has changed"
        findings.add(info.path, problem, byte=info.footer_offset)
        return None
    try:
        return decode_footer(region)
    except (ValueError, IndexError) as error:
        problem = f"the footer cannot be decoded: {error}"
        findings.add(info.path, problem, byte=info.footer_offset, mendable=False)
        return None


def _check_counts(info: SegmentInfo, footer: Footer, findings: Findings) -> None:
    streams = list(footer.directory.streams)
    found = (sum(group.rows for group in footer.groups), len(streams), min(streams), max(streams))
    if found != (info.rows, info.streams, info.stream_min, info.stream_max):
        findings.add(
            info.path,
            "the manifest says {} rows, {} streams from {} to {}; the footer {}, {}, {}, {}".format(
                info.rows, info.streams, info.stream_min, info.stream_max, *found
            ),
            mendable=False,
        )


def _bad_groups(
    path: str, data: bytes, footer: Footer, names: dict[int, StreamIdentity], findings: Findings
) -> Iterator[int]:
    file = pq.ParquetFile(pa.BufferReader(data))
    pieces: dict[int, list[Piece]] = {}
    for stream in footer.directory.streams:
        for piece in footer.directory.pieces(stream):
            pieces.setdefault(piece.group, []).append(piece)
    first_row = 0
    for number, group in enumerate(footer.groups):
        findings.checked["row groups"] += 1
        findings.checked["rows"] += group.rows
        place = f"row group {number} (bytes {group.offset} to {group.offset + group.bytes})"
        if digest(data[group.offset : group.offset + group.bytes]) != group.sha256:
            findings.add(path, f"{place} has changed", byte=group.offset, row=first_row)
            yield number
        else:
            try:
                table = file.read_row_group(number, columns=COLUMNS, use_threads=False)
                table.validate(full=True)
                _check_rows(table, pieces.get(number, []), names)
            except _RowError as error:
                findings.add(path, str(error), byte=group.offset, row=first_row + error.row, mendable=False)
                yield number
            except (pa.ArrowException, OSError, ValueError) as error:
                problem = f"{place} cannot be decoded: {error}"
                findings.add(path, problem, byte=group.offset, row=first_row, mendable=False)
                yield number
        first_row += group.rows


class _RowError(Exception):
    """A row contradicts the directory."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(problem)
        self.row = row


def _check_rows(table: pa.Table, pieces: list[Piece], names: dict[int, StreamIdentity]) -> None:
    """Compare the rows of one row group with the directory."""
    row = 0
    for piece in sorted(pieces, key=lambda piece: piece.row):
        if piece.row != row:
            raise _RowError(row, f"the directory continues with row {piece.row} of the row group")
        row += piece.rows
        if row > table.num_rows:
            break
        _check_piece(table.slice(piece.row, piece.rows), piece, names)
    if row != table.num_rows:
        raise _RowError(min(row, table.num_rows), f"the directory knows {row} rows, not {table.num_rows}")


def _check_piece(rows: pa.Table, piece: Piece, names: dict[int, StreamIdentity]) -> None:
    numbers = rows.column("stream").unique().to_pylist()
    if numbers != [piece.stream]:
        raise _RowError(piece.row, f"the directory says stream {piece.stream}, the rows {numbers}")
    named = [rows.column(name).unique().to_pylist() for name in ("workspace", "session", "content_type")]
    if any(len(values) != 1 for values in named):
        raise _RowError(piece.row, f"stream {piece.stream} has several names or content types")
    found = StreamIdentity(*(values[0] for values in named))
    if names.setdefault(piece.stream, found) != found:
        raise _RowError(piece.row, f"stream {piece.stream} has several names or content types")
    if content.is_json(found.content_type) != piece.json:
        raise _RowError(piece.row, f"the directory and the content type {found.content_type} disagree")
    filled, empty = ("body", "data") if piece.json else ("data", "body")
    if rows.column(filled).null_count or rows.column(empty).null_count != piece.rows:
        raise _RowError(piece.row, f"a row has no {filled}, or {empty} too")
    lengths = pc.binary_length(rows.column(filled).combine_chunks()).to_pylist()
    # On the wire each JSON value is followed by a comma, which is not stored.
    size = sum(lengths) + (piece.rows if piece.json else 0)
    if size != piece.size:
        raise _RowError(piece.row, f"the directory says {piece.size} bytes, the rows have {size}")
    expected = piece.first
    positions, starts = rows.column("position").to_pylist(), rows.column("append").to_pylist()
    for at, (position, start, length) in enumerate(zip(positions, starts, lengths, strict=True)):
        if position != expected or start > position:
            problem = f"position {position} of stream {piece.stream}, where {expected} is expected"
            raise _RowError(piece.row + at, problem)
        # Positions count messages in JSON streams, and bytes in all others.
        expected += 1 if piece.json else length
    if expected != piece.next:
        raise _RowError(piece.row, f"the directory says that the rows end at {piece.next}, not {expected}")
