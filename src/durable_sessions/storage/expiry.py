"""Which streams may be due to expire: a heap that is corrected when it is read."""

import heapq

from durable_sessions.streams.stream import Stream


class ExpiryQueue:
    """Streams by the earliest time at which they can expire; later access moves that lazily."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Stream]] = []

    def add(self, stream: Stream) -> None:
        """Watch a stream if it can expire at all."""
        deadline = stream.deadline_ms()
        if deadline is not None:
            heapq.heappush(self._heap, (deadline, stream.id, stream))

    def due(self, now_ms: int) -> list[Stream]:
        """Return the streams that have expired, and forget them."""
        expired = []
        while self._heap and self._heap[0][0] <= now_ms:
            stream = heapq.heappop(self._heap)[2]
            if stream.expired(now_ms):
                expired.append(stream)
            else:
                self.add(stream)
        return expired
