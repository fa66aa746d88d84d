"""Reading single runs of bytes back from segment files."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby

from durable_sessions.errors import LogError
from durable_sessions.log import Extent
from durable_sessions.log.disk import Disk, File
from durable_sessions.log.segment import PIECE_BYTES, Segment

GAP_BYTES_MAX = 16 * 1024
"""Extents this close are read together: reading through costs less than another system call."""


def read_extents(disk: Disk, segments: Sequence[Segment], extents: Sequence[Extent]) -> list[bytes]:
    """Return exactly the bytes of each extent; LogError if they are not all there and durable.

    Extents in the order of the log are read with few system calls; any order is allowed.
    """
    found: list[bytes] = []
    for index, group in groupby(extents, lambda extent: _segment_index(segments, extent)):
        segment = segments[index]
        try:
            # Opening a file costs 5 µs. A cache of open files would have to be kept in step with trim.
            with closing(disk.open(segment.path)) as file:
                for span in _spans(group):
                    found += _read_span(file, segment, span)
        except OSError as error:
            raise LogError(reason=f"{segment.path} cannot be read: {error}") from error
    return found


def _start(extent: Extent) -> int:
    return extent.position + extent.offset


def _segment_index(segments: Sequence[Segment], extent: Extent) -> int:
    assert min(extent) >= 0
    # The frame header lies between base and position, so the base is always the smaller one.
    index = bisect_left(segments, extent.position, key=lambda segment: segment.base) - 1
    if index < 0 or _start(extent) + extent.length > segments[index].end:
        raise LogError(reason=f"it does not hold {extent.length} bytes at {_start(extent)}")
    return index


def _spans(extents: Iterable[Extent]) -> Iterator[list[Extent]]:
    """Split extents into runs that lie close together."""
    span: list[Extent] = []
    for extent in extents:
        if span:
            gap = _start(extent) - _start(span[-1]) - span[-1].length
            length = _start(extent) + extent.length - _start(span[0])
            if not 0 <= gap <= GAP_BYTES_MAX or length > PIECE_BYTES:
                yield span
                span = []
        span.append(extent)
    yield span


def _read_span(file: File, segment: Segment, span: list[Extent]) -> list[bytes]:
    low, high = _start(span[0]), _start(span[-1]) + span[-1].length
    data = file.read(high - low, segment.offset(low))
    if len(data) != high - low:
        raise LogError(reason=f"{segment.path} is shorter than it was")
    starts = [_start(extent) - low for extent in span]
    return [data[start : start + extent.length] for start, extent in zip(starts, span, strict=True)]
