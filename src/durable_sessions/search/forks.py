"""Which parts of deleted sessions can still be read through their forks."""

from heapq import heappop, heappush

from durable_sessions.streams.readonly import StreamRecord

_FAR = 2**62


class Forks:
    """All forks of sessions: their sources, and the position from which they have events of their own.

    A fork is younger than its source, so its number is greater.
    """

    def __init__(self) -> None:
        self._forks: dict[int, dict[int, int]] = {}
        self._parents: dict[int, int] = {}
        self._ends: dict[int, int] = {}  # of deleted streams: before which position they can be read

    def add(self, stream: StreamRecord) -> None:
        """Add a stream, if it is a fork or kept only for forks."""
        if stream.parent is not None:
            self._forks.setdefault(stream.parent, {})[stream.id] = stream.base
            self._parents[stream.id] = stream.parent
        if stream.soft_deleted and stream.id not in self._ends:
            self._ends[stream.id] = self._end(stream.id, _FAR)
        self._raise_above(stream.id)

    def remove(self, stream: StreamRecord) -> list[int]:
        """Note that a stream was deleted; return those of which less can be read now, itself included."""
        parent = self._parents.get(stream.id)
        if stream.forks:
            self._ends[stream.id] = self._end(stream.id, _FAR)
        else:
            self._forget(stream.id)
        return [stream.id, *self._lower(parent)]

    def visible_end(self, stream: int, tail: int) -> int:
        """Return before which position events of a stream can be read, by itself or through forks."""
        return min(tail, self._ends.get(stream, tail))

    def heir(self, stream: int, position: int) -> int | None:
        """Return the oldest session through which an event of a stream can be read, None if there is none."""
        candidates = [stream]
        while candidates:
            oldest = heappop(candidates)
            if oldest not in self._ends:
                return oldest
            if position < self._ends[oldest]:
                for fork, base in self._forks.get(oldest, {}).items():
                    if position < base:
                        heappush(candidates, fork)
        return None

    def _raise_above(self, stream: int) -> None:
        """Extend the deleted ancestors of a stream as far as it needs them."""
        while (parent := self._parents.get(stream)) is not None and parent in self._ends:
            needed = self._needed(stream, self._forks[parent][stream])
            if needed <= self._ends[parent]:
                break
            self._ends[parent] = needed
            stream = parent

    def _lower(self, stream: int | None) -> list[int]:
        """Shorten the deleted ancestors after a fork is gone; return those that end earlier now."""
        lowered = []
        while stream is not None and stream in self._ends:
            end = self._end(stream, self._ends[stream])
            if end == self._ends[stream]:
                break
            self._ends[stream] = end
            lowered.append(stream)
            stream = self._parents.get(stream)
        return lowered

    def _end(self, stream: int, enough: int) -> int:
        """Return up to where forks need a stream; the search stops once ``enough`` is reached."""
        end = 0
        for fork, base in self._forks.get(stream, {}).items():
            end = max(end, self._needed(fork, base))
            if end >= enough:
                break
        return end

    def _needed(self, fork: int, base: int) -> int:
        return min(base, self._ends.get(fork, base))

    def _forget(self, stream: int) -> None:
        self._ends.pop(stream, None)
        parent = self._parents.pop(stream, None)
        if parent is not None and parent in self._forks:
            self._forks[parent].pop(stream, None)
            if not self._forks[parent]:
                del self._forks[parent]
