"""Feeds the search process with what has become durable, without ever delaying an append.

For every session with unsent events the feed knows where these begin, and nothing else: the events themselves
are read when they are sent, from memory, from the log or from the bucket. So it can fall behind without using
more memory. When the search process starts, its tails are compared with all sessions, and the difference is
sent. A search names the streams that it is about and waits until those were sent.
"""

import asyncio
import shutil
from collections import deque
from collections.abc import AsyncIterator, Collection, Iterable
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

import structlog

from durable_sessions.clock import Clock
from durable_sessions.errors import DurableSessionsError, SearchUnavailableError
from durable_sessions.limits import Limits
from durable_sessions.search.backlog import Backlog, Unsent
from durable_sessions.search.forks import Forks
from durable_sessions.search.link import WorkerLink
from durable_sessions.search.messages import Add, Remove
from durable_sessions.search.tails import IndexedTails
from durable_sessions.sessions.record import FOLDER
from durable_sessions.storage.door import Streams
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.tasks import Task, TaskSupervisor

CHUNK_BYTES = 512 * 1024
"""How much of a stream is read and sent at a time."""
GATHER_SECONDS = 0.5
"""How long events gather before they are sent, unless a search waits for them."""
QUIET_SECONDS = 2.0
"""How long after the first event the process is started, unless a search needs it."""
RETRY_SECONDS = 1.0
RETRY_SECONDS_MAX = 30.0
"""The pause after a failure; it doubles up to the maximum while the process keeps failing."""
GOALS_MAX = 5_000
"""How many streams one search waits for; if more have to be sent, it first waits until fewer are left."""
_PAGE_STREAMS = 50
_NO_END = 2**62
_PREFIX = FOLDER + "/"

T = TypeVar("T")

logger = structlog.get_logger(__name__)


class WorkerCoverage(NamedTuple):
    """A worker, and which of the events in the scope of a search were not sent to it.

    ``unsent`` has the first missing position of each stream that was named and has missing events.
    """

    link: WorkerLink
    is_complete: bool
    unsent: dict[int, int]
    since_ms: int | None
    """Before which time nothing is missing; None if that is not known."""


class _Waiter(NamedTuple):
    """A search that waits until streams were sent up to these positions, and all removals too.

    Reached goals are dropped. None means that it waits for the comparison, which finds what must be sent.
    """

    goals: deque[tuple[int, int]] | None
    done: "asyncio.Future[None]"


