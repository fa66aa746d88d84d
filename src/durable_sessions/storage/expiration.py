"""Removal of the streams whose time is over: those in memory by a queue, the others by the catalog."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from durable_sessions.limits import Limits
from durable_sessions.storage.archive import Archive
from durable_sessions.storage.commit import Committer
from durable_sessions.storage.expiry import ExpiryQueue
from durable_sessions.streams import lifetime
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key


class StreamExpiration:
    """Decides which streams have expired; ``submit`` makes their removal durable, ``removed`` counts them.

    Nothing depends on how soon a stream is removed: an expired one is answered as missing before that.
    """

    def __init__(
        self,
        state: State,
        expiry: ExpiryQueue,
        archive: Archive,
        committer: Committer,
        submit: Callable[[Sequence[Effect]], None],
        limits: Limits,
    ) -> None:
        self._state = state
        self._expiry = expiry
        self._archive = archive
        self._committer = committer
        self._submit = submit
        self._limits = limits
        self.removed = 0

    def expire(self, key: Key, now_ms: int) -> None:
        """Remove the stream at a path if it has expired."""
        self._remove(lifetime.expire(self._state, key, now_ms))

    def expiring(self, now_ms: int) -> Iterator[None]:
        """Remove expired streams one after the other; anything may happen between two of them."""
        for stream in self._expiry.due(now_ms):
            if stream is not None:
                self.expire(stream.key, now_ms)
            yield
        # A removal that loads its stream counts against the limit, so that a sweep after a long time, or with
        # a new policy, does not fill memory: the rest is left to the next sweep.
        left = self._limits.removals_per_sweep_max
        due = (number for number, _ in self._archive.due(now_ms) if number not in self._state.removed)
        for number in list(islice(due, 2 * left)):  # some may be in memory, and accessed since
            if not left or self._committer.failure is not None:
                return
            if number in self._state.removed:
                continue
            known = self._state.by_id.get(number)
            left -= known is None
            one = known or self._state.get_id(number)
            if one is not None:  # otherwise it was removed in the meantime
                self._remove(lifetime.retire(self._state, one, now_ms, self._limits))
            yield

    def _remove(self, removed: Sequence[Effect]) -> None:
        self.removed += bool(removed)
        self._submit(removed)
