"""Which streams may be due to expire: a heap that is corrected when it is read."""

import heapq
from collections.abc import Iterator

from durable_sessions.streams.stream import Stream

_STALE_MIN = 64


class ExpiryQueue:
    """Streams by the earliest time at which they can expire; later access moves that lazily.

    A stream has one entry, however often it is used. What was removed leaves at once, and its entry when
    there are more of these than others.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int]] = []
        self._streams: dict[int, Stream] = {}

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, stream: Stream) -> None:
        """Watch a stream if it can expire at all."""
        deadline = stream.deadline_ms()
        if deadline is not None and stream.id not in self._streams:
            self._streams[stream.id] = stream
            heapq.heappush(self._heap, (deadline, stream.id))

    def discard(self, number: int) -> None:
        """Watch a stream no longer: it was removed, or has left memory for the catalog."""
        if self._streams.pop(number, None) is None:
            return
        if len(self._heap) > 2 * len(self._streams) + _STALE_MIN:
            self._heap = [entry for entry in self._heap if entry[1] in self._streams]
            heapq.heapify(self._heap)

    def due(self, now_ms: int) -> Iterator[Stream | None]:
        """Yield the streams that have expired, forgotten by then; None for each that has not after all.

        Anything may happen between two of them.
        """
        while self._heap and self._heap[0][0] <= now_ms:
            stream = self._streams.pop(heapq.heappop(self._heap)[1], None)
            if stream is not None and not stream.expired(now_ms):
                self.add(stream)
                stream = None
            yield stream
