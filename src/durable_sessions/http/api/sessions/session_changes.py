"""Which sessions of a partition have changed, for those who follow the list of a workspace."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.limits import Limits
from durable_sessions.sessions import record
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.streams.readonly import StreamRecord

_FOLDER = record.FOLDER + "/"


class ChangedSessions(msgspec.Struct, array_like=True):
    """Sessions that have changed, each with its object as JSON, and the ids of those that are gone.

    ``more`` says that others have changed as well, which come next.
    """

    changed: list[tuple[str, bytes]] = []
    gone: list[str] = []
    more: bool = False


class _Consumer:
    """What one consumer has not taken yet. One that has missed something is ended: a gap would not show."""

    def __init__(self, pending_max: int) -> None:
        self._pending_max = pending_max
        self._waiter: asyncio.Future[None] | None = None
        self.changed: dict[int, None] = {}
        self.gone: dict[str, None] = {}
        self.is_ended = False

    def note(self, number: int) -> None:
        """Note that a session has changed."""
        self.changed[number] = None
        self._wake()

    def note_gone(self, number: int, session: str) -> None:
        """Note that a session was deleted or has expired."""
        # A session that is gone is shown as that alone, also if it was changed before.
        self.changed.pop(number, None)
        self.gone[session] = None
        self._wake()

    def end(self) -> None:
        """Let the consumer end."""
        self.is_ended = True
        self._wake()

    async def wait(self) -> None:
        """Wait for a change, or the end."""
        if not self.changed and not self.gone and not self.is_ended:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter

    def _wake(self) -> None:
        # Cut off rather than bounded: a reader that came back lists anew, one that missed a change never
        # would.
        if len(self.changed) + len(self.gone) > self._pending_max:
            self.is_ended = True
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class SessionChangeFeed:
    """Notes the changes of the workspaces that somebody follows; an append to any other costs a look-up."""

    name = "live list"

    def __init__(self, sessions: Sessions, limits: Limits) -> None:
        self._sessions = sessions
        self._limits = limits
        self._consumers: dict[str, set[_Consumer]] = {}

    def stream_created(self, stream: StreamRecord) -> None:
        """Note a new session."""
        self._note(stream)

    def streams_appended(self, appended: Sequence[tuple[StreamRecord, int]]) -> None:
        """Note new events; while nobody follows any list, that is nothing."""
        if self._consumers:
            for stream, _ in appended:
                self._note(stream)

    def stream_erased(self, stream: StreamRecord, positions: Sequence[int]) -> None:
        """Note that events were erased."""
        self._note(stream)

    def stream_removed(self, stream: StreamRecord) -> None:
        """Note that a session is gone."""
        for consumer in self._consumers_of(stream):
            consumer.note_gone(stream.id, session_of(stream.key))

    def _note(self, stream: StreamRecord) -> None:
        for consumer in self._consumers_of(stream):
            consumer.note(stream.id)

    def _consumers_of(self, stream: StreamRecord) -> Iterable[_Consumer]:
        consumers = self._consumers.get(stream.key.workspace)
        return consumers if consumers and stream.key.path.startswith(_FOLDER) else ()

    def reconcile(self) -> None:
        """End all consumers: a change may have been missed."""
        self.drain()

    def drain(self) -> None:
        """End all consumers; they come back and list anew."""
        for consumers in self._consumers.values():
            for consumer in consumers:
                consumer.end()

    async def follow(self, caller: Caller) -> AsyncIterator[ChangedSessions]:
        """Return the changes of the caller's workspace from now on, a portion at most every so often."""
        workspace = caller.workspace
        consumer = _Consumer(self._limits.live_list_pending_max)
        self._consumers.setdefault(workspace, set()).add(consumer)
        return _Portions(self, workspace, consumer, self._limits.live_list_seconds)

    def leave(self, workspace: str, consumer: _Consumer) -> None:
        """Note no more changes for a consumer."""
        consumers = self._consumers.get(workspace, set())
        consumers.discard(consumer)
        if not consumers:
            self._consumers.pop(workspace, None)

    def taken(self, workspace: str, consumer: _Consumer) -> ChangedSessions:
        """Take the next portion of what has changed; sessions that took a dead one's id are not gone."""
        now_ms = self._sessions.now_ms()
        # Which ids are taken again is known only now; their new sessions are among the changed ones.
        gone = [one for one in consumer.gone if self._sessions.life(session_key(workspace, one)) is None]
        consumer.gone.clear()
        portion = ChangedSessions(gone=gone)
        size = 0
        for number in list(consumer.changed):
            durable = self._sessions.streams.peek_id(number)
            if durable is None or durable.removed or durable.stream.expired(now_ms):
                del consumer.changed[number]
                continue
            encoded = msgspec.json.encode(self._sessions.shown(durable))
            size += len(encoded)
            # Encoded as it is now, however often it has changed: who reads slowly gets fewer and newer
            # states.
            is_full = len(portion.changed) == self._limits.live_list_sessions_max
            if is_full or (portion.changed and size > self._limits.live_list_frame_bytes_max):
                portion.more = True
                break
            del consumer.changed[number]
            portion.changed.append((session_of(durable.stream.key), encoded))
        return portion


class _Portions:
    """What a consumer takes, a portion at a time; known until this is closed, even if it never began."""

    def __init__(
        self, changes: SessionChangeFeed, workspace: str, consumer: _Consumer, pause_seconds: float
    ) -> None:
        self._changes = changes
        self._workspace = workspace
        self._consumer = consumer
        self._pause_seconds = pause_seconds
        self._has_begun = False

    def __aiter__(self) -> "_Portions":
        return self

    async def __anext__(self) -> ChangedSessions:
        consumer = self._consumer
        try:
            # A session that changes all the time is sent once per pause, not with each event.
            if self._has_begun:
                await asyncio.sleep(self._pause_seconds)
            self._has_begun = True
            await consumer.wait()
            if consumer.is_ended:
                raise StopAsyncIteration
            return self._changes.taken(self._workspace, consumer)
        except BaseException:
            self._changes.leave(self._workspace, consumer)
            raise

    async def aclose(self) -> None:
        """Take no more."""
        self._changes.leave(self._workspace, self._consumer)
