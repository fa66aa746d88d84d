"""Sessions under the strict protocol: ``/v1/stream/sessions/{id}`` is the same log, with the same events."""

from collections.abc import Iterator
from contextlib import contextmanager

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import (
    ContentTypeMismatchError,
    EmptyBodyError,
    InvalidForkError,
    MissingContentTypeError,
    SessionNotFoundError,
    StreamNotFoundError,
)
from durable_sessions.http.api import headers
from durable_sessions.http.api.declared_principal import declared
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.sessions import imports, incarnations
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.openapi.request_headers import STREAM_ENVELOPE
from durable_sessions.limits import Limits
from durable_sessions.sessions import drafts, envelopes
from durable_sessions.sessions.batch import JSON as JSON_TYPE
from durable_sessions.sessions.batch import Batch
from durable_sessions.sessions.create import NewSession
from durable_sessions.sessions.graph.schemas import Imported
from durable_sessions.sessions.record import FOLDER, Record
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.storage.companions import Companion
from durable_sessions.streams import content
from durable_sessions.streams.append import AppendResult
from durable_sessions.streams.create import Created
from durable_sessions.streams.stream import Key

_SESSIONS = FOLDER + "/"


class SessionStreams:
    """Changes of streams that are sessions; reads are the same as for other streams."""

    def __init__(self, sessions: Sessions, limits: Limits, parser: BodyParser) -> None:
        self._parser = parser
        self._sessions = sessions
        self._limits = limits

    def holds(self, key: Key) -> bool:
        """Say whether a stream is a session."""
        return is_session(key)

    def life(self, key: Key, request: Request) -> str | None:
        """Return the incarnation that a read is of, None for other streams; refuse if it asks for another."""
        if not self.holds(key):
            return None
        wanted = incarnations.asked(request)
        if wanted is None:
            return self._sessions.life(key)
        with _told_of_stream(key):
            self._sessions.find(key, wanted)
        return wanted

    async def append(self, request: Request, caller: Caller, key: Key) -> tuple[AppendResult, str]:
        """Append events and return the incarnation; the protocol does not create a missing session."""
        caller = declared(request, caller)
        terms = headers.parse_append(request, self._limits)
        events: list[drafts.Draft] = []
        if request.body:
            if terms.content_type is None:
                raise MissingContentTypeError
            _require_json(terms.content_type)
            imported = imports.asked(request, caller, self._limits)
            events = await self._parser.parsed(request.body, self._drafts, request, imported=imported)
        elif not terms.close:
            raise EmptyBodyError
        batch = Batch(
            events,
            caller.principal,
            terms,
            creates=False,
            unique=True,
            may_judge=caller.role >= Role.EVALUATOR,
            epoch=headers.session_epoch(request),
        )
        with _told_of_stream(key):
            stored = await self._sessions.append_named(key, batch, len(request.body))
        result = AppendResult(stored.tail, stored.closed, stored.producer, stored.duplicate)
        return result, stored.life

    def _drafts(self, request: Request, *, imported: Imported | None = None) -> list[drafts.Draft]:
        """Return the events of a body, or its messages as events if they are to be wrapped."""
        body, kind = request.body, envelopes.asked(request.headers.get(STREAM_ENVELOPE.key))
        if kind is not None:
            body = envelopes.wrapped(body, kind, self._limits)
        return drafts.parse(body, self._limits, imported=imported)

    async def create(self, request: Request, caller: Caller, key: Key) -> tuple[Created, str]:
        """Create a session with the events in the body, or confirm that it exists; return its incarnation."""
        caller = declared(request, caller)
        session_key(key.workspace, key.path.partition("/")[2])
        wanted = headers.parse_create(request, self._limits)
        _require_json(wanted.content_type or JSON_TYPE)
        if wanted.fork is not None and not wanted.fork.source.startswith(_SESSIONS):
            raise InvalidForkError(problem="a session can only be forked from a session")
        events: list[drafts.Draft] = []
        if request.body.strip() not in (b"", b"[]"):
            events = await self._parser.parsed(request.body, self._drafts, request)
        session = NewSession(
            Record(),
            caller.principal,
            events,
            wanted.ttl_seconds,
            wanted.expires_at_ms,
            wanted.fork,
            confirms=True,
            closed=wanted.closed,
            unique=True,
            may_judge=caller.role >= Role.EVALUATOR,
        )
        # In a thread, for the digest of many events takes long. It is kept with the session, and tells a
        # repeated creation from another one.
        await self._parser.parsed(request.body, session.digest)
        made = await self._sessions.create(key, session, len(request.body))
        durable = self._sessions.find(key, made.life)
        return Created(made.new, JSON_TYPE, durable.tail, durable.closed), made.life

    async def delete(
        self, request: Request, caller: Caller, key: Key, companion: Companion | None = None
    ) -> None:
        """Delete a session."""
        by = incarnations.by(request, caller)
        # Anthropic's API refuses to delete a session that is running; this protocol knows no such state.
        by.strict = False
        with _told_of_stream(key):
            await self._sessions.delete(key, by, companion)


@contextmanager
def _told_of_stream(key: Key) -> Iterator[None]:
    """Refuse a session that is missing as the stream that the caller asked for."""
    try:
        yield
    except SessionNotFoundError:
        raise StreamNotFoundError(path=key.path) from None


def _require_json(content_type: str) -> None:
    if not content.is_json(content_type):
        raise ContentTypeMismatchError(sent=content_type, expected=JSON_TYPE)


def is_session(key: Key) -> bool:
    """Say whether a stream is a session."""
    return key.path.startswith(_SESSIONS)
