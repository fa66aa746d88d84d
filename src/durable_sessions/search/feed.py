"""Feeds the search process with what has become durable, without ever delaying an append.

For every session or memory scope with unsent events the feed knows where these begin, and nothing else: they
are read when they are sent, from memory, from the log or from the bucket. So it can fall behind without using
more memory. When the search process starts, its tails are compared with all sessions, and the difference is
sent. A search names the streams that it is about and waits until those were sent.
"""

import asyncio
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

import structlog

from durable_sessions.clock import Clock
from durable_sessions.errors import DurableSessionsError, SearchUnavailableError
from durable_sessions.limits import Limits
from durable_sessions.search.change_sender import ChangeSender
from durable_sessions.search.forks import Forks
from durable_sessions.search.index_comparison import IndexComparison
from durable_sessions.search.index_names import PREFIXES
from durable_sessions.search.link import WorkerLink
from durable_sessions.search.tails import IndexedTails
from durable_sessions.search.unsent_changes import UnsentChanges
from durable_sessions.search.waiting_searches import WaitingSearches
from durable_sessions.storage.door import Streams
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.tasks import Task, TaskSupervisor

GATHER_SECONDS = 0.5
"""How long events gather before they are sent, unless a search waits for them."""
QUIET_SECONDS = 2.0
"""How long after the first event the process is started, unless a search needs it."""
RETRY_SECONDS = 1.0
RETRY_SECONDS_MAX = 30.0
"""The pause after a failure; it doubles up to the maximum while the process keeps failing."""

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


class Feed:
    """Sends the durable events of sessions to a worker, and keeps a worker running."""

    def __init__(self, streams: Streams, clock: Clock, directory: Path, lineage: str, limits: Limits) -> None:
        self._limits = limits
        self._streams = streams
        self._clock = clock
        self._directory = directory
        self._lineage = lineage
        self._changes = UnsentChanges(clock)
        self._work = asyncio.Event()
        self._searches = WaitingSearches(self._changes, streams, self._ready_worker, self._work)
        self._sender = ChangeSender(self._changes, self._searches, streams, clock, limits, self._connected)
        self._task: Task | None = None
        self._link: WorkerLink | None = None
        self._is_discarded = False
        self._failed_starts = 0
        self.paused: str | None = None
        self.compared = False
        self._failure: str | None = None
        self.starts = 0
        self.kills = 0

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
        return len(self._changes.additions)

    @property
    def is_building(self) -> bool:
        """Whether the index is missing events that existed before this process or the worker began."""
        if not self.compared:
            return self._work.is_set()
        return self._changes.additions.has_older

    @property
    def failure(self) -> str | None:
        """Why events cannot be indexed or searched now, None if they can."""
        if self._failure is None and self._link is not None and not self._link.lost:
            return self._link.silence
        return self._failure

    @property
    def forks(self) -> Forks:
        """Which parts of deleted sessions can still be read."""
        return self._changes.forks

    @property
    def events_lacking(self) -> int:
        """About how many older events the index was missing when it was compared."""
        return self._changes.events_lacking

    @property
    def events_left(self) -> int:
        """About how many of the older events the index is still missing."""
        return max(0, self.events_lacking - self._sender.events_sent) if self.is_building else 0

    def pause(self, reason: str | None) -> None:
        """Stop sending for this reason, or go on with None; searches find what was sent before."""
        self.paused = reason
        if reason is None:
            self._sender.unpaused.set()
        else:
            self._sender.unpaused.clear()

    def rebuild(self) -> None:
        """Rebuild the index in the background; until that is done, searches say how far they reach.

        One that was not started has nothing to index.
        """
        if self._task is None:
            return
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
        self._changes.forks = Forks()  # the comparison fills it
        if self._link is not None:
            self._link.drop()
        self._work.set()

    def stream_created(self, stream: StreamRecord) -> None:
        """Note a new fork."""
        self._changes.stream_created(stream)

    def streams_appended(self, appended: Sequence[tuple[StreamRecord, int]]) -> None:
        """Note that there is something to send."""
        changes = self._changes
        for stream, first in appended:
            # Every append comes here, so most of them must cost no more than a look at the path.
            if stream.key.path.startswith(PREFIXES) and changes.stream_appended(stream, first):
                self._work.set()

    def stream_erased(self, stream: StreamRecord, positions: Sequence[int]) -> None:
        """Note which documents have to be replaced."""
        if self._changes.stream_erased(stream, positions):
            self._work.set()

    def stream_removed(self, stream: StreamRecord) -> None:
        """Note that a session is gone, or is kept only for its forks."""
        if self._changes.stream_removed(stream):
            self._work.set()
            self._searches.wake()

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
                    is_complete = await self._searches.catch_up(workspace, streams)
        except TimeoutError:
            pass
        if self._link is None or self._link.lost:
            failure = self.failure if self._failed_starts else None
            raise SearchUnavailableError(reason=failure or self.paused or "the search process is starting")
        additions = self._changes.additions
        if streams is None:
            since_ms = additions.workspace_since_ms(workspace)
            return WorkerCoverage(self._link, is_complete, {}, self._reached_ms(since_ms))
        starts = {number: additions[number].start for number in streams if number in additions}
        unsent = {number: start for number, start in starts.items() if start < self._searches.goal(number)}
        if not self.compared:
            unsent |= dict.fromkeys(streams, 0)
        reached_ms = self._reached_ms(additions.since_ms(unsent))
        return WorkerCoverage(self._link, is_complete, unsent, reached_ms)

    def _reached_ms(self, since_ms: int | None) -> int | None:
        """Return the time before which nothing is missing, None if that is unknown."""
        if not self.compared:
            return None
        return self._clock.now_ms() if since_ms is None else since_ms or None

    def _ready_worker(self) -> int | None:
        """Return the number of the worker that was compared with all sessions, None if there is none."""
        is_connected = self._link is not None and not self._link.lost
        return self.starts if self.compared and is_connected and not self._is_discarded else None

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
            await self._sender.unpaused.wait()
            try:
                while self._link is None or self._link.lost or self._is_discarded:
                    await self._connect()
                await self._sender.send_all()
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
            self._searches.wake()
            await asyncio.sleep(0)  # so that the searches that were woken can go on
            if not (self._changes or self._searches):
                self._work.clear()
            await self._work.wait()
            await self._pause(GATHER_SECONDS)

    async def _pause(self, seconds: float) -> None:
        """Let some time pass, unless a search waits."""
        try:
            async with asyncio.timeout(seconds):
                await self._searches.hurry.wait()
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
        self._sender.events_sent = 0
        await IndexComparison(self._link.tails, self._changes).run(self._streams)
        self.compared = True
        self._link.tails = IndexedTails()  # freed: there may be an entry for every stream
        self._searches.wake()

    def _connected(self) -> WorkerLink:
        if self._link is None:
            raise SearchUnavailableError(reason="the search process has ended")
        return self._link
