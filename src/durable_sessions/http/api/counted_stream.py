"""An event stream that is counted for as long as it is open."""

from collections.abc import AsyncIterator, Callable

from durable_sessions.http.carrier.handler_failures import close_iterator


class CountedStream:
    """The chunks of an event stream; ``leave`` is called once when it ends, even if it never began.

    A generator would not do: the body of one that is closed before its first step never runs, and so its
    ``finally`` does not either.
    """

    def __init__(self, chunks: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        self._chunks = chunks
        self._leave: Callable[[], None] | None = leave

    def __aiter__(self) -> "CountedStream":
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._chunks)
        except BaseException:
            self._left()
            raise

    async def aclose(self) -> None:
        """End the stream."""
        self._left()
        await close_iterator(self._chunks)

    def _left(self) -> None:
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()
