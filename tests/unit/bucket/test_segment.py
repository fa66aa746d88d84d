"""Event segments: what other programs see in them, and what is in their directory."""

import hashlib
import io
from datetime import UTC, date, datetime
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from durable_sessions.bucket import segment as segment_module
from durable_sessions.bucket.blocks import decode_footer
from durable_sessions.bucket.layout import events_path
from durable_sessions.bucket.records import StreamRecords, split_by_date
from durable_sessions.bucket.segment import EncodedSegment, encode_segment
from durable_sessions.partition_id import ONLY_PARTITION, PartitionId
from tests.unit.bucket.support import (
    NOON,
    PATH,
    events,
    json_append,
    json_stream,
    raw_append,
    raw_stream,
    streams,
)

DAY_MS = 24 * 3600 * 1000


def rows_of(records: list[StreamRecords]) -> list[dict[str, object]]:
    """Return the rows that a segment must have, worked out the slow way, without the envelope."""
    rows: list[dict[str, object]] = []
    for stream in sorted(records, key=lambda r: (r.workspace, r.path, r.stream)):
        for append in stream.appends:
            begin = 0
            for n, length in enumerate(append.lengths or (len(append.data),)):
                value = append.data[begin : begin + length]
                begin += length
                rows.append(
                    {
                        "workspace": stream.workspace,
                        "session": stream.path,
                        "position": append.first + n,
                        "created_at": datetime.fromtimestamp(append.at_ms / 1000, UTC),
                        "body": value[:-1].decode() if append.lengths else None,
                        "data": None if append.lengths else value,
                        "content_type": stream.content_type,
                        "stream": stream.stream,
                        "append": append.first,
                    }
                )
    return rows


def without_envelope(row: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in row.items() if name not in ("id", "type", "name", "actor")}


@settings(max_examples=150, deadline=None)
@given(streams(), st.integers(1, 400))
def test_every_row_is_there_in_order_byte_for_byte(records: list[StreamRecords], group_bytes: int) -> None:
    encoded = encode_segment(records, group_bytes=group_bytes)
    table = pq.read_table(io.BytesIO(encoded.data))
    assert [without_envelope(row) for row in table.to_pylist()] == rows_of(records)
    assert encoded.rows == table.num_rows


@settings(max_examples=100, deadline=None)
@given(streams(), st.integers(1, 400))
def test_the_directory_knows_every_row(records: list[StreamRecords], group_bytes: int) -> None:
    encoded = encode_segment(records, group_bytes=group_bytes)
    footer = decode_footer(encoded.data[encoded.footer_offset :])
    assert footer.directory.encode() == encoded.directory.encode()
    file = pq.ParquetFile(io.BytesIO(encoded.data))
    groups = [file.read_row_group(n).to_pylist() for n in range(file.num_row_groups)]
    assert [len(rows) for rows in groups] == [group.rows for group in footer.groups]
    by_number = {stream.stream: stream for stream in records}
    assert set(footer.directory.streams) == set(by_number)
    for number, stream in by_number.items():
        pieces = list(footer.directory.pieces(number))
        rows = [row for p in pieces for row in groups[p.group][p.row : p.row + p.rows]]
        assert {row["stream"] for row in rows} == {number}
        assert sum(piece.size for piece in pieces) == sum(len(append.data) for append in stream.appends)
        assert [row["append"] for row in rows] == [
            append.first for append in stream.appends for _ in append.lengths or (0,)
        ]
        assert footer.directory.runs(number) == [(stream.appends[0].first, stream.appends[-1].next)]
        for piece in pieces:
            assert piece.first == groups[piece.group][piece.row]["position"]
            assert piece.json == bool(stream.appends[0].lengths)


@settings(max_examples=50, deadline=None)
@given(streams(), st.integers(1, 400))
def test_the_digests_cover_everything_but_the_first_four_bytes(
    records: list[StreamRecords], group_bytes: int
) -> None:
    encoded = encode_segment(records, group_bytes=group_bytes)
    footer = decode_footer(encoded.data[encoded.footer_offset :])
    at = 4
    for group in footer.groups:
        assert group.offset == at
        at += group.bytes
        assert hashlib.sha256(encoded.data[group.offset : at]).hexdigest() == group.sha256
    assert at == encoded.footer_offset
    assert hashlib.sha256(encoded.data[at:]).hexdigest() == encoded.footer_sha256
    assert hashlib.sha256(encoded.data).hexdigest() == encoded.sha256


