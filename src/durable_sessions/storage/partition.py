"""The partition: the only owner of its streams' state.

Requests are decided against the tip and get their positions at once. Answers, readers and
tails see only what is durable (``published``). Everything here runs in the event loop; only
the log's I/O does not.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from durable_sessions.clock import Clock
from durable_sessions.errors import (
    DurableSessionsError,
    OverloadedError,
    StreamGoneError,
    StreamNotFoundError,
)
from durable_sessions.limits import Limits
from durable_sessions.log import Extent, Log
from durable_sessions.storage import batch
from durable_sessions.storage.commit import Committer, Entry
from durable_sessions.storage.durable import DurableStream
from durable_sessions.storage.expiry import ExpiryQueue
from durable_sessions.storage.published import PublishedStreams, StreamListener
from durable_sessions.streams import append, create, lifetime
from durable_sessions.streams.append import Append, AppendResult
from durable_sessions.streams.create import Create, Created
from durable_sessions.streams.effects import Effect, StreamCreated
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key

T = TypeVar("T")


class Partition:
    """Streams with durable appends, consistent reads and live tails."""

    def __init__(self, log: Log, clock: Clock, limits: Limits) -> None:
        self._clock = clock
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._expiry = ExpiryQueue()
        self.state = State()
        self.published = PublishedStreams(log, limits)
        self.committer = Committer(log, self._publish, limits)
        self.streams_expired = 0

    @classmethod
    async def open(cls, log: Log, clock: Clock, limits: Limits) -> "Partition":
        """Return a partition that has replayed its log and knows all that was acknowledged."""
        partition = cls(log, clock, limits)
        async for position, payload in log.replay():
            for effect, offset, encoded in batch.decode(payload):
                partition.state.apply(effect)
                partition._show(effect, Extent(position, offset, len(encoded)), encoded)
        for stream in partition.state.by_id.values():
            lifetime.grant_lag(stream, limits)
        return partition

    async def close(self) -> None:
        """Finish every accepted write; what comes later is refused."""
        self.published.wake_all()
        await self.committer.close()

    # Writing ----------------------------------------------------------------------------

    def commit(self, decide: Callable[[State, int], tuple[Sequence[Effect], T]]) -> "asyncio.Future[T]":
        """Decide against the tip now; the future ends when that, and all before it, is durable.

        A refusal, too, is given only then: it may rest on something not yet durable.
        """
        self.committer.require_running()
        try:
            decided, result = decide(self.state, self._clock.now_ms())
        except DurableSessionsError as error:
            return self._refuse(error)
        for effect in decided:
            self.state.apply(effect)
        return self.committer.submit(decided, result)

    def create(self, key: Key, request: Create) -> "asyncio.Future[Created]":
        """Create a stream durably, or confirm that the same one exists."""
        self._admit(len(request.body))
        return self.commit(
            lambda state, now: create.decide(
                state, key, request, now, self._limits, self.published.append_end
            )
        )

    def append(self, key: Key, request: Append) -> "asyncio.Future[AppendResult]":
        """Append durably, all or nothing, exactly once if the request names its producer."""
        self._admit(len(request.body))
        return self.commit(lambda state, now: append.decide(state, key, request, now, self._limits))

    def delete(self, key: Key) -> "asyncio.Future[None]":
        """Delete a stream durably; its records stay as long as forks need them."""
        return self.commit(lambda state, now: (lifetime.remove(state, lifetime.find(state, key, now)), None))

    def settled(self) -> "asyncio.Future[None]":
        """Return a future that ends when everything decided so far is durable."""
        return self.committer.settled(None)

    def _admit(self, body_bytes: int) -> None:
        if self.committer.pending_bytes + body_bytes > self._limits.pending_bytes_max:
            raise OverloadedError(what="appends not yet durable")

    def _refuse(self, error: DurableSessionsError) -> "asyncio.Future[T]":
        refused: asyncio.Future[T] = self._loop.create_future()

        def refuse(settled: "asyncio.Future[None]") -> None:
            failure = settled.exception()
            if not refused.done():
                refused.set_exception(failure or error)

        self.committer.settled(None).add_done_callback(refuse)
        return refused

    # Lifetime ---------------------------------------------------------------------------

    def find(self, key: Key) -> DurableStream:
        """Return a durable stream, or refuse; wait for ``settled`` before answering a refusal."""
        durable = self.published.by_key.get(key)
        if durable is None:
            raise StreamNotFoundError(path=key.path)
        if durable.removed:
            raise StreamGoneError(path=key.path)
        now = self._clock.now_ms()
        if durable.stream.expired(now):
            kept_for_forks = durable.stream.forks > 0
            self._expire(key, now)
            raise StreamGoneError(path=key.path) if kept_for_forks else StreamNotFoundError(path=key.path)
        return durable

    def touch(self, durable: DurableStream) -> None:
        """Renew a stream's sliding TTL; the record of it follows within the stated lag."""
        stream = durable.stream
        if stream.ttl_seconds is None or stream.soft_deleted or stream.id not in self.state.by_id:
            return
        self._submit_unwatched(lifetime.touch(stream, self._clock.now_ms(), self._limits))

    def expire(self) -> None:
        """Remove the streams whose time is over; they already answer as missing."""
        now = self._clock.now_ms()
        for stream in self._expiry.due(now):
            self._expire(stream.key, now)

    def _expire(self, key: Key, now_ms: int) -> None:
        removed = lifetime.expire(self.state, key, now_ms)
        self.streams_expired += bool(removed)
        self._submit_unwatched(removed)

    def _submit_unwatched(self, decided: Sequence[Effect]) -> None:
        """Submit effects that nobody waits for; a log failure reaches those who wait for others."""
        if not decided or self.committer.failure is not None:
            return
        for effect in decided:
            self.state.apply(effect)
        self.committer.submit(decided, None).add_done_callback(lambda done: done.exception())

    # Publishing -------------------------------------------------------------------------

    def _publish(self, position: int, entries: list[Entry]) -> None:
        """Show a durable batch to readers: called when its sync has returned, and never before."""
        offset = 0
        for entry in entries:
            for effect, encoded in zip(entry.effects, entry.encoded, strict=True):
                self._show(effect, Extent(position, offset, len(encoded)), encoded)
                offset += len(encoded)

    def _show(self, effect: Effect, extent: Extent, encoded: bytes) -> None:
        if type(effect) is not StreamCreated:
            self.published.show(effect, extent, encoded)
            return
        stream = self.state.by_id.get(effect.stream)
        if stream is not None:  # else it has been removed again at the tip, and nobody will ever see it
            self.published.create(stream)
            self._expiry.add(stream)

    # What subscriptions need ------------------------------------------------------------

    def listen(self, listener: StreamListener) -> None:
        """Tell a listener of every durable change from now on."""
        self.published.listen(listener)

    def durable_tail(self, key: Key) -> int | None:
        """Return where a stream ends, None if there is none to read."""
        return self.published.tail(key)

    def stream_paths(self, workspace: str) -> list[str]:
        """Return the paths of a workspace's streams."""
        return self.published.paths(workspace)
