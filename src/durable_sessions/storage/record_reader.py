"""Reads records from wherever they are: memory, the log, or the bucket."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import google_crc32c

from durable_sessions.errors import ColdReadError, LogError, StreamNotFoundError
from durable_sessions.log import Extent, Log
from durable_sessions.storage import batch
from durable_sessions.storage.door import Slice
from durable_sessions.storage.durable_stream import DurableStream
from durable_sessions.storage.published import PublishedStreams
from durable_sessions.streams.effects import RecordsAppended
from durable_sessions.streams.overlay import Overlay, shown_to


class _HotPart(NamedTuple):
    """Records found in memory; ``cold`` says that more are wanted, which are not in memory."""

    pieces: list[memoryview]
    next: int
    cold: bool


class _ColdPart(NamedTuple):
    """Records that were read from log or bucket; ``full`` says that the next one would not have fitted."""

    pieces: list[memoryview]
    next: int
    full: bool = False


class FlushedRecords(Protocol):
    """Records in the bucket."""

    async def read(
        self, stream: int, start: int, stop: int, bytes_max: int
    ) -> tuple[list[memoryview], int, bool]:
        """Return records from ``start`` up to ``stop``, at least one, and the position after them.

        Also whether it ends there because the next record would not have fitted.
        """
        ...

    async def append_end(self, stream: int, position: int) -> int:
        """Return where the append that contains a position ends."""
        ...


class Reader:
    """Reads records across fork chains and tiers, as if they were in one place."""

    def __init__(self, published: PublishedStreams, log: Log, flushed: FlushedRecords) -> None:
        self._published = published
        self._log = log
        self._flushed = flushed
        self.log_reads = 0
        self.bucket_reads = 0

    def owner(self, durable: DurableStream, position: int) -> tuple[DurableStream, int]:
        """Return the stream of the fork chain that contains a position, and where its part ends."""
        holder, stop, _ = self._owner(durable, position)
        return holder, stop

    def erasures(self, durable: DurableStream) -> int:
        """Return how many records were erased of a stream and of all that it inherits from."""
        count, holder = durable.erasures, durable
        while holder.stream.parent is not None:
            holder = self._parent(holder, durable)
            count += holder.erasures
        return count

    def _owner(self, durable: DurableStream, position: int) -> tuple[DurableStream, int, int | None]:
        """Return the stream that contains a position, where its part ends, and its fork in this chain."""
        holder, stop, fork = durable, durable.tail, None
        while position < holder.stream.base:
            stop, fork = min(stop, holder.stream.base), holder.stream.id
            holder = self._parent(holder, durable)
        return holder, stop, fork

    def _parent(self, holder: DurableStream, reader: DurableStream) -> DurableStream:
        assert holder.stream.parent is not None
        parent = self._published.get_id(holder.stream.parent)
        if parent is None:  # a source is kept while it has forks, so this fork was just removed
            raise StreamNotFoundError(path=reader.stream.key.path)
        return parent

    def read_hot(
        self, durable: DurableStream, start: int, bytes_max: int, stop: int | None = None
    ) -> tuple[list[memoryview], int] | None:
        """Return records from ``start`` and the position after them, if all of them are in memory.

        The memoryviews are not copies: release them before the next append, whose buffer they pin.
        """
        found = self._hot_part(durable, start, bytes_max, stop)
        return None if found.cold else (found.pieces, found.next)

    async def read(
        self, durable: DurableStream, start: int, bytes_max: int, stop: int | None = None
    ) -> Slice:
        """Return records from ``start`` up to ``stop``, as many as fit, at least one if there are any."""
        pieces, following = await self.read_pieces(durable, start, bytes_max, stop)
        return Slice(b"".join(pieces), start, following)

    async def read_pieces(
        self, durable: DurableStream, start: int, bytes_max: int, stop: int | None = None
    ) -> tuple[list[memoryview], int]:
        """Return the same in pieces that can be kept, and the position after them."""
        pieces: list[memoryview] = []
        position, full = start, False
        while position < _end(durable, stop) and not full and (bytes_max > 0 or not pieces):
            hot = self._hot_part(durable, position, bytes_max, stop)
            if hot.pieces:
                # Copied, because a view would pin the buffer while this waits for the next part.
                found, following = [memoryview(b"".join(hot.pieces))], hot.next
            else:
                found, following, full = await self._read_cold(durable, position, bytes_max, stop)
            size = sum(map(len, found))
            if pieces and size > bytes_max:
                break  # the next record does not fit
            pieces += found
            bytes_max -= size
            position = following
        return pieces, position

    def _hot_part(self, durable: DurableStream, start: int, bytes_max: int, stop: int | None) -> "_HotPart":
        """Return the records from ``start`` on that are in memory, up to the first gap."""
        pieces: list[memoryview] = []
        position, end = start, _end(durable, stop)
        while position < end and (bytes_max > 0 or not pieces):
            owner, part_end = self.owner(durable, position)
            if not owner.hot.holds(position):
                return _HotPart(pieces, position, cold=True)
            found, position = owner.hot.cut(position, min(part_end, end), bytes_max)
            pieces += found
            bytes_max -= sum(map(len, found))
            if position < part_end:
                break
        return _HotPart(pieces, position, cold=False)

    async def _read_cold(
        self, durable: DurableStream, start: int, bytes_max: int, stop: int | None
    ) -> _ColdPart:
        owner, part_end, fork = self._owner(durable, start)
        end = min(part_end, _end(durable, stop))
        while True:
            overlay, erasures = owner.overlay, owner.erasures
            if overlay:
                erased = shown_to(overlay.get(start), fork)
                if erased is not None:
                    return _ColdPart([memoryview(erased.data)], start + 1)
                end = _first_erased(overlay, start, end, fork)
            found = await self._read_stored(owner, start, end, bytes_max)
            # What was erased, or settled, during the wait for log or bucket may be in what was found.
            if owner.overlay is overlay and owner.erasures == erasures:
                return found

    async def _read_stored(self, owner: DurableStream, start: int, end: int, bytes_max: int) -> _ColdPart:
        """Return records of one stream as log or bucket have them; the caller knows which are erased."""
        if start >= owner.flushed:
            try:
                return _ColdPart(*await self._read_log(owner, start, end, bytes_max))
            except LogError as error:
                if start >= owner.flushed:  # otherwise a flush has just trimmed it from the log: look again
                    raise ColdReadError(reason=str(error)) from error
        self.bucket_reads += 1
        # Only up to ``flushed``: later records are not in the bucket, and the caller's next round reads them.
        stop = min(end, owner.flushed)
        return _ColdPart(*await self._flushed.read(owner.stream.id, start, stop, bytes_max))

    async def append_end(self, durable: DurableStream, position: int) -> int | None:
        """Return where the append that contains a position ends; None if no durable append does."""
        if position >= durable.tail:
            return None
        owner, stop = self.owner(durable, position)
        if position >= owner.flushed:
            return min(owner.index.append_end(position, owner.tail), stop)
        return min(await self._flushed.append_end(owner.stream.id, position), stop)

    async def _read_log(
        self, owner: DurableStream, start: int, stop: int, bytes_max: int
    ) -> tuple[list[memoryview], int]:
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


def _first_erased(overlay: Overlay, start: int, end: int, fork: int | None) -> int:
    """Return where the first record is that is read as something else; ``end`` if there is none before it."""
    at = overlay.first_in(start, end)
    while at is not None and shown_to(overlay.get(at), fork) is None:
        at = overlay.first_in(at + 1, end)
    return end if at is None else at


def _end(durable: DurableStream, stop: int | None) -> int:
    return durable.tail if stop is None else min(stop, durable.tail)


def _slice_of(
    found: list[bytes], checksums: list[int], start: int, stop: int, bytes_max: int
) -> tuple[list[memoryview], int]:
    """Return the records from ``start`` up to ``stop`` of appends that were read from the log."""
    pieces: list[memoryview] = []
    position = start
    for encoded, checksum in zip(found, checksums, strict=True):
        if google_crc32c.value(encoded) != checksum:
            raise ColdReadError(reason="the bytes in the log have changed since they were written")
        effect = batch.decode_one(encoded)
        assert isinstance(effect, RecordsAppended)
        skip, take = position - effect.first, min(effect.next, stop) - effect.first
        if effect.lengths:
            take, size = _fitting(effect.lengths, skip, take, bytes_max)
            if pieces and size > bytes_max:
                break  # the next record does not fit
            begin = sum(effect.lengths[:skip])
            piece = memoryview(effect.data)[begin : begin + size]
        else:
            take = min(take, skip + max(bytes_max, 1))
            piece = memoryview(effect.data)[skip:take]
        pieces.append(piece)
        bytes_max -= len(piece)
        position = effect.first + take
        if position >= stop or bytes_max <= 0 or position < effect.next:
            break
    return pieces, position


def _fitting(lengths: Sequence[int], skip: int, take: int, bytes_max: int) -> tuple[int, int]:
    """Return how many records of an append fit, at least one, and their total size."""
    size = lengths[skip]
    for at in range(skip + 1, take):
        if size + lengths[at] > bytes_max:
            return at, size
        size += lengths[at]
    return take, size