class Feed:
    """Sends the durable events of sessions to a worker, and keeps a worker running."""

    def __init__(self, streams: Streams, clock: Clock, directory: Path, lineage: str, limits: Limits) -> None:
        self._limits = limits
        self._streams = streams
        self._clock = clock
        self._directory = directory
        self._lineage = lineage
        self._unsent = Backlog()
        self._removals: dict[tuple[str, int], int] = {}  # by workspace and stream: from which position
        self._waiters: list[_Waiter] = []
        self._work = asyncio.Event()
        self._hurry = asyncio.Event()
        self._task: Task | None = None
        self._link: WorkerLink | None = None
        self.forks = Forks()
        self._is_discarded = False
        self._failed_starts = 0
        self._unpaused = asyncio.Event()
        self._unpaused.set()
        self.paused: str | None = None
        self.compared = False
        self._failure: str | None = None
        self.starts = 0
        self.kills = 0
        self.events_sent = 0
        self.events_lacking = 0

    def start(self, supervisor: TaskSupervisor) -> None:
        """Begin to listen to the partition; its existing streams are compared with the index soon."""
        self._streams.listen(self)
        if self._directory.exists() or self._streams.stream_count:
            self._work.set()
        self._task = supervisor.start("search feed", self._guarded_run)

    async def close(self) -> None:
        """Stop; the worker commits what it was sent."""
        if self._task is not None:
            await self._task.stop()
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    @property
    def backlog(self) -> int:
        """How many streams have events that were not sent yet."""
        return len(self._unsent)

    @property
    def is_building(self) -> bool:
        """Whether the index is missing events that existed before this process or the worker began."""
        if not self.compared:
            return self._work.is_set()
        return self._unsent.has_older

    @property
    def failure(self) -> str | None:
        """Why events cannot be indexed or searched now, None if they can."""
        if self._failure is None and self._link is not None and not self._link.lost:
            return self._link.silence
        return self._failure

    @property
    def events_left(self) -> int:
        """About how many of the older events the index is still missing."""
        return max(0, self.events_lacking - self.events_sent) if self.is_building else 0

    def pause(self, reason: str | None) -> None:
        """Stop sending for this reason, or go on with None; searches find what was sent before."""
        self.paused = reason
        if reason is None:
            self._unpaused.set()
        else:
            self._unpaused.clear()

    def rebuild(self) -> None:
        """Rebuild the index in the background; until that is done, searches say how far they reach."""
        self._is_discarded = True
        self.compared = False
        if self._link is not None:
            self._link.drop()
        self._work.set()

    # Called by the partition ------------------------------------------------------------

    name = "search"

    def reconcile(self) -> None:
        """Compare the index with all sessions again, because something may have been missed."""
        self.compared = False
        self.forks = Forks()  # the comparison fills it
        if self._link is not None:
            self._link.drop()
        self._work.set()

    def stream_created(self, stream: StreamRecord) -> None:
        """Note a new fork."""
        if stream.parent is not None and stream.key.path.startswith(_PREFIX):
            self.forks.add(stream)

    def stream_appended(self, stream: StreamRecord, first: int) -> None:
        """Note that there is something to send."""
        # Only the first unsent position is kept: everything after it is sent with it.
        if stream.id not in self._unsent and stream.key.path.startswith(_PREFIX):
            self._unsent[stream.id] = Unsent(stream.key.workspace, first, self._clock.now_ms())
            self._work.set()

    def stream_removed(self, stream: StreamRecord) -> None:
        """Note that a session is gone, or is kept only for its forks."""
        if not stream.key.path.startswith(_PREFIX):
            return
        if not stream.forks:
            self._unsent.drop(stream.id)
        # Removing a fork can also shorten what is still readable of its deleted ancestors.
        for number in self.forks.remove(stream):
            is_gone = number == stream.id and not stream.forks
            end = 0 if is_gone else self.forks.visible_end(number, _NO_END)
            self._removals[stream.key.workspace, number] = end
        self._work.set()
        self._wake_waiters()

    # Called by searches -----------------------------------------------------------------

    async def caught_up(
        self, workspace: str, streams: Collection[int] | None, seconds_max: float
    ) -> WorkerCoverage:
        """Return the worker once it was sent all that is durable now of these streams, or of a workspace.

        If that takes too long, the worker is returned anyway, with what it is missing.
        """
        is_complete = False
        try:
            # While the feed is paused nothing is sent, so waiting would be in vain.
            async with asyncio.timeout(seconds_max if self.paused is None else 0):
                while not is_complete:
                    is_complete = await self._catch_up(workspace, streams)
        except TimeoutError:
            pass
        if self._link is None or self._link.lost:
            failure = self.failure if self._failed_starts else None
            raise SearchUnavailableError(reason=failure or self.paused or "the search process is starting")
        if streams is None:
            since_ms = self._unsent.workspace_since_ms(workspace)
            return WorkerCoverage(self._link, is_complete, {}, self._reached_ms(since_ms))
        starts = {number: self._unsent[number].start for number in streams if number in self._unsent}
        unsent = {number: start for number, start in starts.items() if start < self._goal(number)}
        if not self.compared:
            unsent |= dict.fromkeys(streams, 0)
        return WorkerCoverage(
            self._link, is_complete, unsent, self._reached_ms(self._unsent.since_ms(unsent))
        )

    def _reached_ms(self, since_ms: int | None) -> int | None:
        """Return the time before which nothing is missing, None if that is unknown."""
        if not self.compared:
            return None
        return self._clock.now_ms() if since_ms is None else since_ms or None

    async def _catch_up(self, workspace: str, streams: Collection[int] | None) -> bool:
        """Wait until everything was sent; return False if the worker was replaced meanwhile."""
        while not self._is_ready():
            await self._wait(None)
        worker = self.starts
        while streams is None and len(self._unsent.of(workspace)) > GOALS_MAX and self._is_ready():
            await self._wait(deque([self._distant_goal(workspace)]))
        wanted = self._unsent.of(workspace) if streams is None else streams
        goals = deque((number, self._goal(number)) for number in wanted if number in self._unsent)
        if goals or self._removals:
            await self._wait(goals)
        # What was sent to a worker that was replaced meanwhile may be lost with it.
        return self._is_ready() and self.starts == worker

    def _distant_goal(self, workspace: str) -> tuple[int, int]:
        """Return a goal that is met when there are clearly fewer streams to send of a workspace."""
        number = next(islice(self._unsent.of(workspace), GOALS_MAX // 2, None))
        return number, self._goal(number)

    async def _wait(self, goals: deque[tuple[int, int]] | None) -> None:
        waiter = _Waiter(goals, asyncio.get_running_loop().create_future())
        self._waiters.append(waiter)
        self._hurry.set()
        self._work.set()
        try:
            await waiter.done
        finally:
            self._waiters.remove(waiter)
            if not self._waiters:
                self._hurry.clear()

    def _is_ready(self) -> bool:
        return self.compared and not self._is_discarded and self._link is not None and not self._link.lost

    def _goal(self, stream: int) -> int:
        """Return up to where a stream is durable now; nothing is added to one that is not in memory."""
        durable = self._streams.in_memory(stream)
        return _NO_END if durable is None else self.forks.visible_end(stream, durable.tail)

    def _wake_waiters(self) -> None:
        """Wake the searches whose goals are reached."""
        for waiter in self._waiters:
            if not waiter.done.done() and self._has_reached(waiter.goals):
                waiter.done.set_result(None)

    def _has_reached(self, goals: deque[tuple[int, int]] | None) -> bool:
        if goals is None or not self._is_ready():
            return self._is_ready()
        self._drop_reached(goals)
        return not goals and not self._removals

    def _drop_reached(self, goals: deque[tuple[int, int]]) -> None:
        """Drop the first goals that are reached; since each is dropped once, the total work stays small."""
        while goals:
            stream, goal = goals[0]
            unsent = self._unsent.get(stream)
            if unsent is not None and unsent.start < goal:
                return
            goals.popleft()

    # Sending ----------------------------------------------------------------------------

    async def _guarded_run(self) -> None:
        try:
            await self._work.wait()
            await self._pause(QUIET_SECONDS)
            await self._run()
        except Exception as error:
            # A bug of ours. Nothing is lost: the next comparison finds what the index is missing.
            self._failure = repr(error)
            if self._link is not None:
                self._link.drop()
            self._work.set()
            raise

    async def _run(self) -> None:
        while True:
            await self._unpaused.wait()
            try:
                while self._link is None or self._link.lost or self._is_discarded:
                    await self._connect()
                await self._send_all()
                self._failure, self._failed_starts = None, 0
            except DurableSessionsError as error:
                if not self._is_discarded:
                    if self._failure is None:
                        logger.error("search_failed", reason=str(error))
                    self._failure = str(error.fields.get("reason", error))
                    if self._link is not None and not self._link.lost:
                        self._failed_starts = 0
                    doublings = max(self._failed_starts - 1, 0)
                    await asyncio.sleep(min(RETRY_SECONDS * 2.0**doublings, RETRY_SECONDS_MAX))
                continue
            self._wake_waiters()
            await asyncio.sleep(0)  # so that the searches that were woken can go on
            if not self._unsent and not self._removals and not self._waiters:
                self._work.clear()
            await self._work.wait()
            await self._pause(GATHER_SECONDS)

    async def _pause(self, seconds: float) -> None:
        """Let some time pass, unless a search waits."""
        try:
            async with asyncio.timeout(seconds):
                await self._hurry.wait()
        except TimeoutError:
            pass

    async def _connect(self) -> None:
        link, self._link, self.compared = self._link, None, False
        if link is not None:
            await link.abort()
            if link.ended_for is not None:
                self.kills += 1
                self._failure = link.ended_for
        if self._is_discarded:
            self._is_discarded = False
            await asyncio.to_thread(shutil.rmtree, self._directory, ignore_errors=True)
        self.starts += 1
        self._failed_starts = min(self._failed_starts + 1, 10)
        self._link = await WorkerLink.open(self._directory, self._lineage, self._limits)
        await self._compare(self._link.tails)
        self._link.tails = IndexedTails()  # freed: there may be an entry for every stream
        self._wake_waiters()

    def _connected(self) -> WorkerLink:
        if self._link is None:
            raise SearchUnavailableError(reason="the search process has ended")
        return self._link

    async def _send_all(self) -> None:
        """Send what there is now, what searches wait for first."""
        streams = deque(self._unsent)
        unreadable: dict[int, DurableSessionsError] = {}
        while streams or self._removals:
            await asyncio.sleep(0)  # sending from memory never waits, so yield to other tasks here
            await self._unpaused.wait()
            await self._send_removals()
            stream = self._awaited(unreadable)
            if stream is None:
                if not streams:
                    continue
                stream = streams.popleft()
            try:
                is_over = await self._send_some(stream)
            except SearchUnavailableError:
                raise  # the worker failed, and not the read of this stream
            except DurableSessionsError as error:
                unreadable[stream] = error  # it must not keep the others out of the index
                continue
            self._wake_waiters()
            if not is_over:
                streams.append(stream)
        if unreadable:
            raise next(iter(unreadable.values()))

    def _awaited(self, unreadable: Collection[int]) -> int | None:
        """Return a stream that a search waits for."""
        for waiter in self._waiters:
            goals = waiter.goals or deque()
            for _ in range(len(unreadable) + 1):
                self._drop_reached(goals)
                if goals and goals[0][0] not in unreadable:
                    return goals[0][0]
                goals.rotate(-1)
        return None

    async def _send_removals(self) -> None:
        while self._removals:
            (workspace, stream), start = next(iter(self._removals.items()))
            await self._connected().send(Remove(workspace, stream, start))
            # While it was sent, more of the same stream may have been removed: then it is sent again.
            if self._removals.get((workspace, stream)) == start:
                del self._removals[workspace, stream]
        self._wake_waiters()

    async def _send_some(self, stream: int) -> bool:
        """Send a chunk of what is to be sent of a stream; say whether that was all."""
        unsent = self._unsent.get(stream)
        durable = None if unsent is None else self._streams.peek_id(stream)
        if unsent is None or durable is None:
            self._unsent.drop(stream)
            return True
        end = self.forks.visible_end(stream, durable.tail)
        if unsent.start < end:
            found = await self._streams.read(durable, unsent.start, CHUNK_BYTES, end)
            await self._connected().send(Add(unsent.workspace, stream, unsent.start, found.data))
            self.events_sent += found.next - unsent.start
            unsent = unsent._replace(start=found.next)
        if stream not in self._unsent:
            return True  # it was removed meanwhile
        # The tail may have moved while the chunk was read and sent.
        if unsent.start >= self.forks.visible_end(stream, durable.tail):
            self._unsent.drop(stream)
            return True
        self._unsent[stream] = unsent
        return False

    # Comparing --------------------------------------------------------------------------

    async def _compare(self, tails: IndexedTails) -> None:
        """Find the events that the worker is missing, and those that it should no longer have."""
        self.events_sent = self.events_lacking = 0
        comparison = _Comparison(tails, [])
        for page in self._streams.stream_pages(_PREFIX, _PAGE_STREAMS):
            for stream, tail in page:
                self._compare_one(stream, tail, comparison)
            await asyncio.sleep(0)
        async for workspace, number in _with_pauses(tails.left()):
            if number not in self._unsent:
                self._removals[workspace, number] = 0
        for key in comparison.kept_for_forks:
            self._removals[key] = self.forks.visible_end(key[1], _NO_END)
        self.compared = True

    def _compare_one(self, stream: StreamRecord, tail: int, comparison: "_Comparison") -> None:
        self.forks.add(stream)
        workspace = stream.key.workspace
        known = comparison.tails.take(workspace, stream.id)
        if known is not None and stream.soft_deleted:
            comparison.kept_for_forks.append((workspace, stream.id))
        indexed = max(known or 0, stream.base)
        if indexed > tail:
            self._removals[workspace, stream.id] = tail
        unsent = self._unsent.get(stream.id)
        if indexed < tail and (unsent is None or unsent.start > indexed):
            self._unsent[stream.id] = Unsent(workspace, indexed, 0)
            self.events_lacking += tail - indexed


class _Comparison(NamedTuple):
    """What the index holds, and what of it is kept for forks only."""

    tails: IndexedTails
    kept_for_forks: list[tuple[str, int]]


async def _with_pauses(items: Iterable[T]) -> AsyncIterator[T]:
    """Yield many items, and let other tasks run in between."""
    for number, item in enumerate(items, 1):
        yield item
        if number % _PAGE_STREAMS == 0:
            await asyncio.sleep(0)
