"""The chunks of a streamed answer that comes over a link."""

import asyncio
from collections import deque
from collections.abc import Callable

from durable_sessions.errors import LinkLostError


class LinkChunks:
    """Iterates over chunks as they arrive; what has been taken becomes credit for the owner.

    Credit is given in steps of a quarter of the whole, so that small chunks do not cost a frame each. An
    answer that breaks off raises, at once, so that a part of it is not taken for all.
    """

    __slots__ = (
        "_chunks",
        "_credit_step",
        "_ended",
        "_failure",
        "_give_credit",
        "_stop",
        "_taken",
        "_waiter",
    )

    def __init__(
        self, credit_bytes: int, give_credit: Callable[[int], None], stop: Callable[[], None]
    ) -> None:
        self._credit_step = max(1, credit_bytes // 4)
        self._give_credit = give_credit
        self._stop = stop
        self._chunks: deque[bytes] = deque()
        self._taken = 0
        self._ended = False
        self._failure: str | None = None
        self._waiter: asyncio.Future[None] | None = None

    # The side of the link ---------------------------------------------------------------

    def arrived(self, chunk: bytes) -> None:
        """Add a chunk."""
        self._chunks.append(chunk)
        self._wake()

    def ended(self) -> None:
        """Note that the last chunk has arrived."""
        self._ended = True
        self._wake()

    def broke_off(self, reason: str) -> None:
        """Note that no more chunks will come, although there were more."""
        self._failure = reason
        self._chunks.clear()
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    # The side of the reader -------------------------------------------------------------

    def __aiter__(self) -> "LinkChunks":
        return self

    async def __anext__(self) -> bytes:
        while not self._chunks:
            if self._failure is not None:
                raise LinkLostError(reason=self._failure)
            if self._ended:
                raise StopAsyncIteration
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        chunk = self._chunks.popleft()
        self._taken += len(chunk)
        if self._taken >= self._credit_step:
            self._give_credit(self._taken)
            self._taken = 0
        return chunk

    async def aclose(self) -> None:
        """Tell the owner that nobody reads on, unless the answer has ended."""
        if not self._ended and self._failure is None:
            self._ended = True
            self._chunks.clear()
            self._stop()
