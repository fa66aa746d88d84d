"""Sharing the event loop: long work is done in short turns, and no more than one in each round of the loop.

Whoever does something for many streams, events or bytes asks for a turn and looks between small steps
whether it is over. While such work goes on, everybody else's requests wait for one turn at most.
"""

import asyncio
from collections import deque
from time import perf_counter

TURN_SECONDS = 0.004
"""How long a turn is; a step that began in it may end later, so steps are short."""


class Turns:
    """Gives turns to all long work of a process, first come, first served."""

    def __init__(self, seconds: float = TURN_SECONDS) -> None:
        self.seconds = seconds
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_passing = False

    def begin(self) -> "Turn":
        """Return the first turn of some work; it begins now."""
        return Turn(self)

    async def next(self) -> None:
        """Wait for a round of the loop in which nobody else has a turn."""
        loop = asyncio.get_running_loop()
        granted: asyncio.Future[None] = loop.create_future()
        self._waiting.append(granted)
        if not self._is_passing:
            self._is_passing = True
            loop.call_soon(self._pass)
        await granted

    def _pass(self) -> None:
        """Give the turn to the next who waits, and come back in the next round."""
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
        """Whether it is time to let others go on."""
        return perf_counter() >= self._until

    async def rest(self) -> None:
        """Let others go on, and return with a new turn."""
        await self._turns.next()
        self._until = perf_counter() + self._turns.seconds