def metadata(encoded: EncodedSegment) -> pq.FileMetaData:
    return pq.read_metadata(io.BytesIO(encoded.data))


def test_row_groups_are_filled_but_not_beyond_their_size() -> None:
    encoded = encode_segment([json_stream(n, events(700, 200)) for n in range(1, 9)], group_bytes=100_000)
    footer = decode_footer(encoded.data[encoded.footer_offset :])
    sizes = [0] * len(footer.groups)
    for number in range(1, 9):
        for piece in footer.directory.pieces(number):
            sizes[piece.group] += piece.size
    assert max(sizes) <= 100_000
    assert min(sizes[:-1]) > 99_000


def test_a_large_append_is_cut_and_a_large_record_is_not() -> None:
    many = [b'"%d"' % n * 1 for n in range(10_000)]
    large = b'"' + b"x" * 50_000 + b'"'
    records = [
        json_stream(1, [many, [large], [b"1"]]),
        raw_stream(2, [b"y" * 50_000, b"z"]),
    ]
    encoded = encode_segment(records, group_bytes=10_000)
    footer = decode_footer(encoded.data[encoded.footer_offset :])
    assert [p.rows for p in footer.directory.pieces(1)][-2:] == [1, 1]
    assert [(p.first, p.next, p.rows) for p in footer.directory.pieces(2)] == [
        (0, 50_000, 1),
        (50_000, 50_001, 1),
    ]
    assert all(
        piece.size <= 10_000 or piece.rows == 1 for n in (1, 2) for piece in footer.directory.pieces(n)
    )
    assert [without_envelope(row) for row in pq.read_table(io.BytesIO(encoded.data)).to_pylist()] == rows_of(
        records
    )


def test_a_row_group_has_no_more_rows_than_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segment_module, "GROUP_ROWS_MAX", 100)
    encoded = encode_segment([json_stream(1, [[b"1"]] * 1_050), json_stream(2, [[b"1"] * 7] * 20)])
    footer = decode_footer(encoded.data[encoded.footer_offset :])
    assert max(group.rows for group in footer.groups) <= 100
    assert encoded.rows == 1_190


def test_gaps_and_empty_appends() -> None:
    appends = [
        *(json_append(5, b"1", b"2"), json_append(7, b"3"), json_append(7), json_append(20, b"4")),
        json_append(21, b"5"),
    ]
    stream = StreamRecords(3, "w", "p", "application/json", appends)
    encoded = encode_segment([stream, StreamRecords(4, "w", "empty", "text/plain", [raw_append(0, b"")])])
    directory = encoded.directory
    assert directory.runs(3) == [(5, 8), (20, 22)]
    assert directory.runs(4) == []
    assert list(directory.streams) == [3]
    assert [p.first for p in directory.pieces_from(3, 7)] == [5]
    for nowhere in (4, 8, 19, 22):
        assert list(directory.pieces_from(3, nowhere)) == []
    assert list(directory.pieces_from(99, 0)) == []


def test_what_the_manifest_is_told() -> None:
    info = encode_segment([json_stream(4, events(10)), raw_stream(9, [b"a", b"b"])]).info(PATH)
    assert (info.path, info.rows, info.streams, info.stream_min, info.stream_max) == (PATH, 12, 2, 4, 9)
    assert (info.first_at_ms, info.last_at_ms) == (NOON, NOON + 9)


@pytest.mark.parametrize(
    "records",
    [
        [],
        [StreamRecords(1, "w", "p", "t/x", [])],
        [json_stream(1, [[b"1"]]), json_stream(1, [[b"1"]])],
        [StreamRecords(1, "w", "p", "t/x", [json_append(5, b"1"), json_append(4, b"1")])],
        [StreamRecords(1, "w", "p", "t/x", [json_append(5, b"1", b"2"), json_append(6, b"1")])],
    ],
)
def test_records_that_make_no_sense_are_an_error_of_the_caller(records: list[StreamRecords]) -> None:
    with pytest.raises(AssertionError):
        encode_segment(records)


