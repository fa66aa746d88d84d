"""Which names a partition may create: its own, and those that their home has placed here."""

from collections.abc import Sequence

from durable_sessions.bounded_cache import BoundedCache
from durable_sessions.errors import PartitionMovedError
from durable_sessions.limits import Limits
from durable_sessions.partition_id import PartitionId
from durable_sessions.streams.effects import Effect, StreamCreated
from durable_sessions.streams.partition_map import home_partition
from durable_sessions.streams.placements import AT_HOME, NO_NOTE, Placement, given_up, noted
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import SYSTEM_WORKSPACE, Key

ENTRY_BYTES = 300
"""About how much memory an entry of a cache of names takes besides the name."""


class NoteCache(BoundedCache[Key, Placement]):
    """The notes that were seen last, by name."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(bytes_max, _size)

    def put(self, key: Key, value: Placement) -> None:
        """Remember a note, unless a newer one is known."""
        known = self.get(key)
        if known is None or known.note <= value.note:
            super().put(key, value)


class PlacedNames:
    """Decides, for a partition of several, whether a request about a name is answered here.

    The notes that it was shown are only cached: if one is forgotten, the home of the name is asked again.
    """

    def __init__(self, own: PartitionId, limits: Limits) -> None:
        self._own = own
        self._shown = NoteCache(limits.placement_cache_bytes_max)

    def home(self, name: Key) -> int:
        """Return the home of a name."""
        return home_partition(*name, self._own.of)

    def elsewhere(self, state: State, name: Key, shown: int) -> Placement | None:
        """Return where a request about a name belongs, None if it is answered here.

        ``shown`` is the number of the note that came with the request. A placement without a note means that
        only the home of the name knows where it is.
        """
        if shown and shown > given_up(state, name):
            self._shown.put(name, Placement(self._own.number, shown))
            return None
        if name in state.streams or state.get(name) is not None:
            return None
        home = self.home(name)
        if home != self._own.number:
            return Placement(home, NO_NOTE)
        note = noted(state, name)
        return None if note is None or note.partition == AT_HOME else note

    def check(self, state: State, decided: Sequence[Effect]) -> None:
        """Refuse to create a stream whose name lives elsewhere; the request can be repeated there."""
        for effect in decided:
            if isinstance(effect, StreamCreated) and effect.workspace != SYSTEM_WORKSPACE:
                name = Key(effect.workspace, effect.path)
                if not self._may_create(state, name):
                    raise PartitionMovedError

    def _may_create(self, state: State, name: Key) -> bool:
        if self.home(name) == self._own.number:
            note = noted(state, name)
            return note is None or note.partition == AT_HOME
        shown = self._shown.get(name)
        return shown is not None and shown.note > given_up(state, name)


def _size(name: Key, placement: Placement) -> int:
    return ENTRY_BYTES + len(name.path)
