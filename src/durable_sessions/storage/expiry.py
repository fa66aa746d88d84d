"""Streams by time of expiry: a heap whose entries are corrected lazily, when they come up."""

import heapq
from collections.abc import Iterator

from durable_sessions.streams.stream import Stream

_STALE_MIN = 64


class ExpiryQueue:
    """Streams by the earliest time at which they can expire; later access moves that lazily.

    A stream has one entry, however often it is accessed. A removed stream is released at once; its entry
    stays in the heap until stale entries outnumber the others.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._streams: dict[int, Stream] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, stream: Stream) -> None:
        """Add a stream if it can expire at all."""
        deadline = stream.deadline_ms()
        if deadline is not None and stream.id not in self._streams:
            self._streams[stream.id] = stream
            heapq.heappush(self._heap, (deadline, stream.id))

    def discard(self, number: int) -> None:
        """Remove a stream: it was deleted, or evicted, and then the catalog knows when it expires."""
        if self._streams.pop(number, None) is None:
            return
        if len(self._heap) > 2 * len(self._streams) + _STALE_MIN:
            self._heap = [entry for entry in self._heap if entry[1] in self._streams]
            heapq.heapify(self._heap)

    def due(self, now_ms: int) -> Iterator[Stream | None]:
        """Yield and remove the streams that have expired; yield None for each entry that was out of date.

        The queue may change between two of them.
        """
        while self._heap and self._heap[0][0] <= now_ms:
            stream = self._streams.pop(heapq.heappop(self._heap)[1], None)
            if stream is not None and not stream.expired(now_ms):
                self.add(stream)
                stream = None
            yield stream
