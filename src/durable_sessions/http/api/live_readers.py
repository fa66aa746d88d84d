"""Limits on concurrent live readers, in total and per key."""

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from functools import partial

from durable_sessions.access.caller import Caller
from durable_sessions.errors import OverloadedError, ShareExceededError
from durable_sessions.http.api.counted_stream import CountedStream
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
        return CountedStream(chunks, partial(self._shares.give, caller.key_id, 1))

    def _enter(self, caller: Caller) -> None:
        shares, holder = self._shares, caller.key_id
        shares.take(holder, 1)
        if shares.full() or (holder is not None and shares.excess(holder)):
            full = shares.full()
            shares.give(holder, 1)
            if full or holder is None:
                raise OverloadedError(what="waiting readers")
            raise ShareExceededError(what="the readers that wait or follow", limit="waiters_max")
