"""The partition: the only owner of its streams' state.

Requests are decided against the tip and get their positions at once. Answers, readers and
tails see only what is durable (``published``). Everything here runs in the event loop; only
the I/O of the log and of the archive does not.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

import structlog

from durable_sessions.clock import Clock
from durable_sessions.errors import (
    DurableSessionsError,
    ManifestLostError,
    OverloadedError,
    PartitionFencedError,
    StreamGoneError,
    StreamNotFoundError,
)
from durable_sessions.limits import Limits
from durable_sessions.log import Extent, Log
from durable_sessions.storage import batch
from durable_sessions.storage.archive import Archive, Flushed, NothingArchived
from durable_sessions.storage.commit import Committer, Entry
from durable_sessions.storage.companions import Companion, accompanied
from durable_sessions.storage.durable import DurableStream
from durable_sessions.storage.expiry import ExpiryQueue
from durable_sessions.storage.folders import Folders, StreamPage
from durable_sessions.storage.listeners import StreamListener
from durable_sessions.storage.published import PublishedStreams
from durable_sessions.storage.quotas import Quotas
from durable_sessions.storage.reading import Reader
from durable_sessions.storage.retention import NO_RETENTION, Retention
from durable_sessions.streams import append, create, lifetime
from durable_sessions.streams.append import Append, AppendResult
from durable_sessions.streams.create import Create, Created, Fork
from durable_sessions.streams.effects import Effect, Linked, StreamCreated, StreamRemoved
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.usage import Usages

logger = structlog.get_logger(__name__)

T = TypeVar("T")

_STEP_STREAMS = 100
"""How many streams are expired or taken out of memory at a time; counted, so that it is always the same."""


_DOCUMENTS_MAX = 8  # so many times what is kept may be there until it is flushed
PATH_PAGE = 1_000
"""Paths that are looked at in one go."""


class Unflushed(NamedTuple):
    """A batch of the log that is not in the bucket yet."""

    position: int
    size: int
    effects: int
    at_ms: int


class Partition:
    """Streams with durable appends, consistent reads and live tails."""

    def __init__(
        self, log: Log, clock: Clock, limits: Limits, archive: Archive, retention: Retention
    ) -> None:
        self._log = log
        self._clock = clock
        self._limits = limits
        self._archive = archive
        self._loop = asyncio.get_running_loop()
        self._expiry = ExpiryQueue()
        self._unflushed: deque[Unflushed] = deque()
        self.unflushed_bytes = 0
        self.state = State(archive.cold, self._warmed, retention.govern)
        self.published = PublishedStreams(limits, self._warm, archive.stream_count())
        self.reader = Reader(self.published, log, archive.records)
        self._folders = Folders(self.state, self.published, archive)
        self.committer = Committer(log, self._publish, limits)
        self._quotas: Quotas | None = None
        self._stepped_down: asyncio.Future[ManifestLostError] = self._loop.create_future()
        self.lost: ManifestLostError | None = None
        self.streams_expired = 0

    @classmethod
    async def open(
        cls,
        log: Log,
        clock: Clock,
        limits: Limits,
        archive: Archive | None = None,
        retention: Retention = NO_RETENTION,
        quotas: Quotas | None = None,
    ) -> "Partition":
        """Return a partition that has replayed its log and knows all that was acknowledged."""
        archive = archive or NothingArchived()
        await archive.govern(retention)
        partition = cls(log, clock, limits, archive, retention)
        archive.tell_lost(partition.step_down)
        partition.state.next_stream = archive.next_stream
        if quotas is not None and quotas.bounded:
            partition._quotas = quotas
            partition.state.usages = Usages(archive.usage())
        try:
            await partition._replay()
        except (Exception, asyncio.CancelledError):
            await partition.committer.close()
            raise
        return partition

    async def _replay(self) -> None:
        for effect in await self._archive.subscriptions():
            self.state.apply(effect)
            if isinstance(effect, Linked):
                await asyncio.sleep(0)
        async for position, payload in self._log.replay(self._archive.flushed_through):
            effects = 0
            for effect, offset, encoded in batch.decode(payload):
                self.state.apply(effect)
                self._show(effect, Extent(position, offset, len(encoded)), encoded)
                effects += 1
                if effects % _STEP_STREAMS == 0 or isinstance(effect, Linked):
                    await asyncio.sleep(0)
            self._note_unflushed(position, len(payload), effects)
        for count, stream in enumerate(list(self.state.by_id.values()), 1):
            if count % (10 * _STEP_STREAMS) == 0:
                await asyncio.sleep(0)
            lifetime.grant_lag(stream, self._limits)

    def step_down(self, lost: ManifestLostError) -> None:
        """Acknowledge and answer nothing any more: another writer has the bucket.

        For good. Log and memory may hold what no longer counts, so that nothing here can be mended.
        """
        logger.critical("stepped_down", reason=str(lost))
        self.lost = lost
        self.committer.stop(PartitionFencedError())
        self.published.wake_all()
        if not self._stepped_down.done():
            self._stepped_down.set_result(lost)

    async def until_lost(self) -> ManifestLostError:
        """Wait until another writer has the bucket, and return how that is known."""
        return await asyncio.shield(self._stepped_down)

    def require_writer(self) -> None:
        """Refuse to answer from a state that may no longer be the current one."""
        if self.lost is not None:
            raise PartitionFencedError

    async def close(self) -> None:
        """Finish every accepted write; what comes later is refused."""
        self.published.wake_all()
        await self.committer.close()

    # Writing ----------------------------------------------------------------------------

    def commit(
        self, decide: Callable[[State, int], tuple[Sequence[Effect], T]], on: Sequence[Key] = ()
    ) -> "asyncio.Future[T]":
        """Decide against the tip now; the future ends when that, and all before it, is durable.

        A refusal, too, is given only then: it may rest on something not yet durable. If one of the
        streams that it is ``on`` has expired, that is made durable first: so it stays gone once
        somebody was told so, even if the clock is set back.
        """
        self.committer.require_running()
        now_ms = self._clock.now_ms()
        try:
            decided, result = decide(self.state, now_ms)
            if self._quotas is not None:
                self._quotas.check(self.state, decided)
        except DurableSessionsError as error:
            for key in on:
                self._expire(key, now_ms)
            return self._refuse(error)
        return self._commit(decided, result) if decided else self.committer.settled(result)

    def _commit(self, decided: Sequence[Effect], result: T) -> "asyncio.Future[T]":
        """Encode, apply and submit; a failure to encode changes nothing, one to apply stops the partition."""
        entry = Entry(decided, self._loop.create_future(), result)
        try:
            for effect in decided:
                self.state.apply(effect)
        except Exception as error:  # the tip is no longer what the log will say
            self.committer.fail(f"an effect could not be applied: {error!r}")
            raise
        return self.committer.submit(entry)

    def create(self, key: Key, request: Create, anchor_end: int | None = None) -> "asyncio.Future[Created]":
        """Create a stream durably, or confirm that the same one exists.

        A fork past its anchor needs :meth:`anchor_end`.
        """
        self.admit(len(request.body))
        keys = (key,) if request.fork is None else (key, Key(key.workspace, request.fork.source))
        return self.commit(
            lambda state, now: create.decide(state, key, request, now, self._limits, anchor_end), keys
        )

    async def anchor_end(self, key: Key, fork: Fork) -> int | None:
        """Return where the append at a fork's anchor ends, None if no durable append holds it."""
        source = self.published.get(Key(key.workspace, fork.source))
        if source is None or fork.anchor is None:
            return None
        return await self.reader.append_end(source, fork.anchor)

    def append(self, key: Key, request: Append) -> "asyncio.Future[AppendResult]":
        """Append durably, all or nothing, exactly once if the request names its producer."""
        self.admit(len(request.body))
        return self.commit(lambda state, now: append.decide(state, key, request, now, self._limits), (key,))

    def delete(self, key: Key, companion: Companion | None = None) -> "asyncio.Future[None]":
        """Delete a stream durably; its records stay as long as forks need them."""

        def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], None]:
            return accompanied(lifetime.delete(state, key, now_ms), companion, state, now_ms), None

        return self.commit(decide, (key,))

    def settled(self) -> "asyncio.Future[None]":
        """Return a future that ends when everything decided so far is durable."""
        return self.committer.settled(None)

    @property
    def refusal(self) -> str | None:
        """Why appends are refused now, None if they are not."""
        if self.lost is not None:
            return str(self.lost)
        if self.committer.failure is not None:
            return self.committer.failure
        if self.unflushed_bytes >= self._limits.unflushed_bytes_max:
            return f"{self.unflushed_bytes} bytes wait to be flushed to the bucket"
        return None

    def admit(self, body_bytes: int) -> None:
        """Refuse a request whose body does not fit to what waits to become durable or to be flushed."""
        if self.committer.pending_bytes + body_bytes > self._limits.pending_bytes_max:
            raise OverloadedError(what="appends not yet durable")
        if self.unflushed_bytes + body_bytes > self._limits.unflushed_bytes_max:
            raise OverloadedError(what="appends not yet in the bucket")

    def admit_document(self, size: int) -> None:
        """Refuse a document of a stream that does not fit to those in memory, or as an append does not."""
        self.admit(size)
        if self.state.attribute_bytes + size > _DOCUMENTS_MAX * self._limits.attribute_bytes_max:
            raise OverloadedError(what="documents in memory (attribute_bytes_max)")

    def _refuse(self, error: DurableSessionsError) -> "asyncio.Future[T]":
        refused: asyncio.Future[T] = self._loop.create_future()
        error.with_traceback(None)  # its frames refer to the future, which refers to it

        def refuse(settled: "asyncio.Future[None]") -> None:
            failure = settled.exception()
            if not refused.done():
                refused.set_exception(failure or error)

        self.committer.settled(None).add_done_callback(refuse)
        return refused

    # Lifetime ---------------------------------------------------------------------------

    def find(self, key: Key) -> DurableStream:
        """Return a durable stream, or refuse; wait for ``settled`` before answering a refusal."""
        self.require_writer()
        durable = self.published.get(key)
        if durable is None:
            raise StreamNotFoundError(path=key.path)
        durable.stream.era = self.state.era
        if durable.removed:
            raise StreamGoneError(path=key.path)
        now = self._clock.now_ms()
        if durable.stream.expired(now):
            self.committer.require_running()  # else nobody can make sure that it stays gone
            kept_for_forks = durable.stream.forks > 0
            self._expire(key, now)
            raise StreamGoneError(path=key.path) if kept_for_forks else StreamNotFoundError(path=key.path)
        return durable

    def touch(self, durable: DurableStream) -> None:
        """Note that a stream is in use; the record of it follows within the stated lag."""
        if durable.stream.ttl_seconds is None and durable.stream.idle_ms is None:
            return
        stream = self.state.get_id(durable.stream.id)  # it may have left memory
        if stream is None or stream.soft_deleted:
            return
        self._submit_unwatched(lifetime.touch(stream, self._clock.now_ms(), self._limits))

    def expire(self) -> None:
        """Remove the streams whose time is over, or that were idle for as long as their policy allows.

        The former answer as missing already. Idleness is seen when it has reached the catalog.
        """
        for _ in self._expiring():
            pass

    async def expire_in_steps(self) -> None:
        """Do the same, and let others go on in between."""
        for count, _ in enumerate(self._expiring(), 1):
            if count % _STEP_STREAMS == 0:
                await asyncio.sleep(0)

    def _expiring(self) -> Iterator[None]:
        """Remove one after the other; between them anything may happen."""
        now = self._clock.now_ms()
        for stream in self._expiry.due(now):
            if stream is not None:
                self._expire(stream.key, now)
            yield
        left = self._limits.removals_per_sweep_max
        due = (number for number, _ in self._archive.due(now) if number not in self.state.removed)
        for number in list(islice(due, 2 * left)):  # some of them may be in memory, and not due after all
            if not left or self.committer.failure is not None:
                return
            if number in self.state.removed:
                continue
            known = self.state.by_id.get(number)
            left -= known is None
            one = known or self.state.get_id(number)
            if one is not None:  # else it was removed meanwhile
                self._remove(lifetime.retire(self.state, one, now, self._limits))
            yield

    def _expire(self, key: Key, now_ms: int) -> None:
        self._remove(lifetime.expire(self.state, key, now_ms))

    def _remove(self, removed: Sequence[Effect]) -> None:
        self.streams_expired += bool(removed)
        self._submit_unwatched(removed)

    def _submit_unwatched(self, decided: Sequence[Effect]) -> None:
        """Submit effects that nobody waits for; a log failure reaches those who wait for others."""
        if not decided or self.committer.failure is not None:
            return
        self._commit(decided, None).add_done_callback(lambda done: done.exception())

    # Publishing -------------------------------------------------------------------------

    def _publish(self, position: int, entries: list[Entry[object]]) -> None:
        """Show a durable batch to readers: called when its sync has returned, and never before."""
        offset = effects = 0
        for entry in entries:
            effects += len(entry.effects)
            for effect, encoded in zip(entry.effects, entry.encoded, strict=True):
                self._show(effect, Extent(position, offset, len(encoded)), encoded)
                offset += len(encoded)
        self._note_unflushed(position, offset, effects)

    def _show(self, effect: Effect, extent: Extent, encoded: bytes) -> None:
        if type(effect) is not StreamCreated:
            if type(effect) is StreamRemoved:
                self._expiry.discard(effect.stream)
            self.published.show(effect, extent, encoded)
            return
        stream = self.state.by_id.get(effect.stream)
        if stream is not None:  # else it has been removed again at the tip, and nobody will ever see it
            self.published.create(stream, extent)
            self._expiry.add(stream)

    # Moving to the bucket ---------------------------------------------------------------

    def _note_unflushed(self, position: int, size: int, effects: int) -> None:
        self._unflushed.append(Unflushed(position, size, effects, self._clock.now_ms()))
        self.unflushed_bytes += size

    @property
    def unflushed_from(self) -> int | None:
        """The position of the oldest batch that waits to be flushed, None if none does."""
        return self._unflushed[0].position if self._unflushed else None

    @property
    def last_position(self) -> int:
        """The position of the newest durable batch."""
        return self._unflushed[-1].position if self._unflushed else self._archive.flushed_through

    @property
    def unflushed_since_ms(self) -> int | None:
        """Since when the oldest batch waits to be flushed, None if all are."""
        return self._unflushed[0].at_ms if self._unflushed else None

    async def look(self) -> None:
        """Find out whether another writer has the bucket; raise ManifestLostError if one has."""
        await self._archive.look()

    async def flush(self) -> bool:
        """Move what is durable to the bucket and out of the log; say whether there was anything.

        One at a time. A failure leaves everything as it was. What is moved is bounded in bytes, and in
        effects, each of which may be of a stream of its own.
        """
        if not self._unflushed:
            return False
        through, size, effects = 0, 0, 0
        for one in self._unflushed:
            size, effects = size + one.size, effects + one.effects
            if through and (size > self._limits.flush_bytes_max or effects > self._limits.flush_effects_max):
                break
            through = one.position
        batches = []
        async for position, payload in self._log.replay(self._archive.flushed_through):
            if position > through:
                break
            batches.append(payload)
        flushed = await self._archive.flush(batches, through)
        steps = self._noting(flushed)
        try:
            for count, _ in enumerate(steps, 1):
                if count % (10 * _STEP_STREAMS) == 0:
                    await asyncio.sleep(0)
        finally:
            for _ in steps:  # also if whoever asked for it has gone away: nobody is told of it again
                pass
        await self._log.trim(flushed.through)
        return True

    def _noting(self, flushed: Flushed) -> Iterator[None]:
        """Note what is in the bucket now, one stream after the other; between them anything may happen."""
        for number, tail in flushed.tails.items():
            self.published.flushed(number, tail, flushed.through)
            known = self.state.by_id.get(number)
            if known is not None:
                known.flushed_names(tail)
            yield
        for number in flushed.removed:
            self.state.removed.pop(number, None)
        while self._unflushed and self._unflushed[0].position <= flushed.through:
            self.unflushed_bytes -= self._unflushed.popleft().size

    def crowded(self, times: int = 1) -> bool:
        """Say whether more streams, or documents that take more, are in memory than should be there."""
        limits, state = self._limits, self.state
        return (
            len(state.by_id) > times * limits.active_streams_max
            or state.attribute_bytes > times * limits.attribute_bytes_max
        )

    async def rest(self) -> int:
        """Take streams out of memory that nobody has used for an era and that are wholly flushed.

        Called once per era, and earlier if what is known of streams takes too much. Returns how many left.
        """
        self.state.era += 1
        if not self.crowded():
            return 0
        await self.settled()  # so that an idle stream has nothing pending
        left = 0
        for count, stream in enumerate(list(self.state.by_id.values()), 1):
            if count % _STEP_STREAMS == 0:
                await asyncio.sleep(0)
            durable = self.published.by_id.get(stream.id)
            if (
                durable is not None
                and durable.stream is stream
                and stream.era < self.state.era - 1
                and durable.changed_at <= self._archive.flushed_through
                and not durable.waiters  # or it would be back with the next change
            ):
                self.state.evict(stream)
                self._expiry.discard(stream.id)
                self.published.evict(durable)
                left += 1
        return left

    def _warm(self, name: Key | int) -> Stream | None:
        return self.state.get_id(name) if isinstance(name, int) else self.state.get(name)

    def _warmed(self, stream: Stream) -> None:
        self.published.warmed(stream)

    # Listing ----------------------------------------------------------------------------

    def page(
        self, workspace: str, folder: str, after: int | None, limit: int, *, newest_first: bool
    ) -> StreamPage:
        """Return the next durable streams of a folder after one, in the order of their creation."""
        return self._folders.page(workspace, folder, after, limit, newest_first=newest_first)

    def streams_after(self, number: int, prefix: str, limit: int) -> tuple[int | None, Sequence[Stream]]:
        """Look at the next streams by number as of the last flush, also at those kept only for their forks.

        Return the number of the last one, None at the end, and those whose paths begin with the prefix.
        """
        return self._archive.streams_after(number, prefix, limit)

    # What subscriptions need ------------------------------------------------------------

    def listen(self, listener: StreamListener) -> None:
        """Tell a listener of every durable change from now on."""
        self.published.listeners.add(listener)

    def path_pages(self, workspace: str, prefix: str = "") -> Iterator[Sequence[tuple[int, str]]]:
        """Yield number and path of a workspace's streams whose paths begin so, a page at a time.

        Others may work between two pages: what is there all the while is found, and nothing is loaded.
        """
        hot = list(self.published.by_key)
        shown: set[int] = set()
        for start in range(0, len(hot), PATH_PAGE):
            page = []
            for key in hot[start : start + PATH_PAGE]:
                if key.workspace == workspace and key.path.startswith(prefix):
                    durable = self.published.by_key.get(key)
                    if durable is not None and not durable.removed:
                        page.append((durable.stream.id, key.path))
            shown.update(number for number, _ in page)
            yield page
        after = ""
        while found := self._archive.paths_after(workspace, prefix, after, PATH_PAGE):
            # One that is in memory by now was perhaps not there when the others were looked at.
            yield [
                (number, path)
                for number, path in found
                if number not in shown and number not in self.state.removed and not self._is_gone(number)
            ]
            after = found[-1][1]

    def _is_gone(self, number: int) -> bool:
        durable = self.published.by_id.get(number)
        return durable is not None and durable.removed
