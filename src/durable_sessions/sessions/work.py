"""The work on the sessions of a partition: leases, ends, and states folded on demand."""

import asyncio
from collections import deque

import msgspec

from durable_sessions.clock import Clock
from durable_sessions.errors import HeartbeatPreconditionFailedError
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions import record, wake
from durable_sessions.sessions.batch import Stored
from durable_sessions.sessions.branches import Branches
from durable_sessions.sessions.change import By
from durable_sessions.sessions.contexts import Contexts
from durable_sessions.sessions.graph import strict
from durable_sessions.sessions.graph.control import Control
from durable_sessions.sessions.graph.rules import Appender
from durable_sessions.sessions.graph.schemas import Checkpoint
from durable_sessions.sessions.graph.state import Around, SessionState, state
from durable_sessions.sessions.selection import Selection
from durable_sessions.sessions.session_lookup import session_of
from durable_sessions.sessions.store import Sessions
from durable_sessions.sessions.wake import Once
from durable_sessions.storage.door import StreamView
from durable_sessions.streams import offsets
from durable_sessions.streams.stream import Key
from durable_sessions.times import rfc3339

_CHECKPOINT = "ds.checkpoint"


class Works:
    """What workers do with sessions; a change is durable when its awaitable returns."""

    def __init__(self, sessions: Sessions, clock: Clock, ids: Ids, limits: Limits) -> None:
        self._streams = sessions.streams
        self._reader = sessions.events
        self._folds = sessions.folds
        self.branches = Branches(sessions, ids, limits)
        self.contexts = Contexts(sessions.streams, sessions.events, sessions.folds, limits)
        self.times = sessions.times
        self._clock = clock
        self._ids = ids
        self._limits = limits

    def wake(self, key: Key, request: wake.WakeRequest) -> "asyncio.Future[wake.GrantedLease]":
        """Give a session to a worker."""
        return self._streams.commit(
            lambda tip, now: wake.wake(tip, key, request, self.times, now, self._limits, self._ids), (key,)
        )

    def renew(
        self,
        durable: StreamView,
        epoch: int,
        principal: str,
        last: str | msgspec.UnsetType | None = msgspec.UNSET,
    ) -> tuple[int, int]:
        """Renew a lease; return when that was, and when it expires now.

        ``last`` is the last renewal that the worker knows of, None for none. If there was another one,
        somebody else works under the same claim. After a start of the server any is right: nobody remembers.
        """
        lease = wake.held(Control(durable.attributes, self._limits), epoch, principal)
        stream = durable.stream.id
        known_ms = self.times.beat_ms(stream, epoch)
        if last is not msgspec.UNSET and known_ms is not None and last != rfc3339(known_ms):
            raise HeartbeatPreconditionFailedError(epoch=epoch, last=rfc3339(known_ms))
        renewed_ms = self.times.beat(stream, epoch, self._clock.now_ms())
        return renewed_ms, self.times.expires_ms(stream, lease)

    def release(
        self,
        key: Key,
        epoch: int,
        reason: str | None,
        by: Appender,
        once: Once | None = None,
        stated: int | None = None,
        incarnation: str | None = None,
    ) -> "asyncio.Future[Stored]":
        """End a lease; ``stated`` is the epoch under which this is sent, if it says one."""
        return self._streams.commit(
            lambda tip, now: wake.release(
                tip, key, epoch, reason, by, now, self._limits, self._ids, once, stated, incarnation
            ),
            (key,),
        )

    def end(
        self,
        key: Key,
        outcome: str,
        reason: str | None,
        by: Appender,
        wanted: By,
        once: Once | None = None,
    ) -> "asyncio.Future[Stored]":
        """Close a session with its outcome, if it is as it is wanted."""
        return self._streams.commit(
            lambda tip, now: wake.end(
                tip, key, outcome, reason, by, wanted, now, self._limits, self._ids, once
            ),
            (key,),
        )

    async def state(self, durable: StreamView, at: int, *, is_declared: bool) -> SessionState:
        """Return the state of a session after its first ``at`` events."""
        fold = await self._folds.at(durable, at)
        lease = fold.control.core.lease
        is_now = at == durable.tail
        around = Around(
            session_of(durable.stream.key),
            self._clock.now_ms() if is_now else fold.folded.at_ms,
            closed=durable.closed and is_now,
            archived=record.ARCHIVED in durable.attributes and is_now,
            forked_from=record.of(durable.attributes).forked_from,
            renewed_ms=self.times.renewed_ms(durable.stream.id, lease) if is_now and lease else None,
            is_declared=is_declared,
        )
        return state(fold, around)

    async def checkpoints(self, durable: StreamView, tail: int) -> list[tuple[str, Checkpoint]]:
        """Return the checkpoints of a session, oldest first, each with a line on where it stands.

        If there are too many, or they are too large, the oldest are left out.
        """
        found: deque[tuple[int, str, Checkpoint]] = deque()
        position = size = 0
        selection = Selection(types=(_CHECKPOINT,))
        while position < tail:
            page = await self._reader.page(durable, position, tail, self._limits.state_list_max, selection)
            for place, event in zip(page.positions or (), page.events(), strict=True):
                checkpoint = strict.read(_CHECKPOINT, event)
                if isinstance(checkpoint, Checkpoint):
                    said = _ENVELOPE.decode(event)
                    found.append(
                        (len(event), f"{offsets.encode(place)}, {said.created_at}, {said.actor}", checkpoint)
                    )
                    size += len(event)
                while len(found) > 1 and (
                    len(found) > self._limits.state_list_max or size > self._limits.handoff_bytes_max
                ):
                    size -= found.popleft()[0]
            if page.next <= position:
                break
            position = page.next
        return [(where, checkpoint) for _, where, checkpoint in found]


class _Envelope(msgspec.Struct):
    created_at: str = ""
    actor: str = ""


_ENVELOPE = msgspec.json.Decoder(_Envelope)
