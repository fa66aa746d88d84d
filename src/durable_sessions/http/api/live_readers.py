"""Limits on concurrent live readers, in total and per key."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from durable_sessions.access.caller import Caller
from durable_sessions.errors import OverloadedError, ShareExceededError
from durable_sessions.http.carrier.handler_failures import close_iterator
from durable_sessions.limits import Limits
from durable_sessions.shares import Shares


class LiveReaders:
    """Counts long-polls and event streams. The local caller, who has no key, may use the whole limit."""

    def __init__(self, limits: Limits) -> None:
        self._shares = Shares(limits.waiters_max)

    @contextmanager
    def waiting(self, caller: Caller) -> Iterator[None]:
        """Count a reader for as long as it waits, or refuse it."""
        self._enter(caller)
        try:
            yield
        finally:
            self._shares.give(caller.key_id, 1)

    def following(self, caller: Caller, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Return the chunks of an event stream, which is counted until it is closed, or refuse it."""
        self._enter(caller)
        return _Followed(self._shares, caller.key_id, chunks)

    def _enter(self, caller: Caller) -> None:
        shares, holder = self._shares, caller.key_id
        shares.take(holder, 1)
        if shares.full() or (holder is not None and shares.excess(holder)):
            full = shares.full()
            shares.give(holder, 1)
            if full or holder is None:
                raise OverloadedError(what="waiting readers")
            raise ShareExceededError(what="the readers that wait or follow", limit="waiters_max")


class _Followed:
    """An event stream that is counted until its end, even if it never began."""

    def __init__(self, shares: Shares, holder: str | None, chunks: AsyncIterator[bytes]) -> None:
        self._shares: Shares | None = shares
        self._holder = holder
        self._chunks = chunks

    def __aiter__(self) -> "_Followed":
        return self

    async def __anext__(self) -> bytes:
        try:
            return await anext(self._chunks)
        except BaseException:
            self._leave()
            raise

    async def aclose(self) -> None:
        """End the stream."""
        self._leave()
        await close_iterator(self._chunks)

    def _leave(self) -> None:
        shares, self._shares = self._shares, None
        if shares is not None:
            shares.give(self._holder, 1)
