"""What the index is missing: events to add, documents to remove, and documents to replace."""

from collections.abc import Sequence

from durable_sessions.clock import Clock
from durable_sessions.search.backlog import Backlog, Unsent
from durable_sessions.search.forks import Forks
from durable_sessions.search.index_names import index_name
from durable_sessions.streams.readonly import StreamRecord

NO_END = 2**62
"""A position behind every event."""


class UnsentChanges:
    """Notes what has changed in sessions and memory scopes, until it was sent to the search process.

    Positions are noted, never events, so falling behind takes no memory. Removals and erasures are keyed by
    index and stream: ``removals`` has the position from which documents go, ``erasures`` the positions
    whose documents are replaced. ``void`` names the removals that are due because something was erased.
    ``events_lacking`` is how many older events the last comparison found missing.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.additions = Backlog()
        self.removals: dict[tuple[str, int], int] = {}
        self.erasures: dict[tuple[str, int], set[int]] = {}
        self.void: set[tuple[str, int]] = set()
        self.forks = Forks()
        self.events_lacking = 0

    def __bool__(self) -> bool:
        return bool(self.additions or self.removals or self.erasures)

    def stream_created(self, stream: StreamRecord) -> None:
        """Note a new fork."""
        if stream.parent is not None and index_name(stream.key) is not None:
            self.forks.add(stream)

    def stream_appended(self, stream: StreamRecord, first: int) -> bool:
        """Note that there is something to add; return False if that was known."""
        # Only the first unsent position is kept: everything after it is sent with it.
        if stream.id in self.additions or (index := index_name(stream.key)) is None:
            return False
        self.additions[stream.id] = Unsent(index, first, self._clock.now_ms())
        return True

    def stream_erased(self, stream: StreamRecord, positions: Sequence[int]) -> bool:
        """Note which documents have to be replaced; return False if the stream is in no index."""
        index = index_name(stream.key)
        if index is None:
            return False
        self.erasures.setdefault((index, stream.id), set()).update(positions)
        return True

    def stream_removed(self, stream: StreamRecord) -> bool:
        """Note that a session is gone, or kept only for its forks; return False if it is in no index."""
        index = index_name(stream.key)
        if index is None:
            return False
        if not stream.forks:
            self.additions.drop(stream.id)
            self.erasures.pop((index, stream.id), None)
        # Removing a fork can also shorten what is still readable of its deleted ancestors.
        for number in self.forks.remove(stream):
            is_gone = number == stream.id and not stream.forks
            end = 0 if is_gone else self.forks.visible_end(number, NO_END)
            self.removals[index, number] = end
        return True
