"""Subscriptions and streams of other partitions: who watches what, how far it reaches, and wake events."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import LinkDownError
from durable_sessions.http.api.neighbours import Neighbours, on_behalf_of
from durable_sessions.http.api.placement_operations import WHERE, NameAsked, NameFound
from durable_sessions.http.carrier.message import Request
from durable_sessions.limits import Limits
from durable_sessions.storage.door import Streams
from durable_sessions.storage.subscriptions import SubscriptionManager, Watched
from durable_sessions.storage.tail_reporter import TailReporter
from durable_sessions.streams import wake_intake
from durable_sessions.streams.effects import Effect
from durable_sessions.streams.outbox import OwedRecord
from durable_sessions.streams.placements import AT_HOME
from durable_sessions.streams.reported_streams import Tail
from durable_sessions.streams.state import State
from durable_sessions.streams.stream import SYSTEM_WORKSPACE, Key
from durable_sessions.streams.wake_intake import WakeEvent

FOLDER = "__subscriptions"
"""The folder whose home has the subscriptions of a workspace."""
_WATCH, _UNTOLD, _TELL = b"/internal/watch", b"/internal/untold", b"/internal/tell"
_MISSING, _WAKE = b"/internal/watches", b"/internal/wake"


class _Watching(NamedTuple):
    """Who watches what from now on; a new pattern and new paths are answered with what there is of them."""

    watcher: str
    watched: Watched
    pattern: str | None = None
    paths: Sequence[str] = ()
    now: bool = False
    """Whether everything that is watched has to be told before the answer."""


class _Versions(NamedTuple):
    """Which version of what is watched a watcher has in each workspace."""

    watcher: str
    versions: dict[str, int]


class _Wake(NamedTuple):
    """A wake event for the stream at a path."""

    path: str
    wake: bytes


class TailExchange:
    """Asks the other partitions for the subscriptions of this one, and answers theirs."""

    def __init__(self, streams: Streams, neighbours: Neighbours, watcher: str, limits: Limits) -> None:
        self._streams = streams
        self._neighbours = neighbours
        self._watcher = watcher
        self._limits = limits
        self.manager: SubscriptionManager
        self.teller = TailReporter(streams, self._tell, limits)
        self.handlers: dict[bytes, Callable[[Request, Caller], Awaitable[object]]] = {
            _WATCH: self._answer_watch,
            _MISSING: self._answer_missing,
            _UNTOLD: self._answer_untold,
            _TELL: self._answer_tell,
            _WAKE: self._answer_wake,
        }

    # Of the partition with the subscriptions --------------------------------------------

    async def watch(
        self, workspace: str, watched: Watched, pattern: str | None, paths: Sequence[str]
    ) -> list[Tail]:
        """Let all others tell what is watched; return what they have of a new pattern and of new paths."""
        asked = _Watching(self._watcher, watched, pattern, paths)
        answers = await asyncio.gather(
            *(self._call(other, _WATCH, workspace, asked, list[Tail]) for other in self._neighbours.others)
        )
        return [tail for tails in answers for tail in tails]

    async def untold(self, workspace: str) -> list[Tail]:
        """Return what others are about to tell; one that cannot be asked tells it later."""
        answers = await asyncio.gather(*(self._untold(other, workspace) for other in self._neighbours.others))
        return [tail for tails in answers for tail in tails]

    async def _untold(self, other: int, workspace: str) -> list[Tail]:
        version = self.manager.watched_versions().get(workspace)
        if version is None:
            return []  # nothing is watched
        asked = _Versions(self._watcher, {workspace: version})
        try:
            tails = await self._call(other, _UNTOLD, workspace, asked, list[Tail] | None)
            if tails is None:  # it was started again, and does not know yet what is watched
                await self._watch_again(other, workspace, now=True)
        except LinkDownError:
            return []
        return tails or []

    async def check_watches(self) -> None:
        """Make sure again and again that all others know what is watched: they forget it at a restart."""
        watched = False
        while True:
            # Once more after the last watch is gone, so that others hear that nothing is watched any more.
            had_watched, watched = watched, bool(self.manager.watched_versions())
            for other in self._neighbours.others if watched or had_watched else ():
                try:
                    await self._check_watch(other)
                except LinkDownError:
                    watched = True  # it is asked again
            await asyncio.sleep(self._limits.watch_check_seconds)

    async def _check_watch(self, other: int) -> None:
        asked = _Versions(self._watcher, self.manager.watched_versions())
        for workspace in await self._call(other, _MISSING, SYSTEM_WORKSPACE, asked, list[str]):
            await self._watch_again(other, workspace)

    async def _watch_again(self, other: int, workspace: str, *, now: bool = False) -> None:
        # Nothing may change what is watched between reading it and telling it, or the other partition would
        # have an older version under a newer number.
        async with self.manager.changing(workspace):
            watching = _Watching(self._watcher, self.manager.watched(workspace), now=now)
            await self._call(other, _WATCH, workspace, watching, list[Tail])

    async def deliver_wake(self, record: OwedRecord) -> None:
        """Append a wake event to its stream, wherever that is; if it is nowhere, nobody gets it."""
        workspace, path = record.target
        at = self._neighbours.home(workspace, path)
        asked = NameAsked(path)
        found = await self._neighbours.read(at, WHERE, on_behalf_of(workspace), asked, NameFound)
        # A name may have been placed away from its home, which then knows where.
        if not found.exists and found.placement is not None and found.placement.partition != AT_HOME:
            at = found.placement.partition
        await self._call(at, _WAKE, workspace, _Wake(path, record.data), bool)

    # Of the partitions with the streams -------------------------------------------------

    async def _tell(self, workspace: str, tails: Sequence[Tail]) -> None:
        await self._call(self._neighbours.home(workspace, FOLDER), _TELL, workspace, tails, bool)

    async def _answer_watch(self, request: Request, caller: Caller) -> object:
        asked = msgspec.msgpack.decode(request.body, type=_Watching)
        watched = asked.watched
        self.teller.watch(caller.workspace, asked.watcher, watched.version, watched.patterns, watched.paths)
        if asked.now:
            await self.teller.tell_all(caller.workspace)
        return await self.teller.look(caller.workspace, asked.pattern, asked.paths)

    async def _answer_missing(self, request: Request, caller: Caller) -> object:
        asked = msgspec.msgpack.decode(request.body, type=_Versions)
        return self.teller.missing(asked.watcher, asked.versions)

    async def _answer_untold(self, request: Request, caller: Caller) -> object:
        asked = msgspec.msgpack.decode(request.body, type=_Versions)
        return self.teller.untold(caller.workspace, asked.watcher, asked.versions[caller.workspace])

    async def _answer_tell(self, request: Request, caller: Caller) -> object:
        await self.manager.tell(caller.workspace, msgspec.msgpack.decode(request.body, type=list[Tail]))
        return True

    async def _answer_wake(self, request: Request, caller: Caller) -> object:
        asked = msgspec.msgpack.decode(request.body, type=_Wake)
        wake = msgspec.json.decode(asked.wake, type=WakeEvent)
        key = Key(caller.workspace, asked.path)

        def decide(state: State, now_ms: int) -> tuple[list[Effect], bool]:
            return wake_intake.take(state, key, wake, now_ms), True

        return await self._streams.commit(decide, (key,))

    async def _call(self, partition: int, path: bytes, workspace: str, asked: object, answer: Any) -> Any:
        return await self._neighbours.call(partition, path, on_behalf_of(workspace), asked, answer)
