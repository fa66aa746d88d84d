"""Which parts of deleted sessions live on in their forks."""

from durable_sessions.streams.stream import Stream


class Forks:
    """All forks of sessions: whose they are, and from where on they have events of their own."""

    def __init__(self) -> None:
        self._forks: dict[int, dict[int, int]] = {}
        self._parents: dict[int, int] = {}
        self._removed: set[int] = set()

    def add(self, stream: Stream) -> None:
        """Take in a stream, if it is a fork or kept only for forks."""
        if stream.parent is not None:
            self._forks.setdefault(stream.parent, {})[stream.id] = stream.base
            self._parents[stream.id] = stream.parent
        if stream.soft_deleted:
            self._removed.add(stream.id)

    def remove(self, stream: Stream) -> list[int]:
        """Note that a stream was deleted; return those of which less lives on now, itself included."""
        self._removed.add(stream.id)
        changed = [stream.id]
        parent = self._parents.get(stream.id)
        while parent is not None and parent in self._removed:
            changed.append(parent)
            parent = self._parents.get(parent)
        if not stream.forks:
            self._forget(stream.id)
        return changed

    def visible_end(self, stream: int, tail: int) -> int:
        """Return before which position events of a stream can be read, by itself or through forks."""
        if stream not in self._removed:
            return tail
        ends = [min(base, self.visible_end(fork, base)) for fork, base in self._forks.get(stream, {}).items()]
        return min(tail, max(ends, default=0))

    def heir(self, stream: int, position: int) -> int | None:
        """Return the oldest session through which an event of a stream can be read, None if there is none."""
        if stream not in self._removed:
            return stream
        heirs = [
            self.heir(fork, position) for fork, base in self._forks.get(stream, {}).items() if position < base
        ]
        return min((heir for heir in heirs if heir is not None), default=None)

    def _forget(self, stream: int) -> None:
        self._removed.discard(stream)
        parent = self._parents.pop(stream, None)
        if parent is not None:
            self._forks[parent].pop(stream, None)
            if not self._forks[parent]:
                del self._forks[parent]
