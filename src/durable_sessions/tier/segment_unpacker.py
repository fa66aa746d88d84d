"""Reads a whole segment back into the appends that it holds."""

import sys
from collections.abc import Collection

from durable_sessions.bucket.blocks import DecodedRowGroup, Footer, decode_block, decode_footer
from durable_sessions.bucket.directory import Piece
from durable_sessions.bucket.fetch import fetch_object
from durable_sessions.bucket.manifest import SegmentInfo
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.records import AppendRun
from durable_sessions.errors import ObjectDamagedError
from durable_sessions.threads import CPU

Runs = dict[int, list[AppendRun]]
"""Appends of streams by number, in order of position."""


class WholeSegment:
    """A segment in memory, verified."""

    def __init__(self, path: str, data: bytes, footer: Footer) -> None:
        self._path = path
        self._data = data
        self._footer = footer

    @classmethod
    async def fetch(cls, bucket: ObjectStore, info: SegmentInfo) -> "WholeSegment":
        """Fetch a segment with one request."""
        data = await fetch_object(bucket, info.path, info.bytes, info.sha256)
        try:
            return cls(info.path, data, await CPU.run(decode_footer, data[info.footer_offset :]))
        except ValueError as error:
            raise ObjectDamagedError(path=info.path, problem=str(error)) from error

    @property
    def streams(self) -> Collection[int]:
        """The numbers of the streams in the segment."""
        return list(self._footer.directory.streams)

    def appends(self, streams: Collection[int]) -> Runs:
        """Return the appends of some streams as they were made; slow, so not for the event loop."""
        try:
            return self._appends(streams)
        except (ValueError, IndexError) as error:
            raise ObjectDamagedError(path=self._path, problem=str(error)) from error

    def _appends(self, streams: Collection[int]) -> Runs:
        runs: Runs = {}
        group, block = -1, None
        for stream in self._footer.directory.streams:  # in row order, so each row group is decoded once
            if stream not in streams:
                continue
            parts: list[tuple[int, AppendRun]] = []
            for piece in self._footer.directory.pieces(stream):
                if block is None or piece.group != group:
                    group, block = piece.group, self._block(piece)
                parts += block.appends(piece, 0, sys.maxsize)
            runs[stream] = _joined(parts)
        return runs

    def _block(self, piece: Piece) -> DecodedRowGroup:
        place = self._footer.groups[piece.group]
        return decode_block(self._footer, piece.group, self._data[place.offset : place.offset + place.bytes])


def _joined(parts: list[tuple[int, AppendRun]]) -> list[AppendRun]:
    """Join the parts of appends that are split over row groups: they share the append's first position."""
    runs: list[AppendRun] = []
    begun = -1
    for begins, part in parts:
        if runs and begins == begun:
            last = runs[-1]
            runs[-1] = last._replace(lengths=last.lengths + part.lengths, data=last.data + part.data)
        else:
            runs.append(part)
        begun = begins
    return runs
