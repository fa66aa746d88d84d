"""Group commit: one batch is being synced while the next is formed."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import structlog

from durable_sessions.durations import Durations
from durable_sessions.errors import (
    DurableSessionsError,
    LogError,
    LogFencedError,
    LogFullError,
    OutcomeUnknownError,
    PartitionStoppedError,
    ShuttingDownError,
)
from durable_sessions.limits import Limits
from durable_sessions.log import Log
from durable_sessions.storage import batch
from durable_sessions.storage.door import Told
from durable_sessions.streams.effects import Effect

logger = structlog.get_logger(__name__)

T = TypeVar("T")
Publish = Callable[[int, "list[Entry[object]]"], None]
"""Shows a durable batch to readers: its log position and its entries."""


SYNC_SECONDS_BOUNDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


class Entry(Generic[T]):
    """Effects that become durable together, and the futures that wait for that."""

    __slots__ = ("effects", "encoded", "future", "result", "settlers", "size")

    def __init__(self, effects: Sequence[Effect], future: "asyncio.Future[T]", result: T) -> None:
        self.effects = effects
        self.encoded: Sequence[bytes] = [batch.encode(effect) for effect in effects]
        self.size = sum(map(len, self.encoded))
        self.future = future
        self.result = result
        self.settlers: list[tuple[asyncio.Future[object], object]] = []

    def durable(self) -> None:
        """Resolve the futures; the future of a client that has disconnected is cancelled already."""
        if not self.future.done():
            self.future.set_result(self.result)
        self._settle()

    def failed(self, error: DurableSessionsError) -> None:
        """Fail the futures: the log failed."""
        if not self.future.done():
            self.future.set_exception(error)
        self._fail_settlers(error)

    def _settle(self) -> None:
        for future, result in self.settlers:
            if not future.done():
                future.set_result(result)

    def _fail_settlers(self, error: DurableSessionsError) -> None:
        for future, _ in self.settlers:
            if not future.done():
                future.set_exception(error)


class ToldEntry(Entry[T]):
    """Effects that somebody waits for without a future: most appends are such."""

    __slots__ = ("told",)

    def __init__(self, effect: Effect, told: Told[T], result: T) -> None:
        encoded = batch.encode(effect)
        self.effects = (effect,)
        self.encoded = (encoded,)
        self.size = len(encoded)
        self.settlers = []
        self.result = result
        self.told = told

    def durable(self) -> None:
        """Tell that the effects are durable, and resolve the futures of who rests on them."""
        try:
            self.told.durable(self.result)
        except Exception:  # a bug of who is told: the log goes on, and so do all others
            logger.exception("append_not_told")
        if self.settlers:
            self._settle()

    def failed(self, error: DurableSessionsError) -> None:
        """Tell that the log has failed."""
        try:
            self.told.failed(error)
        except Exception:
            logger.exception("append_not_told")
        self._fail_settlers(error)


class Committer:
    """Makes effects durable in the order given, then publishes them, then answers.

    After a failed append nothing more is accepted: what is on disk is unknown until the log
    has been replayed. ``failed`` is set after a failure, and after :meth:`stop`; ``stopped`` is why nothing
    more is accepted.
    """

    def __init__(
        self, log: Log, publish: Publish, limits: Limits, on_fenced: Callable[[LogFencedError], None]
    ) -> None:
        self._log = log
        self._publish = publish
        self._on_fenced = on_fenced
        self._batch_bytes_max = limits.batch_bytes_max
        self._loop = asyncio.get_running_loop()
        self._queue: list[Entry[object]] = []
        self._flying: list[Entry[object]] = []
        self._idle: asyncio.Future[None] | None = None
        self._closing = False
        self.stopped: DurableSessionsError | None = None
        self.failed = asyncio.Event()
        self.pending_bytes = 0
        self.durations = Durations(SYNC_SECONDS_BOUNDS)
        self._task = self._loop.create_task(self._guarded_run(), name="committer")

    @property
    def failure(self) -> str | None:
        """Why nothing more is accepted; None while it is."""
        return None if self.stopped is None else str(self.stopped)

    def require_running(self) -> None:
        """Refuse new work after a failure or a close."""
        if self.stopped is not None:
            raise self.stopped

    def submit(self, entry: "Entry[T]") -> "asyncio.Future[T]":
        """Return a future for the entry's result, resolved when it and everything before it is durable."""
        future = entry.future
        if self.stopped is not None:
            future.set_exception(self.stopped)
        else:
            self.enqueue(entry)
        return future

    def enqueue(self, entry: "Entry[T]") -> None:
        """Make an entry durable after everything before it; only while nothing has failed."""
        self.pending_bytes += entry.size
        self._queue.append(entry)  # type: ignore[arg-type]  # an entry of any result
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def settled(self, result: T) -> "asyncio.Future[T]":
        """Return a future for ``result``, resolved when everything submitted so far is durable."""
        future: asyncio.Future[T] = self._loop.create_future()
        pending = self._queue or self._flying
        if pending:  # batches become durable in order, so the last entry stands for all before it
            pending[-1].settlers.append((future, result))  # type: ignore[arg-type]  # a future of any result
        else:
            future.set_result(result)
        return future

    def fail(self, reason: str) -> None:
        """Accept nothing more: the tip has diverged from what the log will contain."""
        self._fail(LogError(reason=reason))

    def stop(self, error: DurableSessionsError) -> None:
        """Acknowledge nothing more, not even the batch that is being written."""
        if self.stopped is None:
            self.stopped = error
            self._refuse(OutcomeUnknownError(reason=str(error)))
            self.failed.set()
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    async def close(self) -> None:
        """Finish what was submitted, then accept nothing more."""
        self._closing = True
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)
        await self._task

    async def _guarded_run(self) -> None:
        try:
            await self._run()
        except Exception as error:  # a bug: fail every future, so that no client waits forever
            logger.exception("committer_failed")
            self._fail(LogError(reason=repr(error)))

    async def _run(self) -> None:
        while True:
            if not self._queue:
                if self._closing or self.stopped is not None:
                    self.stopped = self.stopped or ShuttingDownError()
                    return
                self._idle = self._loop.create_future()
                await self._idle
                continue
            flying = self._flying = self._take()
            payload = b"".join([part for entry in flying for part in entry.encoded])
            started = self._loop.time()
            try:
                position = await self._log.append(payload)
            except LogFencedError as error:
                # The batch is certainly not in the log. Moved back to the queue, it gets the definite refusal
                # of the queued ones instead of an unknown outcome.
                self._queue = self._flying + self._queue
                self._flying = []
                self._on_fenced(error)
                return
            except LogError as error:
                self._fail(error)
                return
            if self.stopped is not None:
                return  # stopped during the write: the batch is on disk, but must not be acknowledged
            # Published before it is acknowledged: a client that reads after its answer finds what it wrote.
            self._publish(position, flying)
            self._flying = []
            self.durations.add(self._loop.time() - started)
            self.pending_bytes -= sum([entry.size for entry in flying])
            for entry in flying:
                entry.durable()
            if self._queue:
                # Answers are sent when the event loop runs on, and then what has come meanwhile is read, too:
                # it joins this batch. A sync costs as much processor time as several appends.
                await asyncio.sleep(0)

    def _take(self) -> list[Entry[object]]:
        """Take the entries of the next batch: all of them, or as many as fit into one frame."""
        size = 0
        for count, entry in enumerate(self._queue):
            size += entry.size
            if size > self._batch_bytes_max and count:  # the first entry is always taken, whatever its size
                taken, self._queue = self._queue[:count], self._queue[count:]
                return taken
        taken, self._queue = self._queue, []
        return taken

    def _fail(self, error: LogError) -> None:
        if self.stopped is not None:
            return
        reason = str(error)
        logger.critical("partition_stopped", reason=reason)
        self.failed.set()
        self.stopped = PartitionStoppedError(reason=reason)
        # Only a full log says that the batch is certainly not there; after any other error it may be.
        certain = isinstance(error, LogFullError)
        self._refuse(self.stopped if certain else OutcomeUnknownError(reason=reason))

    def _refuse(self, flying: DurableSessionsError) -> None:
        """Fail all futures: what is being written as given, the rest because it certainly never happens."""
        assert self.stopped is not None
        for entries, failure in ((self._flying, flying), (self._queue, self.stopped)):
            for entry in entries:
                entry.failed(failure)
        self._queue = []
        self._flying = []
