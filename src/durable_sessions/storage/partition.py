"""The partition: the only owner of its streams' state.

Requests are decided against the tip and get their positions at once. Answers, readers and
tails see only what is durable (``published``). Everything here runs in the event loop; only
the I/O of the log and of the archive does not.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import structlog

from durable_sessions.clock import Clock
from durable_sessions.errors import (
    DurableSessionsError,
    LogFencedError,
    ManifestLostError,
    OverloadedError,
    PartitionFencedError,
    PartitionMovedError,
    StreamGoneError,
    StreamNotFoundError,
)
from durable_sessions.limits import Limits
from durable_sessions.log import Claimant, Log
from durable_sessions.partition_id import ONLY_PARTITION
from durable_sessions.storage.archive import Archive, NothingArchived
from durable_sessions.storage.backlog import FlushBacklog
from durable_sessions.storage.commit import SYNC_SECONDS_BOUNDS, Committer, Entry, ToldEntry
from durable_sessions.storage.companions import Companion, accompanied
from durable_sessions.storage.counts import PartitionCounts, SyncSeconds
from durable_sessions.storage.door import (
    DecidePlain,
    FolderPages,
    ScannedStream,
    Slice,
    StreamListener,
    StreamPage,
    StreamView,
    Told,
)
from durable_sessions.storage.durable_stream import DurableStream
from durable_sessions.storage.eviction import StreamEviction
from durable_sessions.storage.expiration import StreamExpiration
from durable_sessions.storage.expiry import ExpiryQueue
from durable_sessions.storage.folder_pages import Folders
from durable_sessions.storage.log_flush import LogFlush
from durable_sessions.storage.published import PublishedStreams
from durable_sessions.storage.publisher import Publisher
from durable_sessions.storage.quotas import Quotas
from durable_sessions.storage.record_reader import Reader
from durable_sessions.storage.retention import NO_RETENTION, Retention
from durable_sessions.storage.slot_holders import SlotHolders
from durable_sessions.storage.stream_scan import StreamScan
from durable_sessions.streams import append, create, lifetime
from durable_sessions.streams.append import Append, AppendResult
from durable_sessions.streams.create import Create, Created, Fork
from durable_sessions.streams.effects import Effect, ErasuresSettled, Name
from durable_sessions.streams.placed_names import PlacedNames
from durable_sessions.streams.slots import NameRange
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import Key, Stream
from durable_sessions.streams.usage import Usages

logger = structlog.get_logger(__name__)

T = TypeVar("T")
Lost = ManifestLostError | LogFencedError
"""How a partition is known to have another writer."""

EMBEDDED = Claimant("embedded")
"""Who claims a log that only one process can open."""

_STEP_STREAMS = 100
"""How many streams are expired before the event loop runs other work; a count, so that runs are the same."""

_SETTLED_STREAMS = 100
"""Of how many streams erasures are settled in one step."""

_DOCUMENTS_MAX = 8
"""How many times their budget documents may take before requests are shed. They can exceed it because only
flushed streams can be evicted."""


def _refusal(lost: Lost) -> DurableSessionsError:
    return PartitionMovedError() if isinstance(lost, LogFencedError) else PartitionFencedError()


class Partition:
    """Streams with durable appends, consistent reads and live tails.

    ``backlog`` is what waits for a flush; ``epoch`` is the position of the claim that owns the log, and
    ``lost`` says how that ownership ended.
    """

    def __init__(
        self, log: Log, clock: Clock, limits: Limits, archive: Archive, retention: Retention
    ) -> None:
        self._log = log
        self._clock = clock
        self._limits = limits
        self._archive = archive
        self._loop = asyncio.get_running_loop()
        self.backlog = FlushBacklog(clock)
        self._state = State(archive.cold, self._warmed, retention.govern)
        self._published = PublishedStreams(limits, self._warm, archive.stream_count())
        self._reader = Reader(self._published, log, archive.records)
        self._folders = Folders(self._state, self._published, archive)
        self._scan = StreamScan(self._state, self._published, archive)
        self._holders = SlotHolders(self._state, self._published, archive)
        expiry = ExpiryQueue()
        self._eviction = StreamEviction(self._state, self._published, expiry, archive, limits)
        self._flush = LogFlush(log, archive, self.backlog, self._state, self._published, limits)
        self._publisher = Publisher(self._state, self._published, expiry, self.backlog)
        self._committer = Committer(log, self._publisher.publish, limits, self.step_down)
        self._expiration = StreamExpiration(
            self._state, expiry, archive, self._committer, self._submit_unwatched, limits
        )
        self._quotas: Quotas | None = None
        self._placed: PlacedNames | None = None
        self._stepped_down: asyncio.Future[Lost] = self._loop.create_future()
        self.lost: Lost | None = None
        self.epoch = 0

    @classmethod
    async def open(
        cls,
        log: Log,
        clock: Clock,
        limits: Limits,
        archive: Archive | None = None,
        retention: Retention = NO_RETENTION,
        quotas: Quotas | None = None,
        claimant: Claimant = EMBEDDED,
        placed: PlacedNames | None = None,
        epoch: int | None = None,
    ) -> "Partition":
        """Return a partition that has claimed and replayed its log and knows all that was acknowledged.

        ``placed`` decides which names it may create, if there are other partitions. ``epoch`` is that of a
        log that is claimed already.
        """
        archive = archive or NothingArchived(ONLY_PARTITION)
        await archive.govern(retention)
        partition = cls(log, clock, limits, archive, retention)
        archive.call_when_lost(partition.step_down)
        partition._placed = placed
        partition._state.has_neighbours = placed is not None
        partition._state.next_stream = archive.next_stream
        partition._state.outbox.source = log.lineage or ""
        if quotas is not None:
            quotas.state = partition._state
        if quotas is not None and quotas.bounded:
            partition._quotas = quotas
            partition._state.usages = Usages(archive.usage())
        try:
            partition.epoch = await log.claim(claimant) if epoch is None else epoch
            await partition._replay()
        except (Exception, asyncio.CancelledError):
            await partition._committer.close()
            raise
        return partition

    async def _replay(self) -> None:
        await self._publisher.replay(self._log, self._archive)
        # An entry of the outbox takes more than a byte of the log. So numbers that begin with a position are
        # new ones, even if a repair has lost the newest entries.
        newest = self.backlog.newest
        self._state.outbox.number_from(self._archive.flushed_through if newest is None else newest.position)
        for count, stream in enumerate(list(self._state.by_id.values()), 1):
            if count % (10 * _STEP_STREAMS) == 0:
                await asyncio.sleep(0)
            lifetime.grant_lag(stream, self._limits)

    def step_down(self, lost: Lost) -> None:
        """Acknowledge and answer nothing any more: another writer has the log or the bucket.

        This is final. Log and memory may contain what is no longer true, so nothing can be recovered here.
        """
        logger.critical("stepped_down", reason=str(lost))
        self.lost = lost
        self._committer.stop(_refusal(lost))
        self._published.wake_all()
        if not self._stepped_down.done():
            self._stepped_down.set_result(lost)

    def log_failed(self, reason: str) -> None:
        """Accept nothing more: the log has failed in a way that no append has met yet."""
        self._committer.fail(reason)

    async def until_lost(self) -> Lost:
        """Wait until another writer has the log or the bucket, and return the error that shows it."""
        return await asyncio.shield(self._stepped_down)

    def require_writer(self) -> None:
        """Refuse if this process has been fenced: its state may be out of date."""
        if self.lost is not None:
            raise _refusal(self.lost)

    async def close(self) -> None:
        """Finish every accepted write; later ones are refused."""
        self._published.wake_all()
        await self._committer.close()

    # Writing ----------------------------------------------------------------------------

    def commit(
        self, decide: Callable[[State, int], tuple[Sequence[Effect], T]], on: Sequence[Key] = ()
    ) -> "asyncio.Future[T]":
        """Decide against the tip now; the future is resolved when that, and all before it, is durable.

        A refusal waits for that as well, since it may rest on something that is not yet durable. If one of
        the streams in ``on`` has expired, its removal is made durable first. So once a client was told that
        it is gone, it stays gone, even if the clock is set back.
        """
        self._committer.require_running()
        now_ms = self._clock.now_ms()
        try:
            decided, result = decide(self._state, now_ms)
            if self._quotas is not None:
                self._quotas.check(self._state, decided)
            if self._placed is not None:
                self._placed.check(self._state, decided)
        except DurableSessionsError as error:
            for key in on:
                self._expiration.expire(key, now_ms)
            return self._refuse(error)
        return self._commit(decided, result) if decided else self._committer.settled(result)

    def _commit(self, decided: Sequence[Effect], result: T) -> "asyncio.Future[T]":
        """Encode, apply and submit; a failure to encode changes nothing, one to apply stops the partition."""
        entry = Entry(decided, self._loop.create_future(), result)
        # No await between deciding, applying and submitting: the log must get the effects in the order in
        # which they were decided.
        try:
            for effect in decided:
                self._state.apply(effect)
        except Exception as error:
            self._diverged(error)
            raise
        return self._committer.submit(entry)

    def _diverged(self, error: Exception) -> None:
        """Stop: the tip is no longer what the log will contain."""
        self._committer.fail(f"an effect could not be applied: {error!r}")

    def create(self, key: Key, request: Create, anchor_end: int | None = None) -> "asyncio.Future[Created]":
        """Create a stream durably, or confirm that the same one exists.

        A fork past its anchor needs :meth:`anchor_end`.
        """
        self.admit(len(request.body))
        keys = (key,) if request.fork is None else (key, Key(key.workspace, request.fork.source))
        return self.commit(
            lambda state, now: create.decide(state, key, request, now, self._limits, anchor_end), keys
        )

    def require_running(self) -> None:
        """Refuse after the log has failed, and after a close."""
        self._committer.require_running()

    async def until_log_failed(self) -> None:
        """Wait until the log has failed, or another writer has the bucket."""
        await self._committer.failed.wait()

    async def anchor_end(self, key: Key, fork: Fork) -> int | None:
        """Return where the append at a fork's anchor ends; None if no durable append contains it."""
        source = self._published.get(Key(key.workspace, fork.source))
        if source is None or fork.anchor is None:
            return None
        return await self._reader.append_end(source, fork.anchor)

    def append(self, key: Key, request: Append) -> "asyncio.Future[AppendResult]":
        """Append durably, all or nothing, exactly once if the request names its producer."""
        self.admit(len(request.body))
        return self.commit(lambda state, now: append.decide(state, key, request, now, self._limits), (key,))

    def append_told(self, key: Key, body_bytes: int, decide: DecidePlain[T], told: Told[T]) -> bool:
        """Append to a stream without a future, and tell of it when it is durable.

        ``decide`` returns None for all that is not plain. Then, and wherever something could be refused,
        nothing has changed and the answer is False: the append has to be made in another way.
        """
        committer, state, limits = self._committer, self._state, self._limits
        if (
            self.lost is not None
            or committer.stopped is not None
            or self._quotas is not None
            or committer.pending_bytes + body_bytes > limits.pending_bytes_max
            or self.backlog.bytes_held + body_bytes > limits.unflushed_bytes_max
        ):
            return False
        stream = state.streams.get(key) or state.get(key)
        if stream is None:
            return False
        decided = decide(stream, self._clock.now_ms())
        if decided is None:
            return False
        effect, result = decided
        entry = ToldEntry(effect, told, result)
        try:
            state.append(effect)
        except Exception as error:
            self._diverged(error)
            raise
        committer.enqueue(entry)
        return True

    def delete(self, key: Key, companion: Companion | None = None) -> "asyncio.Future[None]":
        """Delete a stream durably; its records stay as long as forks need them."""

        def decide(state: State, now_ms: int) -> tuple[Sequence[Effect], None]:
            return accompanied(lifetime.delete(state, key, now_ms), companion, state, now_ms), None

        return self.commit(decide, (key,))

    def settled(self) -> "asyncio.Future[None]":
        """Return a future that is resolved when everything decided so far is durable."""
        return self._committer.settled(None)

    @property
    def refusal(self) -> str | None:
        """Why appends are refused now; None if they are accepted."""
        if self.lost is not None:
            return str(self.lost)
        if self._committer.failure is not None:
            return self._committer.failure
        if self.backlog.bytes_held >= self._limits.unflushed_bytes_max:
            return f"{self.backlog.bytes_held} bytes wait to be flushed to the bucket"
        return None

    def admit(self, body_bytes: int) -> None:
        """Shed a request if too many bytes are waiting to become durable or to be flushed."""
        if self._committer.pending_bytes + body_bytes > self._limits.pending_bytes_max:
            raise OverloadedError(what="appends not yet durable")
        if self.backlog.bytes_held + body_bytes > self._limits.unflushed_bytes_max:
            raise OverloadedError(what="appends not yet in the bucket")

    def admit_document(self, size: int) -> None:
        """Shed a request that stores a document if documents take too much memory, or as for an append."""
        self.admit(size)
        if self._state.attribute_bytes + size > _DOCUMENTS_MAX * self._limits.attribute_bytes_max:
            raise OverloadedError(what="documents in memory (attribute_bytes_max)")

    def _refuse(self, error: DurableSessionsError) -> "asyncio.Future[T]":
        refused: asyncio.Future[T] = self._loop.create_future()
        error.with_traceback(None)  # its frames refer to the future, which refers to the error: a cycle

        def refuse(settled: "asyncio.Future[None]") -> None:
            failure = settled.exception()
            if not refused.done():
                refused.set_exception(failure or error)

        self._committer.settled(None).add_done_callback(refuse)
        return refused

    # Lifetime ---------------------------------------------------------------------------

    def find(self, key: Key) -> DurableStream:
        """Return a durable stream, or refuse; wait for ``settled`` before answering a refusal."""
        self.require_writer()
        durable = self._published.get(key)
        if durable is None:
            raise StreamNotFoundError(path=key.path)
        durable.stream.era = self._state.era
        if durable.removed:
            raise StreamGoneError(path=key.path)
        now = self._clock.now_ms()
        if durable.stream.expired(now):
            self._committer.require_running()  # its removal could not be made durable
            kept_for_forks = durable.stream.forks > 0
            self._expiration.expire(key, now)
            raise StreamGoneError(path=key.path) if kept_for_forks else StreamNotFoundError(path=key.path)
        return durable

    def peek(self, key: Key) -> DurableStream | None:
        """Return the durable stream at a path, even if it is removed or expired; None if there is none."""
        return self._published.get(key)

    def peek_id(self, number: int) -> DurableStream | None:
        """Return a durable stream by its number, even if it is removed or expired; None if there is none."""
        return self._published.get_id(number)

    def is_deleted(self, number: int) -> bool:
        """Say whether a stream that forks refer to is durably deleted; nothing is loaded."""
        durable = self._published.by_id.get(number)
        if durable is not None:
            return durable.removed
        stream = self._state.peek_id(number)
        return stream is None or stream.soft_deleted

    def in_memory(self, number: int) -> DurableStream | None:
        """Return a stream only if it is in memory; nothing is loaded."""
        return self._published.by_id.get(number)

    def named(self, view: StreamView, name: str) -> Name | None:
        """Return which records of a stream (or inherited ones) have a name; they may not be durable yet."""
        assert isinstance(view, DurableStream)
        return self._state.named(view.stream, name)

    def forks(self, number: int) -> Iterator[int]:
        """Yield the numbers of a stream's forks; some may not be durable yet."""
        return self._state.forks(number)

    @property
    def next_stream(self) -> int:
        """The number that the next stream gets."""
        return self._state.next_stream

    def slot(self, view: StreamView, name: str, end: int) -> int | None:
        """Return the position of the record before an end that holds a slot there, also an inherited one."""
        assert isinstance(view, DurableStream)
        return self._state.slot(view.stream, name, end)

    def slot_history(self, view: StreamView, name: str) -> Iterator[int]:
        """Yield the positions of a stream's own records that ever held a slot, the newest first."""
        assert isinstance(view, DurableStream)
        return self._state.slot_history(view.stream, name)

    def slot_changes(self, view: StreamView) -> int:
        """Return how often the slots of a stream have changed, as decided so far."""
        assert isinstance(view, DurableStream)
        return view.stream.slot_changes

    def slot_names(self, view: StreamView, names: NameRange, limit: int, *, held: bool) -> Sequence[str]:
        """Return the next names of slots that may be held, in order; fewer than ``limit`` at the end."""
        assert isinstance(view, DurableStream)
        return self._state.slot_names(view.stream, names, limit, held=held)

    def holders(
        self, workspace: str, slot: str, after: int | None, limit: int, *, newest_first: bool
    ) -> tuple[StreamPage, int | None]:
        """Return the next durable streams that hold a slot, and after which number the next page begins."""
        return self._holders.page(workspace, slot, after, limit, newest_first=newest_first)

    def touch(self, view: StreamView) -> None:
        """Note an access to a stream; it is recorded durably within the documented lag."""
        assert isinstance(view, DurableStream)
        if view.stream.ttl_seconds is None and view.stream.idle_ms is None:
            return
        stream = self._state.get_id(view.stream.id)  # it may have been evicted
        if stream is None or stream.soft_deleted:
            return
        self._submit_unwatched(lifetime.touch(stream, self._clock.now_ms(), self._limits))

    def expire(self) -> None:
        """Remove the streams that have expired, or were idle for as long as their policy allows.

        Expired streams are answered as missing already. Idle ones are found once the catalog knows of them.
        """
        for _ in self._expiration.expiring(self._clock.now_ms()):
            pass

    async def expire_now(self) -> None:
        """Remove all expired streams durably before returning; in steps, so that other work can run."""
        before = self._expiration.removed
        await self.expire_in_steps()
        if self._expiration.removed != before:
            await self.settled()

    async def expire_in_steps(self) -> None:
        """Do the same as :meth:`expire` in steps, so that other work can run."""
        for count, _ in enumerate(self._expiration.expiring(self._clock.now_ms()), 1):
            if count % _STEP_STREAMS == 0:
                await asyncio.sleep(0)

    def _submit_unwatched(self, decided: Sequence[Effect]) -> None:
        """Submit effects whose future nobody awaits; a failure of the log is reported by other futures."""
        if not decided or self._committer.failure is not None:
            return
        self._commit(decided, None).add_done_callback(lambda done: done.exception())

    @property
    def tip(self) -> State:
        """The state when everything decided so far is durable; only for modules of storage itself."""
        return self._state

    # Moving to the bucket ---------------------------------------------------------------

    async def check_fence(self) -> None:
        """Raise ManifestLostError if another writer has the bucket."""
        await self._archive.check_fence()

    async def settle_erasures(self) -> None:
        """Drop the overlay of records that are gone from the bucket, and let the log drop them as well.

        The effect goes to a new file of the log: when it is flushed, all files that may have the erased
        records are trimmed.
        """
        settled = self._archive.settled_erasures(_SETTLED_STREAMS)
        # What was erased once more since the last flush is stored as the first erasure left it.
        effects = [
            ErasuresSettled(number, tuple(found))
            for number, records in settled
            if (stream := self._state.get_id(number)) is not None
            and (found := [one.position for one in records if stream.overlay.get(one.position) == one])
        ]
        if effects:
            self._log.begin_file()
            await self.commit(lambda _state, _now: (effects, None))

    async def flush(self) -> bool:
        """Flush durable batches to the bucket and trim the log; say whether there were any.

        Flushes are serialised. A failure leaves everything as it was. A flush is bounded in bytes, and in
        effects, each of which may change another stream.
        """
        return await self._flush.step()

    async def skip_empty_frames(self) -> bool:
        """Trim a log in which nothing but empty frames follows the last flush; say whether it was one.

        A quiet log grows by the frames that prove its ownership, and nothing else would ever trim them.
        """
        through = self._log.ends_at
        await self.settled()  # after this, every batch up to there is in the backlog
        return through is not None and await self._flush.skip(through)

    def crowded(self, times: int = 1) -> bool:
        """Say whether the streams in memory, or their documents, exceed ``times`` their budget."""
        return self._eviction.crowded(times)

    async def evict_idle(self) -> int:
        """Evict streams that are flushed entirely and were not used for an era; return how many.

        Called once per era, and earlier if streams take too much memory.
        """
        self._state.era += 1
        if not self.crowded():
            return 0
        await self.settled()  # after this, an idle stream has nothing pending
        return await self._eviction.evict_idle()

    def _warm(self, name: Key | int) -> Stream | None:
        return self._state.get_id(name) if isinstance(name, int) else self._state.get(name)

    def _warmed(self, stream: Stream) -> None:
        self._published.warmed(stream)

    # Listing ----------------------------------------------------------------------------

    @property
    def folders(self) -> FolderPages:
        """The streams of each folder, page by page."""
        return self._folders

    def stream_pages(self, prefix: str, limit: int) -> Iterator[Sequence[ScannedStream]]:
        """Yield all streams with a path prefix, of all workspaces, including those kept only for forks."""
        return self._scan.stream_pages(prefix, limit)

    def path_pages(self, workspace: str, prefix: str = "") -> Iterator[Sequence[tuple[int, str]]]:
        """Yield number and path of a workspace's streams with a path prefix, a page at a time."""
        return self._scan.path_pages(workspace, prefix)

    @property
    def stream_count(self) -> int:
        """How many durable streams exist, including those kept only for forks."""
        return self._published.count

    @property
    def active_streams(self) -> int:
        """How many streams are in memory."""
        return len(self._state.by_id)

    # Reading ----------------------------------------------------------------------------

    def read(self, view: StreamView, start: int, bytes_max: int, stop: int | None = None) -> Awaitable[Slice]:
        """Return durable records from ``start`` up to ``stop``, at least one if there are any."""
        assert isinstance(view, DurableStream)
        return self._reader.read(view, start, bytes_max, stop)

    def read_pieces(
        self, view: StreamView, start: int, bytes_max: int, stop: int | None = None
    ) -> Awaitable[tuple[list[memoryview], int]]:
        """Return the same in pieces that can be kept, uncopied where possible, and the position after."""
        assert isinstance(view, DurableStream)
        return self._reader.read_pieces(view, start, bytes_max, stop)

    def read_hot(
        self, view: StreamView, start: int, bytes_max: int, stop: int | None = None
    ) -> tuple[list[memoryview], int] | None:
        """Return the same pieces and position if all of them are in memory; otherwise None.

        The memoryviews are not copies: release them before the next append, whose buffer they pin.
        """
        assert isinstance(view, DurableStream)
        return self._reader.read_hot(view, start, bytes_max, stop)

    def owner(self, view: StreamView, position: int) -> tuple[DurableStream, int]:
        """Return the stream of the fork chain that contains a position, and where its part ends."""
        assert isinstance(view, DurableStream)
        return self._reader.owner(view, position)

    def erasures(self, view: StreamView) -> int:
        """Return how many records were erased of a stream and of all that it inherits from."""
        assert isinstance(view, DurableStream)
        return self._reader.erasures(view)

    @property
    def erased_records(self) -> int:
        """How many records were erased since the partition was opened; a cache is void when it changes."""
        return self._published.counters.erased

    # Changes ----------------------------------------------------------------------------

    def wait(self, view: StreamView) -> "asyncio.Future[None]":
        """Return a future that is resolved at the stream's next durable change; cancel it when not needed."""
        assert isinstance(view, DurableStream)
        return self._published.wait(view)

    def wake_readers(self) -> None:
        """Wake every waiting reader, so that it can end."""
        self._published.wake_all()

    def listen(self, listener: StreamListener) -> None:
        """Notify a listener of every durable change from now on; if it fails, appends go on."""
        self._published.listeners.add(listener)

    @property
    def failing_listeners(self) -> Mapping[str, str]:
        """The listeners that have failed and will reconcile, with the reason."""
        return self._published.listeners.failing

    async def reconcile_listeners(self) -> None:
        """Let failed listeners reconcile; runs until cancelled."""
        await self._published.listeners.run()

    def counts(self) -> PartitionCounts:
        """Return the counters for metrics."""
        published, committer, state = self._published, self._committer, self._state
        durations = committer.durations
        return PartitionCounts(
            appends=published.counters.appends,
            records=published.counters.records,
            append_bytes=published.counters.bytes,
            log_reads=self._reader.log_reads,
            bucket_reads=self._reader.bucket_reads,
            streams_expired=self._expiration.removed,
            records_erased=published.counters.erased,
            sync_seconds=SyncSeconds(SYNC_SECONDS_BOUNDS, tuple(durations.counts), durations.sum_seconds),
            streams=published.count,
            active_streams=len(state.by_id),
            memory_bytes=published.memory_bytes,
            pending_bytes=committer.pending_bytes,
            unflushed_bytes=self.backlog.bytes_held,
            waiting_readers=published.waiting,
            subscriptions=len(state.subscriptions),
            subscription_bytes=state.subscriptions.bytes_held,
            outbox_bytes=state.outbox.bytes_held,
            document_bytes=state.attribute_bytes,
            stopped=committer.failure is not None,
            listener_failures=dict(published.listeners.failures),
        )