def test_the_file_is_compressed_has_statistics_and_a_page_index() -> None:
    found = metadata(encode_segment([json_stream(1, events(2_000)), raw_stream(2, [b"x" * 99])]))
    columns = {found.row_group(0).column(n).path_in_schema: found.row_group(0).column(n) for n in range(13)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert columns["session"].statistics.min == "files/f2"
    assert columns["position"].statistics.max == 1_999
    assert columns["type"].has_dictionary_page
    assert not columns["body"].is_stats_set
    assert all(columns[name].has_column_index for name in ("session", "position", "created_at", "type"))
    assert all(column.has_offset_index for column in columns.values())


def test_records_are_split_by_the_day_they_came() -> None:
    late = NOON + DAY_MS // 2
    appends = [
        json_append(0, b"0", at_ms=late - 1),
        json_append(1, b"1", at_ms=late),
        json_append(2, b"2", at_ms=late - 5),  # the clock went back
        json_append(3, b"3", at_ms=late + DAY_MS),
    ]
    stream = StreamRecords(1, "w", "p", "application/json", appends)
    days = split_by_date([stream, raw_stream(2, [b"x"])])
    assert {day: [r.stream for r in records] for day, records in days.items()} == {
        date(2026, 11, 15): [1, 2],
        date(2026, 11, 16): [1],
        date(2026, 11, 17): [1],
    }
    assert [a.first for a in days[date(2026, 11, 15)][0].appends] == [0, 2]
    assert encode_segment(days[date(2026, 11, 15)]).directory.runs(1) == [(0, 1), (2, 3)]
    assert (
        events_path(date(2026, 1, 5), PartitionId(3, of=4), 42)
        == "events/date=2026-01-05/03-000000000042.parquet"
    )


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """Write two days of events as a flush does."""
    body = b'{"id":"e1","type":"user.message","name":"x","actor":"me","n":1.50,"text":"h\xc3\xa9"}'
    records = [
        StreamRecords(1, "main", "sessions/a", "application/json", [json_append(0, body, b"[1]")]),
        json_stream(2, events(500)),
        raw_stream(3, [b"\0\xff raw"]),
    ]
    for number, day in enumerate((date(2026, 11, 15), date(2026, 11, 16)), 1):
        file = tmp_path / events_path(day, ONLY_PARTITION, number)
        file.parent.mkdir(parents=True)
        file.write_bytes(encode_segment(records, group_bytes=10_000).data)
    return tmp_path


def test_duckdb_reads_a_plain_glob_with_the_right_types(written: Path) -> None:
    source = f"'{written}/events/**/*.parquet'"
    database = duckdb.connect()
    types = {row[0]: row[1] for row in database.sql(f"describe select * from {source}").fetchall()}
    assert types == {
        **dict.fromkeys(["workspace", "session", "id", "type", "name", "actor", "body"], "VARCHAR"),
        **dict.fromkeys(["position", "stream", "append"], "BIGINT"),
        "created_at": "TIMESTAMP WITH TIME ZONE",
        "data": "BLOB",
        "content_type": "VARCHAR",
        "date": "DATE",
    }
    counts = database.sql(f"select type, count(*) from {source} group by 1 order by 1").fetchall()
    assert counts == [("t0", 334), ("t1", 334), ("t2", 332), ("user.message", 2), (None, 4)]
    found = database.sql(
        f"select id, body, data, epoch_ms(created_at) from {source}"
        " where stream in (1, 3) and date = '2026-11-16'"
    ).fetchall()
    assert found == [
        (None, None, b"\0\xff raw", NOON),
        ("e1", '{"id":"e1","type":"user.message","name":"x","actor":"me","n":1.50,"text":"hé"}', None, NOON),
        (None, "[1]", None, NOON),
    ]
    newest = database.sql(f"select max(position) from {source} where session = 'sessions/s2'").fetchall()
    assert newest == [(499,)]


def test_pyarrow_reads_a_directory_with_the_right_types(written: Path) -> None:
    table = pq.read_table(written / "events")
    types = {field.name: field.type for field in table.schema}
    assert types.pop("date") in (pa.string(), pa.dictionary(pa.int32(), pa.string()))
    assert types["created_at"] == pa.timestamp("ms", tz="UTC")
    assert (types["body"], types["data"], types["stream"]) == (pa.string(), pa.binary(), pa.int64())
    assert table.num_rows == 1_006
    table.validate(full=True)
