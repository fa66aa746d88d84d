"""Shares: how one budget is divided among those who draw on it, so that nobody can use it up for others."""

from collections.abc import Hashable
from contextvars import ContextVar

CURRENT_HOLDER: ContextVar[str] = ContextVar("current_holder", default="server")
"""On whose behalf the running task works: a key, the local caller, or the server itself."""
LOCAL = "local"
"""The local caller, who has no key."""


class Shares:
    """A budget of which nobody may hold more than is left over for everybody else.

    So one holder alone gets half of it, the next at most half of what the first has left, and so on: there is
    always room for a newcomer. Holders are keys, workspaces or connections; they are counted only while they
    hold something.
    """

    __slots__ = ("_held_by", "held", "most")

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        self._held_by: dict[Hashable, int] = {}

    def take(self, holder: Hashable, amount: int) -> None:
        """Count an amount, whether it fits or not; :meth:`excess` tells."""
        self.held += amount
        self._held_by[holder] = self._held_by.get(holder, 0) + amount

    def give(self, holder: Hashable, amount: int) -> None:
        """Count an amount no longer."""
        self.held -= amount
        left = self._held_by.get(holder, 0) - amount
        if left:
            self._held_by[holder] = left
        else:
            self._held_by.pop(holder, None)

    def move(self, holder: Hashable, other: Hashable, amount: int) -> None:
        """Count an amount for another holder from now on."""
        if amount:
            self.give(holder, amount)
            self.take(other, amount)

    def of(self, holder: Hashable) -> int:
        """Return what a holder holds."""
        return self._held_by.get(holder, 0)

    def full(self) -> bool:
        """Say whether all together hold more than there is."""
        return self.held > self.most

    def excess(self, holder: Hashable) -> bool:
        """Say whether a holder holds more than its share, or all together more than there is."""
        return self._held_by.get(holder, 0) > self.most - self.held

    def try_take(self, holder: Hashable, amount: int) -> bool:
        """Count an amount if it fits the share of its holder; say whether it did."""
        self.take(holder, amount)
        if self.excess(holder):
            self.give(holder, amount)
            return False
        return True
