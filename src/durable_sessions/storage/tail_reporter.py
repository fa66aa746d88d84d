"""Tells the partition that has a workspace's subscriptions how far the streams of this one reach.

What has to be told is kept in memory only. Whoever watches asks again after a start, of either side, and then
everything that it watches is told once more.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice

import structlog

from durable_sessions.errors import DurableSessionsError
from durable_sessions.limits import Limits
from durable_sessions.storage.door import Streams
from durable_sessions.streams.globs import Glob
from durable_sessions.streams.patterns import PatternIndex
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.reported_streams import Tail
from durable_sessions.streams.stream import Key

logger = structlog.get_logger(__name__)

Tell = Callable[[str, Sequence[Tail]], Awaitable[None]]
"""Tells tails to the partition that has a workspace's subscriptions; returns when they are durable there."""
_TOLD_AT_ONCE = 500
_LOADED_SLICE = 50


class _Watch:
    """What is watched in a workspace; ``watcher`` and ``version`` say who asked, and as of when."""

    def __init__(self, watcher: str, version: int, patterns: Iterable[str], paths: Iterable[str]) -> None:
        self.watcher = watcher
        self.version = version
        self._patterns: PatternIndex[str] = PatternIndex()
        for pattern in patterns:
            self._patterns.add(pattern, pattern)
        self._paths = frozenset(paths)
        self.tails: dict[str, Tail] = {}
        self.all_again = False

    def matches(self, path: str) -> bool:
        return path in self._paths or bool(self._patterns.matching(path))


class TailReporter:
    """A listener that tells what is watched; ``failure`` says why the last attempt did not succeed."""

    name = "told tails"

    def __init__(self, streams: Streams, tell: Tell, limits: Limits) -> None:
        self._streams = streams
        self._tell = tell
        self._limits = limits
        self._watches: dict[str, _Watch] = {}
        self._news = asyncio.Event()
        self.failure: str | None = None

    # What is watched --------------------------------------------------------------------

    def watch(
        self, workspace: str, watcher: str, version: int, patterns: Iterable[str], paths: Iterable[str]
    ) -> None:
        """Tell from now on what matches; everything of it at once, if another watcher had asked before."""
        known = self._watches.get(workspace)
        watch = self._watches[workspace] = _Watch(watcher, version, patterns, paths)
        if known is not None and known.watcher == watcher:
            watch.tails, watch.all_again = known.tails, known.all_again
        else:
            watch.all_again = True
        self._news.set()

    def missing(self, watcher: str, versions: dict[str, int]) -> list[str]:
        """Return the workspaces that a watcher watches otherwise than is known here."""
        for workspace, watch in list(self._watches.items()):
            if watch.watcher == watcher and workspace not in versions:
                del self._watches[workspace]
        known = {workspace: (watch.watcher, watch.version) for workspace, watch in self._watches.items()}
        return [ws for ws, version in versions.items() if known.get(ws) != (watcher, version)]

    async def look(self, workspace: str, pattern: str | None, paths: Iterable[str]) -> list[Tail]:
        """Return how far streams reach now, those that a pattern matches and those at given paths."""
        found: dict[str, Tail] = {}
        wanted = dict.fromkeys(paths)
        if pattern is not None:
            glob = Glob(pattern)
            for page in self._streams.path_pages(workspace, glob.prefix):
                wanted.update((path, None) for _, path in page if glob.matches(path))
                await asyncio.sleep(0)
                if len(wanted) > 2 * self._limits.subscription_streams_max:
                    break  # too many: refused by the decision
        for number, path in enumerate(wanted, 1):
            tail = self._tail(Key(workspace, path))
            if tail is not None:
                found[path] = tail
            if not number % _LOADED_SLICE:
                await asyncio.sleep(0)
        return list(found.values())

    def untold(self, workspace: str, watcher: str, version: int) -> list[Tail] | None:
        """Return what is about to be told, which it is all the same; None if that watch is not known."""
        watch = self._watches.get(workspace)
        if watch is None or (watch.watcher, watch.version) != (watcher, version) or watch.all_again:
            return None
        return list(watch.tails.values())

    def _tail(self, key: Key) -> Tail | None:
        durable = self._streams.peek(key)
        if durable is None or durable.removed:
            return None
        return Tail(key.path, durable.stream.id, durable.stream.base, durable.tail)

    # Changes ----------------------------------------------------------------------------

    def stream_created(self, stream: StreamRecord) -> None:
        """Do nothing: there is nothing to read yet."""

    def streams_appended(self, appended: Sequence[tuple[StreamRecord, int]]) -> None:
        """Note what has to be told; constant time for a workspace without subscriptions elsewhere."""
        for stream, _ in appended if self._watches else ():
            watch = self._watches.get(stream.key.workspace)
            if watch is not None and watch.matches(stream.key.path):
                tail = self._tail(stream.key)
                if tail is not None:
                    self._note(watch, tail)

    def stream_removed(self, stream: StreamRecord) -> None:
        """Note that a stream is gone."""
        watch = self._watches.get(stream.key.workspace)
        if watch is not None and watch.matches(stream.key.path):
            self._note(watch, Tail(stream.key.path, stream.id, stream.base, None))

    def stream_erased(self, stream: StreamRecord, positions: Sequence[int]) -> None:
        """Do nothing: the tail stays where it is."""

    def reconcile(self) -> None:
        """Tell everything again: a notification may have been missed."""
        for watch in self._watches.values():
            watch.all_again = True
        self._news.set()

    def _note(self, watch: _Watch, tail: Tail) -> None:
        watch.tails[tail.path] = tail
        if len(watch.tails) > self._limits.untold_streams_max:
            watch.tails.clear()
            watch.all_again = True
        self._news.set()

    # Telling ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Tell until cancelled; what cannot be told is told later, with growing pauses."""
        pause_seconds = self._limits.outbox_retry_seconds
        while True:
            await self._news.wait()
            self._news.clear()
            try:
                for workspace in list(self._watches):
                    await self.tell_all(workspace)
            except (DurableSessionsError, OSError) as error:
                if self.failure is None:
                    logger.warning("tails_not_told_yet", reason=str(error))
                self.failure = str(error)
                self._news.set()
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, self._limits.outbox_retry_seconds_max)
            else:
                self.failure = None
                pause_seconds = self._limits.outbox_retry_seconds

    async def tell_all(self, workspace: str) -> None:
        """Tell what has to be told of a workspace."""
        watch = self._watches.get(workspace)
        if watch is not None and watch.all_again:
            watch.all_again = False
            try:
                await self._tell_again(workspace, watch)
            except BaseException:
                watch.all_again = True
                raise
        while (watch := self._watches.get(workspace)) is not None and watch.tails:
            some = list(islice(watch.tails.values(), _TOLD_AT_ONCE))
            await self._tell(workspace, some)
            for tail in some:
                if watch.tails.get(tail.path) is tail:
                    del watch.tails[tail.path]

    async def _tell_again(self, workspace: str, watch: _Watch) -> None:
        for page in self._streams.path_pages(workspace):
            matching = [path for _, path in page if watch.matches(path)]
            tails = []
            for number, path in enumerate(matching, 1):
                tails.append(self._tail(Key(workspace, path)))
                if not number % _LOADED_SLICE:
                    await asyncio.sleep(0)
            if known := [tail for tail in tails if tail is not None]:
                await self._tell(workspace, known)
            await asyncio.sleep(0)
