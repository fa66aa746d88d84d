"""Redacts what a session wrote into a memory store: in the session, in whichever partition that is."""

from typing import NamedTuple

import msgspec

from durable_sessions.access.caller import Caller
from durable_sessions.errors import LegalHoldError, PreconditionNotMetError, SessionNotFoundError
from durable_sessions.http.api.neighbours import Neighbours
from durable_sessions.http.api.sessions.foreign_events import asked_where_it_lives, noted
from durable_sessions.http.api.sessions.redactions import Redactions
from durable_sessions.http.carrier.message import Request
from durable_sessions.sessions.memory.records import NamedEvent
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.streams.placements import Placement
from durable_sessions.streams.stream import Key

REDACT_EVENT = b"/internal/redact-event"
"""Where a partition redacts an event of a session of it."""


class _Asked(NamedTuple):
    path: str
    incarnation: str
    event: str
    reason: str
    request_id: bytes


class _Done(NamedTuple):
    """The event is redacted, unless a legal hold on a path forbids it."""

    held: str | None = None


class _Said(NamedTuple):
    done: _Done | None
    placement: Placement | None = None


class ForeignRedactions:
    """Has the partition that a session lives in redact an event of it."""

    def __init__(self, redactions: Redactions, sessions: Sessions, neighbours: Neighbours) -> None:
        self._redactions = redactions
        self._sessions = sessions
        self._neighbours = neighbours

    async def redact(self, caller: Caller, event: NamedEvent, reason: str, request_id: bytes) -> bool:
        """Redact an event durably, with what memory scopes have of it; False if its session is gone.

        Raises LegalHoldError, and LinkDownError or OutcomeUnknownError if a partition does not answer.
        """
        key = session_key(caller.workspace, event.session or "")
        asked = _Asked(key.path, event.incarnation or "", event.id, reason, request_id)
        done = await self._redact_here(caller, asked)
        if done is None and self._neighbours.own.of > 1:

            async def ask(partition: int) -> _Said:
                said: _Said = await self._neighbours.change(partition, REDACT_EVENT, caller, asked, _Said)
                return said

            done = await asked_where_it_lives(self._neighbours.home(*key), ask)
        if done is not None and done.held is not None:
            raise LegalHoldError(path=done.held)
        return done is not None

    async def answer(self, request: Request, caller: Caller) -> object:
        """Answer the request of another partition."""
        asked = msgspec.msgpack.decode(request.body, type=_Asked)
        done = await self._redact_here(caller, asked)
        if done is not None:
            return _Said(done)
        return _Said(None, await noted(self._sessions, Key(caller.workspace, asked.path)))

    async def _redact_here(self, caller: Caller, asked: _Asked) -> _Done | None:
        """Redact an event if its session, in that life, is in this partition; None if not."""
        key = Key(caller.workspace, asked.path)
        if self._sessions.life(key) != asked.incarnation:
            return None
        try:
            await self._redactions.redact_event(
                caller, key, asked.incarnation, asked.event, asked.reason, asked.request_id
            )
        except (SessionNotFoundError, PreconditionNotMetError):
            return None  # deleted meanwhile
        except LegalHoldError as error:
            return _Done(str(error.fields["path"]))
        return _Done()
