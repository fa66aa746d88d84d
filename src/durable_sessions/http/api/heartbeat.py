"""Heartbeats for subscribers that have been sent nothing for a while."""

import asyncio


class Heartbeat:
    """One timer per subscriber, for its next heartbeat and for the end of its connection."""

    def __init__(self, every_seconds: float, ends_after_seconds: float) -> None:
        self._loop = asyncio.get_running_loop()
        self._every = every_seconds
        self._ends_at = self._loop.time() + ends_after_seconds
        self._last = self._loop.time()
        self._waiter: asyncio.Future[None] | None = None
        self._timer = self._arm()

    @property
    def over(self) -> bool:
        """Whether the connection should end now."""
        return self._loop.time() >= self._ends_at

    def due(self) -> bool:
        """Say whether nothing has been sent for the length of a heartbeat."""
        return self.over or self._loop.time() - self._last >= self._every

    def sent(self) -> None:
        """Note that something was sent."""
        self._last = self._loop.time()

    async def wait(self, waiter: "asyncio.Future[None]") -> None:
        """Wait for the future, or for the next heartbeat or the end if that is earlier."""
        self._waiter = waiter
        try:
            await waiter
        finally:
            waiter.cancel()
            self._waiter = None

    def stop(self) -> None:
        """Cancel the timer."""
        self._timer.cancel()

    def _arm(self) -> asyncio.TimerHandle:
        return self._loop.call_at(min(self._last + self._every, self._ends_at), self._tick)

    def _tick(self) -> None:
        if self.due() and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        if not self.over:
            if self.due():
                self._timer = self._loop.call_later(self._every, self._tick)
            else:
                self._timer = self._arm()
