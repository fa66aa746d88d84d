"""Cooperative scheduling: long work yields the event loop after short turns, one turn per loop iteration.

Work on many streams, events or bytes asks for a turn and checks between small steps whether it is over. So
while such work is going on, other requests wait for at most one turn.
"""

import asyncio
from collections import deque
from time import perf_counter

TURN_SECONDS = 0.004
"""The length of a turn. A step that begins in it may end later, so steps have to be short."""


class Turns:
    """Gives turns to all long work of a process, first come, first served."""

    def __init__(self, seconds: float = TURN_SECONDS) -> None:
        self.seconds = seconds
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_passing = False

    def begin(self) -> "Turn":
        """Return the first turn of a piece of work, beginning now."""
        return Turn(self)

    async def next(self) -> None:
        """Wait for a loop iteration in which no other work has a turn."""
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[None] = loop.create_future()
        self._waiting.append(granted)
        if not self._is_passing:
            self._is_passing = True
            loop.call_soon(self._pass)
        await granted

    def _pass(self) -> None:
        """Give the turn to the next waiter, and reschedule for the next loop iteration."""
        while self._waiting:
            granted = self._waiting.popleft()
            if not granted.done():
                granted.set_result(None)
                break
        self._is_passing = bool(self._waiting)
        if self._is_passing:
            asyncio.get_running_loop().call_soon(self._pass)


class Turn:
    """The turns of one piece of work: ``if turn.over: await turn.rest()`` between its steps."""

    __slots__ = ("_turns", "_until")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._until = perf_counter() + turns.seconds

    @property
    def over(self) -> bool:
        """Whether it is time to yield."""
        return perf_counter() >= self._until

    async def rest(self) -> None:
        """Yield the event loop, and return with a new turn."""
        await self._turns.next()
        self._until = perf_counter() + self._turns.seconds
