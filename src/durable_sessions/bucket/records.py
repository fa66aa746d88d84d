"""What a flush hands over: the appends of streams, as they were acknowledged."""

from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime
from typing import NamedTuple

DAY_MS = 24 * 3600 * 1000


class AppendRun(NamedTuple):
    """The records of one append. For JSON, ``data`` is ``value,value,`` and ``lengths`` has each value's
    length with its comma; for other types ``lengths`` is empty.
    """

    first: int
    at_ms: int
    lengths: tuple[int, ...]
    data: bytes

    @property
    def next(self) -> int:
        """The position after the last record."""
        return self.first + (len(self.lengths) or len(self.data))


class StreamRecords(NamedTuple):
    """Appends of one stream, in order of position."""

    stream: int
    workspace: str
    path: str
    content_type: str
    appends: list[AppendRun]


def with_replaced(run: AppendRun, replaced: Mapping[int, bytes]) -> AppendRun:
    """Return an append of JSON with other values in some positions; each value comes with its comma."""
    if not any(position in replaced for position in range(run.first, run.next)):
        return run
    pieces: list[bytes] = []
    end = 0
    for position, length in enumerate(run.lengths, run.first):
        begin, end = end, end + length
        pieces.append(replaced.get(position) or run.data[begin:end])
    return run._replace(lengths=tuple(map(len, pieces)), data=b"".join(pieces))


def split_by_date(records: Iterable[StreamRecords]) -> dict[date, list[StreamRecords]]:
    """Return the records of each day (UTC) on which they were appended, days in order.

    Where the clock went back, a stream's records of one day may have gaps.
    """
    days: dict[int, list[StreamRecords]] = {}
    for stream in records:
        parts: dict[int, list[AppendRun]] = {}
        for append in stream.appends:
            day = append.at_ms // DAY_MS
            if day in parts:
                parts[day].append(append)
            else:
                parts[day] = [append]
        for day, appends in parts.items():
            days.setdefault(day, []).append(stream._replace(appends=appends))
    return {datetime.fromtimestamp(day * DAY_MS / 1000, UTC).date(): days[day] for day in sorted(days)}
