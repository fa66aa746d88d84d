"""Answers that peers do not take, within one bound for all connections."""

from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

P = TypeVar("P")
_Key = TypeVar("_Key", bound=Hashable)


class _Waiting(NamedTuple):
    holder: Hashable
    piece: bytes


class UntakenAnswers(Generic[P]):
    """Knows which peers leave their answers unread, and who has to go when that is too much.

    A peer that reads is not listed here for long, so that those who do not read are cut. They are cut of the
    holder that keeps most bytes, so that one key's slow readers never cost another key its own. A piece that
    many are being sent is counted once.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._waiting: dict[P, _Waiting] = {}
        self._of: dict[Hashable, dict[P, None]] = {}  # the peers of a holder, the longest wait first
        self._pieces: dict[tuple[Hashable, int], int] = {}  # how many peers of a holder wait for a piece
        self._bytes_of: dict[Hashable, int] = {}
        self._holders: dict[int, int] = {}  # how many peers wait for a piece, by its identity
        self.bytes_held = 0

    def add(self, peer: P, holder: Hashable, piece: bytes) -> list[P]:
        """Note that a peer does not take a piece; return those that have to be cut, which are forgotten."""
        self.remove(peer)
        self._waiting[peer] = _Waiting(holder, piece)
        self._of.setdefault(holder, {})[peer] = None
        if self._count(self._holders, id(piece)):
            self.bytes_held += len(piece)
        if self._count(self._pieces, (holder, id(piece))):
            self._bytes_of[holder] = self._bytes_of.get(holder, 0) + len(piece)
        cut: list[P] = []
        while self.bytes_held > self._bytes_max and len(self._waiting) > 1:
            largest = max(self._bytes_of, key=self._bytes_of.__getitem__)
            cut.append(next(iter(self._of[largest])))
            self.remove(cut[-1])
        return cut

    def replace(self, peer: P, successor: P) -> None:
        """Go on under another name, at the end of the line."""
        waiting = self._waiting.get(peer)
        if waiting is not None:
            self.remove(peer)
            self.add(successor, *waiting)

    def remove(self, peer: P) -> None:
        """Note that a peer has taken its answer, or never will."""
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
        """Count one more; say whether it is the first."""
        counts[key] = counts.get(key, 0) + 1
        return counts[key] == 1

    @staticmethod
    def _discount(counts: dict[_Key, int], key: _Key) -> bool:
        """Count one less; say whether it was the last."""
        counts[key] -= 1
        if counts[key]:
            return False
        del counts[key]
        return True
