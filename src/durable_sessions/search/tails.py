"""How far each stream is indexed, as the search process has reported it: 24 bytes per stream."""

from array import array
from bisect import bisect_left
from collections.abc import Iterator

from durable_sessions.search.messages import Indexed


class IndexedTails:
    """Streams by workspace, and where their events in the index end; each can be taken once."""

    def __init__(self) -> None:
        self._streams: dict[str, array[int]] = {}
        self._ends: dict[str, array[int]] = {}
        self._erasures: dict[str, array[int]] = {}
        self._taken: dict[str, bytearray] = {}

    def add(self, part: Indexed) -> None:
        """Add a part; the streams of a workspace ascend from part to part."""
        streams = self._streams.setdefault(part.workspace, array("q"))
        ends = self._ends.setdefault(part.workspace, array("q"))
        streams.frombytes(part.streams)
        ends.frombytes(part.tails)
        erasures = self._erasures.setdefault(part.workspace, array("q"))
        erasures.frombytes(part.erasures or bytes(len(part.tails)))
        taken = self._taken.setdefault(part.workspace, bytearray())
        taken.extend(bytes(len(streams) - len(taken)))

    def take(self, workspace: str, stream: int) -> int | None:
        """Return where a stream ends and count it as seen; None if the index has nothing of it."""
        at = self._find(workspace, stream)
        if at is None or self._taken[workspace][at]:
            return None
        self._taken[workspace][at] = 1
        return self._ends[workspace][at]

    def erasures(self, workspace: str, stream: int) -> int:
        """Return how many erasures of a stream the index knows."""
        at = self._find(workspace, stream)
        return 0 if at is None else self._erasures[workspace][at]

    def left(self) -> Iterator[tuple[str, int]]:
        """Yield the workspace and number of each stream that was not taken."""
        for workspace, streams in self._streams.items():
            taken = self._taken[workspace]
            yield from ((workspace, stream) for at, stream in enumerate(streams) if not taken[at])

    def _find(self, workspace: str, stream: int) -> int | None:
        streams = self._streams.get(workspace)
        if streams is None:
            return None
        at = bisect_left(streams, stream)
        return at if at < len(streams) and streams[at] == stream else None
