"""Limits how much is read for answers per iteration of the event loop."""

import asyncio


class ReadThrottle:
    """Limits the bytes that are read for answers in one iteration of the event loop.

    The memory of an answer is freed when its peer has read it or was cut, and neither happens before
    the next iteration. So when one large record wakes a thousand readers, they are served in
    several iterations.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether the limit of this iteration is reached."""
        return self._bytes >= self._bytes_max

    async def room(self) -> None:
        """Wait for an iteration in which more may be read."""
        while self.full:  # noqa: ASYNC110  # waits for the next loop iteration only
            await asyncio.sleep(0)

    def count(self, size: int) -> None:
        """Count bytes that were read."""
        if size and not self._bytes:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._bytes += size

    def _begin_turn(self) -> None:
        self._bytes = 0
