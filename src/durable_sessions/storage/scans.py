"""Admission of scans: reads that examine more than they return, such as filtered lists."""

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from durable_sessions.errors import OverloadedError, TooManyScansError
from durable_sessions.limits import Limits
from durable_sessions.storage.turns import Turns


class Scans:
    """Limits how many scans run at a time, in total and per key; the keys that wait are served in rotation.

    All scans share ``turns`` to yield the event loop.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._running = 0
        self._running_of: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self.turns = Turns()

    @asynccontextmanager
    async def admitted(self, key: str | None) -> AsyncIterator[None]:
        """Wait until a scan of a key may begin; it is counted until the block ends."""
        name = key or ""
        if self._waiting or not self._has_room(name):
            await self._wait(name)
        else:
            self._begin(name)
        try:
            yield
        finally:
            self._end(name)

    @property
    def waiting(self) -> int:
        """How many scans wait."""
        return sum(map(len, self._waiting.values()))

    def _has_room(self, name: str) -> bool:
        limits = self._limits
        return self._running < limits.scans_max and self._running_of[name] < limits.scans_per_key_max

    def _begin(self, name: str) -> None:
        self._running += 1
        self._running_of[name] += 1

    def _end(self, name: str) -> None:
        self._running -= 1
        self._running_of[name] -= 1
        if not self._running_of[name]:
            del self._running_of[name]
        self._admit()

    async def _wait(self, name: str) -> None:
        if len(self._waiting.get(name, ())) >= self._limits.scans_waiting_per_key_max:
            raise TooManyScansError(scans_waiting_per_key_max=self._limits.scans_waiting_per_key_max)
        if self.waiting >= self._limits.scans_waiting_max:
            raise OverloadedError(what="waiting scans")
        admitted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(name, deque()).append(admitted)
        # There may be room: the others that wait may only have reached the limits of their own keys.
        self._admit()
        try:
            await admitted
        except asyncio.CancelledError:
            if admitted.cancelled():
                self._leave(name, admitted)
            else:
                self._end(name)  # admitted and cancelled at the same time
            raise

    def _leave(self, name: str, admitted: "asyncio.Future[None]") -> None:
        """Leave the queue, unless that was done already."""
        queue = self._waiting.get(name, deque())
        if admitted in queue:
            queue.remove(admitted)
            if not queue:
                del self._waiting[name]

    def _admit(self) -> None:
        """Admit the next scans in rotation, as many as the limits allow."""
        for name in list(self._waiting):
            queue = self._waiting[name]
            while queue and queue[0].done():
                queue.popleft()  # cancelled: its client has disconnected
            if queue and self._has_room(name):
                self._begin(name)
                queue.popleft().set_result(None)
                self._waiting.move_to_end(name)
            if not queue:
                del self._waiting[name]
            if self._running >= self._limits.scans_max:
                return
