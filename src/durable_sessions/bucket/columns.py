"""The columns of event segments, built from the acknowledged bytes without a copy per value."""

from array import array
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, groupby
from operator import attrgetter
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from durable_sessions.bucket.envelope import EnvelopeColumns, envelope_columns
from durable_sessions.bucket.records import AppendRun, StreamRecords

TIMESTAMP = pa.timestamp("ms", tz="UTC")

SCHEMA = pa.schema(
    [
        pa.field("workspace", pa.string(), nullable=False),
        pa.field("session", pa.string(), nullable=False),
        pa.field("position", pa.int64(), nullable=False),
        pa.field("id", pa.string()),
        pa.field("type", pa.string()),
        pa.field("name", pa.string()),
        pa.field("actor", pa.string()),
        pa.field("created_at", TIMESTAMP, nullable=False),
        pa.field("body", pa.string()),
        pa.field("data", pa.binary()),
        pa.field("content_type", pa.string(), nullable=False),
        pa.field("stream", pa.int64(), nullable=False),
        pa.field("append", pa.int64(), nullable=False),
    ]
)

DICTIONARY_COLUMNS = ["workspace", "session", "type", "name", "actor", "content_type"]
DELTA_COLUMNS = ["position", "created_at", "stream", "append"]
STATISTICS_COLUMNS = [field.name for field in SCHEMA if field.name not in ("body", "data")]


class RowRun(NamedTuple):
    """Rows of one stream that follow each other in a row group, all JSON or none.

    A part is an append or some of its messages; the append begins at the position in ``starts``
    and the part has as many rows as ``counts`` says.
    """

    records: StreamRecords
    json: bool
    parts: list[AppendRun]
    starts: list[int]
    counts: list[int]
    rows: int


def events_table(runs: Sequence[RowRun]) -> pa.Table:
    """Return the rows of one row group."""
    rows = [run.rows for run in runs]
    records = [run.records for run in runs]
    parts = list(chain.from_iterable([run.parts for run in runs]))
    counts = list(chain.from_iterable([run.counts for run in runs]))
    starts = list(chain.from_iterable([run.starts for run in runs]))
    kinds = [(json, list(same)) for json, same in groupby(runs, attrgetter("json"))]
    wires = [_wire(same) if json else None for json, same in kinds]
    kind_rows = [sum([run.rows for run in same]) for _, same in kinds]
    envelope = _envelopes(wires, kind_rows)
    arrays = [
        _repeated([r.workspace for r in records], rows, pa.string()),
        _repeated([r.path for r in records], rows, pa.string()),
        _positions(runs),
        pa.array(envelope.id, pa.string()),
        pa.array(envelope.type, pa.string()),
        pa.array(envelope.name, pa.string()),
        pa.array(envelope.actor, pa.string()),
        _repeated([part.at_ms for part in parts], counts, pa.int64()).view(TIMESTAMP),
        _concatenated([_body(wire, n) for wire, n in zip(wires, kind_rows, strict=True)]),
        _concatenated([_data(same, n) for (_, same), n in zip(kinds, kind_rows, strict=True)]),
        _repeated([r.content_type for r in records], rows, pa.string()),
        _repeated([r.stream for r in records], rows, pa.int64()),
        _repeated(starts, counts, pa.int64()),
    ]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


_Wire = tuple[bytes, Sequence[int]]
"""Messages as ``value,value,`` and the length of each with its comma."""


def _wire(runs: Sequence[RowRun]) -> _Wire:
    parts = list(chain.from_iterable([run.parts for run in runs]))
    lengths = chain.from_iterable([part.lengths for part in parts])
    return b"".join([part.data for part in parts]), list(lengths)


def _body(wire: _Wire | None, count: int) -> pa.Array:
    if wire is None:
        return pa.nulls(count, pa.string())
    data, lengths = wire
    # The text was checked when it was appended, so it becomes a string column without a second check.
    return pc.binary_slice(_binary(data, lengths), 0, -1).view(pa.string())


def _data(runs: Sequence[RowRun], count: int) -> pa.Array:
    if runs[0].json:
        return pa.nulls(count, pa.binary())
    pieces = [part.data for run in runs for part in run.parts]
    return _binary(b"".join(pieces), map(len, pieces))


def _binary(data: bytes, lengths: Iterable[int]) -> pa.Array:
    offsets = array("i", accumulate(lengths, initial=0))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(offsets) - 1, buffers)


def _positions(runs: Sequence[RowRun]) -> pa.Array:
    positions = array("q")
    for run in runs:
        first = run.parts[0].first
        if run.json and run.parts[-1].next == first + run.rows:
            positions.extend(range(first, first + run.rows))
        else:
            for part in run.parts:
                positions.extend(range(part.first, part.first + (len(part.lengths) or 1)))
    return pa.Array.from_buffers(pa.int64(), len(positions), [None, pa.py_buffer(positions)])


def _repeated(values: Sequence[str | int], counts: list[int], kind: pa.DataType) -> pa.Array:
    array_of_values = pa.array(values, kind)
    if sum(counts) == len(values):
        return array_of_values
    ends = pa.array(accumulate(counts), pa.int32())
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(ends, array_of_values))


def _concatenated(arrays: list[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _envelopes(wires: list[_Wire | None], counts: list[int]) -> EnvelopeColumns:
    columns = EnvelopeColumns([], [], [], [])
    for wire, count in zip(wires, counts, strict=True):
        found: Sequence[Sequence[str | None]] = (
            [[None] * count] * len(columns) if wire is None else envelope_columns(*wire)
        )
        for column, values in zip(columns, found, strict=True):
            column.extend(values)
    return columns
