"""Event segments: appends of many streams as one Parquet object that is verified part by part."""

import io
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import attrgetter

import pyarrow.parquet as pq

from durable_sessions.bucket.columns import (
    DELTA_COLUMNS,
    DICTIONARY_COLUMNS,
    SCHEMA,
    STATISTICS_COLUMNS,
    RowRun,
    events_table,
)
from durable_sessions.bucket.directory import Directory, GroupInfo, Piece, encode_groups
from durable_sessions.bucket.fetch import digest
from durable_sessions.bucket.manifest import SegmentInfo
from durable_sessions.bucket.records import AppendRun, StreamRecords

VERSION = 1
GROUP_BYTES = 1024 * 1024
"""The record bytes of a row group; more only if a single record is larger."""
GROUP_ROWS_MAX = 65_536
"""The most rows of a row group, so that tiny records do not make one slow to decode."""
PAGE_BYTES = 2 * GROUP_BYTES
"""The bytes of a page: usually a whole column of a row group, which reads need whole anyway."""
COMPRESSION_LEVEL = 1

VERSION_KEY = "durable_sessions.segment_version"
GROUPS_KEY = "durable_sessions.row_groups"
DIRECTORY_KEY = "durable_sessions.directory"


@dataclass(frozen=True, slots=True)
class EncodedSegment:
    """The bytes of a segment and what the manifest has to say of them."""

    data: bytes
    directory: Directory
    rows: int
    sha256: str
    footer_offset: int
    footer_sha256: str
    first_at_ms: int
    last_at_ms: int

    def info(self, path: str) -> SegmentInfo:
        """Return the manifest's entry for the segment at this path."""
        streams = list(self.directory.streams)
        return SegmentInfo(
            path=path,
            bytes=len(self.data),
            rows=self.rows,
            sha256=self.sha256,
            footer_offset=self.footer_offset,
            footer_sha256=self.footer_sha256,
            first_at_ms=self.first_at_ms,
            last_at_ms=self.last_at_ms,
            streams=len(streams),
            stream_min=min(streams),
            stream_max=max(streams),
        )


def encode_segment(records: Iterable[StreamRecords], *, group_bytes: int = GROUP_BYTES) -> EncodedSegment:
    """Return the segment that holds these records, of which there must be some; slow, so run it in a thread.

    An append with neither messages nor bytes leaves no trace. Each stream comes once.
    """
    ordered = sorted(records, key=attrgetter("workspace", "path", "stream"))
    times = [append.at_ms for stream in ordered for append in stream.appends if append.data]
    assert times, "a segment holds at least one record"
    assert len({stream.stream for stream in ordered}) == len(ordered), "each stream comes once"
    sink = io.BytesIO()
    groups: list[GroupInfo] = []
    pieces: list[Piece] = []
    with pq.ParquetWriter(
        sink,
        SCHEMA,
        version="2.6",
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=DICTIONARY_COLUMNS,
        column_encoding=dict.fromkeys(DELTA_COLUMNS, "DELTA_BINARY_PACKED"),
        write_statistics=STATISTICS_COLUMNS,
        write_page_index=True,
        data_page_size=PAGE_BYTES,
        store_schema=False,
    ) as writer:
        begin = sink.tell()
        for runs in _row_groups(ordered, group_bytes):
            table = events_table(runs)
            writer.write_table(table, row_group_size=table.num_rows)
            pieces += _pieces(runs, len(groups))
            end = sink.tell()
            groups.append(GroupInfo(begin, end - begin, table.num_rows, digest(sink.getbuffer()[begin:end])))
            begin = end
        directory = Directory.of(pieces)
        writer.add_key_value_metadata(
            {
                VERSION_KEY: str(VERSION),
                GROUPS_KEY: encode_groups(groups),
                DIRECTORY_KEY: directory.encode(),
            }
        )
    data = sink.getvalue()
    return EncodedSegment(
        data=data,
        directory=directory,
        rows=sum(group.rows for group in groups),
        sha256=digest(data),
        footer_offset=begin,
        footer_sha256=digest(memoryview(data)[begin:]),
        first_at_ms=min(times),
        last_at_ms=max(times),
    )


