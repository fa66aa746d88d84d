"""Answers that peers do not read, within one limit for all connections."""

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

P = TypeVar("P")
_Key = TypeVar("_Key", bound=Hashable)


class _Waiting(NamedTuple):
    holder: Hashable
    piece: bytes


class UnreadAnswers(Generic[P]):
    """Tracks which peers leave their answers unread, and selects those to cut when the limit is exceeded.

    A peer that keeps reading is listed only briefly, so it is the slow readers that are cut: first the oldest
    of the holder with the most unread bytes. So the slow readers of one key never cost another key its
    connections. A piece that many peers are being sent is counted once.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: dict[P, _Waiting] = {}
        self._of: dict[Hashable, dict[P, None]] = {}  # the peers of a holder, oldest first
        self._pieces: dict[tuple[Hashable, int], int] = {}  # how many peers of a holder wait for a piece
        self._bytes_of: dict[Hashable, int] = {}
        self._holders: dict[int, int] = {}  # how many peers wait for a piece, by its identity
        self.bytes_held = 0

    def add(self, peer: P, holder: Hashable, piece: bytes) -> list[P]:
        """Note that a peer is not reading a piece; return the peers to cut, which are no longer tracked."""
        self.remove(peer)
        self._waiting[peer] = _Waiting(holder, piece)
        self._of.setdefault(holder, {})[peer] = None
        # Pieces are told apart by identity, since comparing bytes would cost too much. No other object gets
        # the same identity meanwhile: ``_waiting`` keeps the piece alive.
        if self._count(self._holders, id(piece)):
            self.bytes_held += len(piece)
        if self._count(self._pieces, (holder, id(piece))):
            self._bytes_of[holder] = self._bytes_of.get(holder, 0) + len(piece)
        cut: list[P] = []
        # The last one is never cut, or an answer larger than the limit could not be sent at all.
        while self.bytes_held > self._bytes_max and len(self._waiting) > 1:
            largest = max(self._bytes_of, key=self._bytes_of.__getitem__)
            cut.append(next(iter(self._of[largest])))
            self.remove(cut[-1])
        return cut

    def replace(self, peer: P, successor: P) -> None:
        """Track ``successor`` instead of ``peer``, as the newest."""
        waiting = self._waiting.get(peer)
        if waiting is not None:
            self.remove(peer)
            self.add(successor, *waiting)

    def remove(self, peer: P) -> None:
        """Note that a peer has read its answer, or is gone."""
        waiting = self._waiting.pop(peer, None)
        if waiting is None:
            return
        holder, piece = waiting
        del self._of[holder][peer]
        if not self._of[holder]:
            del self._of[holder]
        if self._discount(self._holders, id(piece)):
            self.bytes_held -= len(piece)
        if self._discount(self._pieces, (holder, id(piece))):
            left = self._bytes_of.get(holder, 0) - len(piece)
            if left:
                self._bytes_of[holder] = left
            else:
                self._bytes_of.pop(holder, None)

    @staticmethod
    def _count(counts: dict[_Key, int], key: _Key) -> bool:
        """Increment a count; say whether it was zero."""
        counts[key] = counts.get(key, 0) + 1
        return counts[key] == 1

    @staticmethod
    def _discount(counts: dict[_Key, int], key: _Key) -> bool:
        """Decrement a count; say whether it is zero now."""
        counts[key] -= 1
        if counts[key]:
            return False
        del counts[key]
        return True
