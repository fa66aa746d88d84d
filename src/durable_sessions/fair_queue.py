"""Waiting for a part of a shared budget, in an order in which nobody's many keep out another's few."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

from durable_sessions.shares import Shares


class FairQueue:
    """Gives out a budget: at once while there is room, else in turn, one holder after the other.

    The shares are those of :class:`Shares`, but everybody may hold one part if that fits at all, and if
    nobody holds anything one part may be larger than the budget: else it could never be had.
    """

    def __init__(self, most: int) -> None:
        self._shares = Shares(most)
        self._waiting: dict[Hashable, deque[tuple[asyncio.Future[None], int]]] = {}

    @property
    def held(self) -> int:
        """How much is given out."""
        return self._shares.held

    @property
    def waiting(self) -> int:
        """How many wait for their part."""
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def part(self, holder: Hashable, amount: int = 1) -> AsyncIterator[None]:
        """Hold a part of the budget, as soon as it is this holder's turn."""
        if holder in self._waiting or not self._take(holder, amount):
            await self._turn(holder, amount)
        try:
            yield
        finally:
            self._shares.give(holder, amount)
            self._grant()

    async def _turn(self, holder: Hashable, amount: int) -> None:
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(holder, deque()).append((turn, amount))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it was granted in the same moment
                self._shares.give(holder, amount)
                self._grant()
            else:
                self._forget(holder, turn)
            raise

    def _forget(self, holder: Hashable, turn: "asyncio.Future[None]") -> None:
        left = deque(entry for entry in self._waiting.pop(holder, ()) if entry[0] is not turn)
        if left:
            self._waiting[holder] = left
        self._grant()  # whoever stood behind it may have been passed over on its account

    def _take(self, holder: Hashable, amount: int) -> bool:
        shares = self._shares
        if shares.try_take(holder, amount):
            return True
        fits = not shares.held or (not shares.of(holder) and shares.held + amount <= shares.most)
        if fits:
            shares.take(holder, amount)
        return fits

    def _grant(self) -> None:
        """Let those go on for whom there is room now; whoever got something goes to the end of the line."""
        for holder in list(self._waiting):
            queue = self._waiting[holder]
            turn, amount = queue[0]
            if turn.cancelled():
                continue  # it is about to forget itself
            if not self._take(holder, amount):
                continue
            queue.popleft()
            del self._waiting[holder]
            if queue:
                self._waiting[holder] = queue
            turn.set_result(None)
