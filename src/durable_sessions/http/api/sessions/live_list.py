"""The live list: the changed sessions of a workspace as server-sent events, encoded once for all."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import InvalidRequestError
from durable_sessions.http.api.counted_stream import CountedStream
from durable_sessions.http.api.heartbeat import Heartbeat
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.session_changes import ChangedSessions
from durable_sessions.http.carrier.handler_failures import close_iterator
from durable_sessions.limits import Limits

Changes = Callable[[Caller], Awaitable[AsyncIterator[ChangedSessions]]]
"""Follows the changes of a caller's workspace; when the iterator is there, no later change is missed."""
_CONTROL = b'event: control\ndata: {"upToDate":true}\n\n'


def frame(portion: ChangedSessions) -> bytes:
    """Return changes as one frame; metadata may have line breaks between its members."""
    said = b"".join(
        (
            b'{"changed":[',
            b",".join(encoded for _, encoded in portion.changed),
            b'],"gone":',
            msgspec.json.encode(portion.gone),
            b',"more":true}' if portion.more else b',"more":false}',
        )
    )
    return b"event: sessions\ndata: " + b"\ndata: ".join(said.splitlines()) + b"\n\n"


def require_alone(parameters: Parameters) -> None:
    """Refuse filters beside ``live``: all followers of a workspace get the same frames."""
    for name in parameters.names():
        if name != "live":
            raise InvalidRequestError(
                problem=f"A live list has all sessions of the workspace; leave out {name[:40]}."
            )


class _Feed:
    """The frames of one workspace, numbered; the newest of them are kept for its followers."""

    def __init__(self) -> None:
        self.frames: dict[int, bytes] = {}
        self.following = 0
        self.followers = 0
        self.is_ended = False
        self.pump: asyncio.Task[None] | None = None
        self._waiters: set[asyncio.Future[None]] = set()

    def wait(self) -> "asyncio.Future[None]":
        """Return a future that is resolved by the next frame, or the end."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        waiter.add_done_callback(self._waiters.discard)
        return waiter

    def wake(self) -> None:
        """Wake all followers."""
        for waiter in list(self._waiters):
            if not waiter.done():
                waiter.set_result(None)


class LiveLists:
    """Follows the lists of workspaces: one source of changes for each, whatever the number of followers.

    Followers hold no frames of their own. If the next frame of a follower is no longer kept, it is too slow
    and its stream ends. All streams end when the source ends. A client that comes back lists everything anew.
    """

    def __init__(self, changes: Changes, limits: Limits) -> None:
        self._changes = changes
        self._limits = limits
        self._feeds: dict[str, _Feed] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._kept: deque[tuple[_Feed, int, int]] = deque()
        self._kept_bytes = 0

    async def follow(self, caller: Caller) -> AsyncIterator[bytes]:
        """Return the frames of the caller's workspace from now on, or refuse if they cannot be had."""
        workspace = caller.workspace
        async with self._opening.setdefault(workspace, asyncio.Lock()):
            feed = self._feeds.get(workspace)
            if feed is None:
                feed = _Feed()
                source = await self._changes(caller)
                feed.pump = asyncio.create_task(self._pump(workspace, feed, source), name="live list")
                self._feeds[workspace] = feed
                await asyncio.sleep(0)  # so that it has begun: a task that is cancelled before closes nothing
            feed.followers += 1
        frames = self._frames(feed, feed.following)
        return CountedStream(frames, partial(self._leave, workspace, feed))

    async def _frames(self, feed: _Feed, position: int) -> AsyncIterator[bytes]:
        heartbeat = Heartbeat(self._limits.sse_heartbeat_seconds_max, self._limits.live_list_seconds_max)
        try:
            yield _CONTROL  # at once: from here on nothing is missed
            while True:
                while position < feed.following:
                    found = feed.frames.get(position)
                    if found is None:
                        return
                    position += 1
                    yield found
                    heartbeat.sent()
                if feed.is_ended or heartbeat.over:
                    return
                await heartbeat.wait(feed.wait())
                if heartbeat.due() and position == feed.following:
                    yield _CONTROL
                    heartbeat.sent()
        finally:
            heartbeat.stop()

    async def _pump(self, workspace: str, feed: _Feed, source: AsyncIterator[ChangedSessions]) -> None:
        try:
            async for portion in source:
                self._keep(feed, frame(portion))
                feed.wake()
        finally:
            feed.is_ended = True
            if self._feeds.get(workspace) is feed:
                del self._feeds[workspace]
            feed.wake()
            await close_iterator(source)

    def _keep(self, feed: _Feed, encoded: bytes) -> None:
        """Keep a frame, and forget the oldest of this workspace, or of all if they are too large."""
        feed.frames[feed.following] = encoded
        self._kept.append((feed, feed.following, len(encoded)))
        self._kept_bytes += len(encoded)
        feed.frames.pop(feed.following - self._limits.live_list_frames_max, None)
        feed.following += 1
        while self._kept_bytes > self._limits.live_list_bytes_max and len(self._kept) > 1:
            # The oldest of all workspaces: one with many changes shortens what others may be behind.
            oldest, number, size = self._kept.popleft()
            oldest.frames.pop(number, None)
            self._kept_bytes -= size

    def _leave(self, workspace: str, feed: _Feed) -> None:
        """Note that a follower has left; without any, the changes are no longer followed."""
        feed.followers -= 1
        if feed.followers == 0:
            if self._feeds.get(workspace) is feed:
                del self._feeds[workspace]
            self._opening.pop(workspace, None)
            if feed.pump is not None:
                feed.pump.cancel()
