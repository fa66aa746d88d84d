"""Searches that wait until everything they are about was sent to the search process."""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from itertools import islice
from typing import NamedTuple

from durable_sessions.search.unsent_changes import NO_END, UnsentChanges
from durable_sessions.storage.door import Streams

GOALS_MAX = 5_000
"""How many streams one search waits for; if more have to be sent, it first waits until fewer are left."""


class _Waiter(NamedTuple):
    """A search that waits until streams were sent up to these positions, and all removals too.

    Reached goals are dropped. None means that it waits for the comparison, which finds what must be sent.
    """

    goals: deque[tuple[int, int]] | None
    done: "asyncio.Future[None]"


class WaitingSearches:
    """Tells each search when the events it waits for were sent, and the feed which to send first.

    ``ready_worker`` returns the number of the worker that was compared with all sessions, None if there is
    none. ``work`` is set when a search begins to wait, and ``hurry`` as long as one waits.
    """

    def __init__(
        self,
        changes: UnsentChanges,
        streams: Streams,
        ready_worker: Callable[[], int | None],
        work: asyncio.Event,
    ) -> None:
        self._changes = changes
        self._streams = streams
        self._ready_worker = ready_worker
        self._work = work
        self._waiters: list[_Waiter] = []
        self.hurry = asyncio.Event()

    def __bool__(self) -> bool:
        return bool(self._waiters)

    async def catch_up(self, workspace: str, streams: Collection[int] | None) -> bool:
        """Wait until everything was sent; return False if the worker was replaced meanwhile."""
        while (worker := self._ready_worker()) is None:
            await self._wait(None)
        additions = self._changes.additions
        while streams is None and len(additions.of(workspace)) > GOALS_MAX and self._is_ready():
            await self._wait(deque([self._distant_goal(workspace)]))
        wanted = additions.of(workspace) if streams is None else streams
        goals = deque((number, self.goal(number)) for number in wanted if number in additions)
        if goals or self._changes.removals or self._changes.erasures:
            await self._wait(goals)
        # What was sent to a worker that was replaced meanwhile may be lost with it.
        return self._ready_worker() == worker

    def goal(self, stream: int) -> int:
        """Return up to where a stream is durable now; nothing is added to one that is not in memory."""
        durable = self._streams.in_memory(stream)
        return NO_END if durable is None else self._changes.forks.visible_end(stream, durable.tail)

    def wake(self) -> None:
        """Wake the searches whose goals are reached."""
        for waiter in self._waiters:
            if not waiter.done.done() and self._has_reached(waiter.goals):
                waiter.done.set_result(None)

    def awaited(self, unreadable: Collection[int]) -> int | None:
        """Return a stream that a search waits for, none of those that cannot be read."""
        for waiter in self._waiters:
            goals = waiter.goals or deque()
            for _ in range(len(unreadable) + 1):
                self._drop_reached(goals)
                if goals and goals[0][0] not in unreadable:
                    return goals[0][0]
                goals.rotate(-1)
        return None

    def _distant_goal(self, workspace: str) -> tuple[int, int]:
        """Return a goal that is met when there are clearly fewer streams to send of a workspace."""
        number = next(islice(self._changes.additions.of(workspace), GOALS_MAX // 2, None))
        return number, self.goal(number)

    async def _wait(self, goals: deque[tuple[int, int]] | None) -> None:
        waiter = _Waiter(goals, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        self.hurry.set()
        self._work.set()
        try:
            await waiter.done
        finally:
            self._waiters.remove(waiter)
            if not self._waiters:
                self.hurry.clear()

    def _has_reached(self, goals: deque[tuple[int, int]] | None) -> bool:
        if goals is None or not self._is_ready():
            return self._is_ready()
        self._drop_reached(goals)
        return not (goals or self._changes.removals or self._changes.erasures)

    def _is_ready(self) -> bool:
        return self._ready_worker() is not None

    def _drop_reached(self, goals: deque[tuple[int, int]]) -> None:
        """Drop the first goals that are reached; since each is dropped once, the total work stays small."""
        while goals:
            stream, goal = goals[0]
            unsent = self._changes.additions.get(stream)
            if unsent is not None and unsent.start < goal:
                return
            goals.popleft()
