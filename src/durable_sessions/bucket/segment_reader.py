"""Reading event segments: only the row groups that are needed, every byte of them verified."""

from collections.abc import AsyncIterator, Callable, Coroutine
from typing import NamedTuple, TypeVar

from durable_sessions.bucket.blocks import DecodedRowGroup, Footer, decode_block, decode_footer
from durable_sessions.bucket.cache import BlockCache, BlockKey
from durable_sessions.bucket.directory import Directory, Piece
from durable_sessions.bucket.fetch import fetch_range
from durable_sessions.bucket.manifest import SegmentInfo
from durable_sessions.bucket.objects import ObjectStore
from durable_sessions.bucket.records import AppendRun
from durable_sessions.errors import ObjectDamagedError
from durable_sessions.threads import CPU

READS_AHEAD = 2
"""How many reads of the same size are prefetched: one is decoded while the one before it is sent."""
_FOOTER = -1
_Decoded = TypeVar("_Decoded")


class SegmentSlice(NamedTuple):
    """Consecutive records as wire bytes, in views of cached blocks, and the position after them.

    ``full`` says that the record that follows would not have fitted.
    """

    pieces: list[memoryview]
    next: int
    full: bool


class SegmentReader:
    """Reads one segment. The manifest's entry vouches for the footer, the footer for each row group."""

    def __init__(self, bucket: ObjectStore, info: SegmentInfo, cache: BlockCache) -> None:
        self.info = info
        self._bucket = bucket
        self._cache = cache

    async def directory(self) -> Directory:
        """Return which streams and positions the segment holds."""
        return (await self._footer()).directory

    async def read(self, stream: int, start: int, stop: int, bytes_max: int) -> SegmentSlice:
        """Return records of a stream from ``start``, before ``stop``: at least one, and what fits.

        The segment must hold ``start``. Fewer than fit come only where the segment leaves a gap or ends.
        """
        footer = await self._footer()
        # What is read now, and behind it what is prefetched below.
        pieces = self._pieces(footer, stream, start, stop, (1 + READS_AHEAD) * bytes_max)
        self._expect(footer, pieces, start, bytes_max)
        found: list[memoryview] = []
        position, left, full = start, bytes_max, False
        for piece in pieces:
            block = await self._block(footer, piece.group)
            views, following = block.cut(piece, position, stop, left)
            size = sum(map(len, views))
            if found and size > left:
                full = True
                break
            found += views
            position, left = following, left - size
            full = left <= 0 or position < min(piece.next, stop)
            if full or position >= stop:
                break
        # A sequential reader needs what follows next: load it while this answer is being sent.
        self._expect(footer, pieces, position, READS_AHEAD * bytes_max)
        return SegmentSlice(found, position, full)

    def _expect(self, footer: Footer, pieces: list[Piece], position: int, bytes_max: int) -> None:
        """Begin to load what this many bytes from ``position`` on are in, as far as can be told."""
        expected = 0
        for piece in pieces:
            if piece.next <= position:
                continue
            if expected >= bytes_max:
                break
            self._cache.prefetch(self._key(piece.group), self._loader(footer, piece.group))
            expected += piece.size * (piece.next - max(position, piece.first)) // (piece.next - piece.first)

    async def append_end(self, stream: int, position: int) -> int:
        """Return where the append that holds ``position`` ends; the segment must hold it."""
        footer = await self._footer()
        end = start = -1
        for piece in self._pieces(footer, stream, position):
            block = await self._block(footer, piece.group)
            if end < 0:
                end = block.append_end(piece, position)
                start = block.starts[piece.row + position - piece.first] if piece.json else -1
            elif piece.json and block.starts[piece.row] == start:
                end = block.append_end(piece, piece.first)
            else:
                break
            if end < piece.next:
                break
        return end

    async def appends(self, stream: int, start: int, stop: int) -> AsyncIterator[AppendRun]:
        """Yield the appends of a stream as they were made, in order, without what lies outside the range.

        The segment need not hold all of the range: what it has of it is given, also across gaps.
        """
        footer = await self._footer()
        begins = -1
        parts: list[AppendRun] = []
        for piece in footer.directory.pieces(stream):
            if piece.next <= start or piece.first >= stop:
                continue
            block = await self._block(footer, piece.group)
            for append_start, run in await CPU.run(block.appends, piece, start, stop):
                if parts and append_start != begins:
                    yield _joined(parts)
                    parts = []
                begins = append_start
                parts.append(run)
        if parts:
            yield _joined(parts)

    def _key(self, group: int) -> BlockKey:
        return self.info.sha256, group

    def _pieces(
        self, footer: Footer, stream: int, start: int, stop: int | None = None, bytes_max: int | None = None
    ) -> list[Piece]:
        """Return the piece that holds ``start`` and those that follow it, up to the bounds given."""
        pieces: list[Piece] = []
        size = 0
        for piece in footer.directory.pieces_from(stream, start):
            if (stop is not None and piece.first >= stop) or (bytes_max is not None and size > bytes_max):
                break
            size += piece.size if pieces else 0
            pieces.append(piece)
        if not pieces:
            raise ObjectDamagedError(
                path=self.info.path, problem=f"it does not hold position {start} of stream {stream}"
            )
        return pieces

    async def _footer(self) -> Footer:
        return await self._cache.get(self._key(_FOOTER), self._load_footer)

    async def _load_footer(self) -> Footer:
        info = self.info
        length = info.bytes - info.footer_offset
        return await self._decoded(info.footer_offset, length, info.footer_sha256, decode_footer)

    async def _block(self, footer: Footer, group: int) -> DecodedRowGroup:
        return await self._cache.get(self._key(group), self._loader(footer, group))

    def _loader(self, footer: Footer, group: int) -> Callable[[], Coroutine[None, None, DecodedRowGroup]]:
        async def load() -> DecodedRowGroup:
            place = footer.groups[group]
            return await self._decoded(
                place.offset, place.bytes, place.sha256, lambda data: decode_block(footer, group, data)
            )

        return load

    async def _decoded(
        self, start: int, length: int, sha256: str, decode: Callable[[bytes], _Decoded]
    ) -> _Decoded:
        path = self.info.path
        try:
            return await fetch_range(self._bucket, path, start, length, sha256, decode)
        except (ValueError, IndexError) as error:
            raise ObjectDamagedError(path=path, problem=str(error)) from error


def _joined(parts: list[AppendRun]) -> AppendRun:
    if len(parts) == 1:
        return parts[0]
    lengths = tuple([length for part in parts for length in part.lengths])
    return parts[0]._replace(lengths=lengths, data=b"".join([part.data for part in parts]))
