"""How much is read for answers before those that were made can leave memory."""

import asyncio


class ReadThrottle:
    """Bounds the bytes that are read for answers in one turn of the event loop.

    An answer leaves memory when its peer has taken it or was cut, and neither happens before
    the next turn. So when one large record wakes a thousand readers, they are served in
    several turns.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._bytes = 0

    @property
    def full(self) -> bool:
        """Whether enough was read in this turn."""
        return self._bytes >= self._bytes_max

    async def room(self) -> None:
        """Wait for a turn in which more may be read."""
        while self.full:  # noqa: ASYNC110  # nothing but a turn of the loop is waited for
            await asyncio.sleep(0)

    def count(self, size: int) -> None:
        """Note that so much was read."""
        if size and not self._bytes:
            asyncio.get_running_loop().call_soon(self._begin_turn)
        self._bytes += size

    def _begin_turn(self) -> None:
        self._bytes = 0