def _row_groups(records: Iterable[StreamRecords], group_bytes: int) -> Iterator[list[RowRun]]:
    """Yield the runs of rows of each row group: as many as fit, at least one row."""
    runs: list[RowRun] = []
    bytes_left, rows_left = group_bytes, GROUP_ROWS_MAX
    for stream in records:
        for json, whole in _kinds([append for append in stream.appends if append.data]):
            # Large appends are cut into parts of a quarter of a row group, so that groups are filled well.
            # For each cut, binary search finds how many whole parts still fit, by bytes and by rows.
            parts, starts = _parts(whole, group_bytes // 4)
            counts = [len(part.lengths) or 1 for part in parts]
            sizes = list(accumulate([len(part.data) for part in parts], initial=0))
            rows = list(accumulate(counts, initial=0))
            begin = 0
            while begin < len(parts):
                end = min(
                    bisect_right(sizes, sizes[begin] + max(bytes_left, 0), begin) - 1,
                    bisect_right(rows, rows[begin] + rows_left, begin) - 1,
                )
                if end == begin and not runs:
                    end += 1  # a part that is larger than a whole group gets a group of its own
                if end > begin:
                    cut = slice(begin, end)
                    runs.append(
                        RowRun(stream, json, parts[cut], starts[cut], counts[cut], rows[end] - rows[begin])
                    )
                bytes_left -= sizes[end] - sizes[begin]
                rows_left -= rows[end] - rows[begin]
                begin = end
                if begin < len(parts):
                    yield runs
                    runs, bytes_left, rows_left = [], group_bytes, GROUP_ROWS_MAX
    if runs:
        yield runs


def _kinds(appends: list[AppendRun]) -> Iterable[tuple[bool, list[AppendRun]]]:
    """Return runs of appends that are all JSON or none; a stream has one, unless something is odd."""
    with_lengths = sum(map(bool, [append.lengths for append in appends]))
    if with_lengths in (0, len(appends)):
        return [(with_lengths > 0, appends)] if appends else []
    return [(json, list(whole)) for json, whole in groupby(appends, lambda one: bool(one.lengths))]


def _parts(appends: list[AppendRun], part_bytes: int) -> tuple[list[AppendRun], list[int]]:
    """Return the appends, those of many messages in parts, and where the append of each part begins."""
    if max([len(append.data) for append in appends]) <= part_bytes or not appends[0].lengths:
        return appends, [append.first for append in appends]
    parts: list[AppendRun] = []
    starts: list[int] = []
    for append in appends:
        ends = list(accumulate(append.lengths, initial=0))
        begin = 0
        while begin < len(append.lengths):
            end = max(bisect_right(ends, ends[begin] + part_bytes, begin) - 1, begin + 1)
            parts.append(
                AppendRun(
                    append.first + begin,
                    append.at_ms,
                    append.lengths[begin:end],
                    append.data[ends[begin] : ends[end]],
                )
            )
            starts.append(append.first)
            begin = end
    return parts, starts


def _pieces(runs: list[RowRun], group: int) -> Iterator[Piece]:
    """Yield the pieces of a row group: each run, cut where positions leave a gap."""
    row = 0
    for run in runs:
        begin = 0
        for end in _gaps(run):
            parts = run.parts[begin:end]
            rows = sum(run.counts[begin:end])
            size = sum([len(part.data) for part in parts])
            yield Piece(run.records.stream, parts[0].first, parts[-1].next, group, row, rows, size, run.json)
            row += rows
            begin = end


def _gaps(run: RowRun) -> Iterator[int]:
    """Yield the index of each part that does not begin where the one before it ends, and their number."""
    following = run.parts[0].first
    if run.json and run.parts[-1].next == following + run.rows:  # as in most: nothing is missing
        yield len(run.parts)
        return
    for at, part in enumerate(run.parts):
        if part.first != following:
            assert part.first > following, "appends come in order of position"
            yield at
        following = part.first + (len(part.lengths) or len(part.data))
    yield len(run.parts)
