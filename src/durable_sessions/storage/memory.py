"""The memory tier: recent records as wire bytes, within one budget for the whole process."""

from array import array
from bisect import bisect_right
from collections import OrderedDict

BLOCK_BYTES = 64 * 1024
_BLOCK_OVERHEAD_BYTES = 256


class Block:
    """A run of consecutive records; for JSON, ``ends`` says where each message ends."""

    __slots__ = ("data", "ends", "first")

    def __init__(self, first: int, *, json: bool) -> None:
        self.first = first
        self.data = bytearray()
        self.ends = array("I") if json else None

    @property
    def next(self) -> int:
        """The position after the last record."""
        return self.first + (len(self.data) if self.ends is None else len(self.ends))

    @property
    def cost(self) -> int:
        """The approximate memory that the block takes."""
        return len(self.data) + (0 if self.ends is None else 4 * len(self.ends)) + _BLOCK_OVERHEAD_BYTES

    def cut(self, start: int, stop: int, bytes_max: int) -> tuple[memoryview, int]:
        """Return records from ``start`` up to ``stop``, at least one, and the position after them.

        Release the view before the next append: a pinned buffer cannot be resized.
        """
        if self.ends is None:
            begin = start - self.first
            end = min(len(self.data), stop - self.first, begin + max(bytes_max, 1))
            return memoryview(self.data)[begin:end], self.first + end
        skip = start - self.first
        begin = self.ends[skip - 1] if skip else 0
        fitting = bisect_right(self.ends, begin + bytes_max, skip)
        count = min(max(fitting, skip + 1), stop - self.first)
        return memoryview(self.data)[begin : self.ends[count - 1]], self.first + count


class HotRecords:
    """The newest records of one stream; older ones are read from the log."""

    __slots__ = ("blocks", "json")

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self.blocks: list[Block] = []

    def append(self, first: int, data: bytes, lengths: tuple[int, ...]) -> int:
        """Add records and return how much memory they take."""
        took = len(data) + 4 * len(lengths)
        blocks = self.blocks
        if not blocks or len(blocks[-1].data) >= BLOCK_BYTES:
            blocks.append(Block(first, json=self.json))
            took += _BLOCK_OVERHEAD_BYTES
        block = blocks[-1]
        held, ends = block.data, block.ends
        if ends is not None:
            end = len(held)
            for length in lengths:
                end += length
                ends.append(end)
        held += data
        return took

    def holds(self, position: int) -> bool:
        """Say whether the record at this position is in memory (it must exist)."""
        return bool(self.blocks) and self.blocks[0].first <= position

    def cut(self, start: int, stop: int, bytes_max: int) -> tuple[list[memoryview], int]:
        """Return records from ``start`` up to ``stop``, at least one, and the position after them."""
        at = bisect_right(self.blocks, start, key=lambda block: block.first) - 1
        pieces: list[memoryview] = []
        position = start
        while position < stop and at < len(self.blocks) and (bytes_max > 0 or not pieces):
            piece, following = self.blocks[at].cut(position, stop, bytes_max)
            if pieces and len(piece) > bytes_max:
                break
            pieces.append(piece)
            bytes_max -= len(piece)
            if following < self.blocks[at].next:
                return pieces, following
            position = following
            at += 1
        return pieces, position


class MemoryTier:
    """Keeps all hot records within a budget; the least recently written streams are evicted first."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._recent: OrderedDict[int, HotRecords] = OrderedDict()
        self.bytes_used = 0

    def append(
        self, stream: int, records: HotRecords, first: int, data: bytes, lengths: tuple[int, ...]
    ) -> None:
        """Add durable records to a stream's hot ones, then evict if the budget is exceeded."""
        self.bytes_used += records.append(first, data, lengths)
        recent = self._recent
        recent[stream] = records
        recent.move_to_end(stream)
        while self.bytes_used > self._bytes_max:
            self._evict()

    def forget(self, stream: int) -> None:
        """Drop the records of a removed stream."""
        records = self._recent.pop(stream, None)
        if records is not None:
            self.bytes_used -= sum(block.cost for block in records.blocks)
            records.blocks.clear()

    def _evict(self) -> None:
        # Oldest block first: what is left of a stream is always its tail, which ``holds`` relies on and which
        # readers want next. ``cost`` is what appending counted, block by block, so the sum stays exact.
        stream, records = next(iter(self._recent.items()))
        self.bytes_used -= records.blocks.pop(0).cost
        if not records.blocks:
            del self._recent[stream]
