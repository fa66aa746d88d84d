"""A segment as plain values: its row groups, its directory, its rows."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from durable_sessions.bucket.blocks import decode_footer
from durable_sessions.bucket.fetch import digest
from durable_sessions.errors import ObjectDamagedError
from durable_sessions.tools.dump.log import Plain


def segment_items(path: str, data: bytes) -> Iterator[Plain]:
    """Yield the footer of a segment, then its directory, then its rows; damaged row groups are reported."""
    try:
        footer = decode_footer(data)
        file = pq.ParquetFile(pa.BufferReader(data))
    except (ValueError, IndexError, pa.ArrowException, OSError) as error:
        raise ObjectDamagedError(path=path, problem=f"its footer cannot be read ({error})") from error
    directory = footer.directory
    rows = sum(group.rows for group in footer.groups)
    yield {"segment": path, "bytes": len(data), "sha256": digest(data), "rows": rows}
    good = []
    for number, group in enumerate(footer.groups):
        intact = digest(data[group.offset : group.offset + group.bytes]) == group.sha256
        good += [number] if intact else []
        yield {"group": number, **group._asdict(), "damaged": not intact}
    for stream in directory.streams:
        for piece in directory.pieces(stream):
            yield {"piece": f"{piece.stream}:{piece.first}", **piece._asdict()}
    # Parquet checks no sums: a damaged group would be shown with wrong rows, or end the whole dump.
    for number in good:
        table = file.read_row_group(number, use_threads=False)
        for row, values in enumerate(table.to_pylist()):
            yield {"row": row, "group": number, **values}
