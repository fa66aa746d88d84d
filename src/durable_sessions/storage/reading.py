"""Reading records wherever they are: in memory, in the log, or in the bucket."""

from typing import NamedTuple, Protocol

import google_crc32c

from durable_sessions.errors import ColdReadError, LogError, StreamNotFoundError
from durable_sessions.log import Extent, Log
from durable_sessions.storage import batch
from durable_sessions.storage.durable import DurableStream
from durable_sessions.storage.published import PublishedStreams
from durable_sessions.streams.effects import Appended


class Slice(NamedTuple):
    """Consecutive records: their wire bytes, and the positions where they begin and end."""

    data: bytes
    first: int
    next: int


class _HotPart(NamedTuple):
    """Records found in memory; ``cold`` says that those behind them are wanted too but are not there."""

    pieces: list[memoryview]
    next: int
    cold: bool


class FlushedRecords(Protocol):
    """Records in the bucket."""

    async def read(self, stream: int, start: int, stop: int, bytes_max: int) -> tuple[bytes, int]:
        """Return records from ``start``, before ``stop``, at least one, and the position after them."""
        ...

    async def append_end(self, stream: int, position: int) -> int:
        """Return where the append that holds a position ends."""
        ...


class Reader:
    """Finds records through fork chains and tiers; a reader never notices a border."""

    def __init__(self, published: PublishedStreams, log: Log, flushed: FlushedRecords) -> None:
        self._published = published
        self._log = log
        self._flushed = flushed
        self.log_reads = 0
        self.bucket_reads = 0

    def owner(self, durable: DurableStream, position: int) -> tuple[DurableStream, int]:
        """Return the stream of the fork chain that holds a position, and where its part ends."""
        holder, stop = durable, durable.tail
        while position < holder.stream.base:
            assert holder.stream.parent is not None
            stop = min(stop, holder.stream.base)
            parent = self._published.get_id(holder.stream.parent)
            if parent is None:  # a source is kept as long as it has forks, so this one was removed meanwhile
                raise StreamNotFoundError(path=durable.stream.key.path)
            holder = parent
        return holder, stop

    def read_hot(self, durable: DurableStream, start: int, bytes_max: int) -> Slice | None:
        """Return records from ``start`` if all that are wanted are in memory, else None."""
        found = self._hot_part(durable, start, bytes_max)
        return None if found.cold else Slice(b"".join(found.pieces), start, found.next)

    async def read(self, durable: DurableStream, start: int, bytes_max: int) -> Slice:
        """Return records from ``start``, at least one if there are any, as many as fit."""
        pieces: list[bytes] = []
        position = start
        while position < durable.tail and (bytes_max > 0 or not pieces):
            hot = self._hot_part(durable, position, bytes_max)
            if hot.pieces:
                data, following = b"".join(hot.pieces), hot.next
            else:
                data, following = await self._read_cold(durable, position, bytes_max)
            if pieces and len(data) > bytes_max:
                break  # a single record that does not fit any more
            pieces.append(data)
            bytes_max -= len(data)
            position = following
        return Slice(b"".join(pieces), start, position)

    def _hot_part(self, durable: DurableStream, start: int, bytes_max: int) -> "_HotPart":
        """Return what of the wanted records is in memory without a gap from ``start`` on."""
        pieces: list[memoryview] = []
        position = start
        while position < durable.tail and (bytes_max > 0 or not pieces):
            owner, stop = self.owner(durable, position)
            if not owner.hot.holds(position):
                return _HotPart(pieces, position, cold=True)
            found, position = owner.hot.cut(position, stop, bytes_max)
            pieces += found
            bytes_max -= sum(map(len, found))
            if position < stop:
                break
        return _HotPart(pieces, position, cold=False)

    async def _read_cold(self, durable: DurableStream, start: int, bytes_max: int) -> tuple[bytes, int]:
        owner, stop = self.owner(durable, start)
        if start >= owner.flushed:
            try:
                return await self._read_log(owner, start, stop, bytes_max)
            except LogError as error:
                if start >= owner.flushed:  # else a flush has just taken it out of the log
                    raise ColdReadError(reason=str(error)) from error
        self.bucket_reads += 1
        return await self._flushed.read(owner.stream.id, start, min(stop, owner.flushed), bytes_max)

    async def append_end(self, durable: DurableStream, position: int) -> int | None:
        """Return where the append that holds a position ends; None if no durable append holds it."""
        if position >= durable.tail:
            return None
        owner, stop = self.owner(durable, position)
        if position >= owner.flushed:
            return min(owner.index.append_end(position, owner.tail), stop)
        return min(await self._flushed.append_end(owner.stream.id, position), stop)

    async def _read_log(
        self, owner: DurableStream, start: int, stop: int, bytes_max: int
    ) -> tuple[bytes, int]:
        extents: list[Extent] = []
        checksums: list[int] = []
        size = 0
        for extent, checksum in owner.index.extents(start):
            extents.append(extent)
            checksums.append(checksum)
            size += extent.length
            if size >= bytes_max:
                break
        self.log_reads += 1
        return _slice_of(await self._log.read(extents), checksums, start, stop, bytes_max)


def _slice_of(
    found: list[bytes], checksums: list[int], start: int, stop: int, bytes_max: int
) -> tuple[bytes, int]:
    """Return the records from ``start`` before ``stop`` out of appends read back from the log."""
    pieces: list[bytes] = []
    position = start
    for encoded, checksum in zip(found, checksums, strict=True):
        if google_crc32c.value(encoded) != checksum:
            raise ColdReadError(reason="the bytes in the log have changed since they were written")
        effect = batch.decode_one(encoded)
        assert isinstance(effect, Appended)
        skip, take = position - effect.first, min(effect.next, stop) - effect.first
        if effect.lengths:
            begin = sum(effect.lengths[:skip])
            piece = effect.data[begin : begin + sum(effect.lengths[skip:take])]
        else:
            take = min(take, skip + max(bytes_max, 1))
            piece = effect.data[skip:take]
        pieces.append(piece)
        bytes_max -= len(piece)
        position = effect.first + take
        if position >= stop or bytes_max <= 0:
            break
    return b"".join(pieces), position
