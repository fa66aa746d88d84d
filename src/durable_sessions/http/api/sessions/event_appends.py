"""Appending events over HTTP."""

import asyncio
from collections.abc import Awaitable
from functools import partial

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import DurableSessionsError, InvalidEventError
from durable_sessions.http.api import headers
from durable_sessions.http.api.lifetime_headers import CLOSED
from durable_sessions.http.api.offset_lines import OFFSET_LINE
from durable_sessions.http.api.parse_threads import BodyParser, is_large
from durable_sessions.http.api.sessions import event_indexes, imports, incarnations
from durable_sessions.http.api.sessions.dialect import is_strict
from durable_sessions.http.api.sessions.errors import refusal_to
from durable_sessions.http.api.sessions.new_records import NewRecords
from durable_sessions.http.carrier.message import Answer, Header, Later, Request, Response
from durable_sessions.http.openapi.answer_headers import (
    IDEMPOTENT_REPLAYED,
    PRODUCER_EPOCH,
    PRODUCER_SEQ,
    SESSION_INCARNATION,
    STREAM_NEXT_OFFSET,
)
from durable_sessions.http.openapi.request_headers import IF_NONE_MATCH, PREFER
from durable_sessions.limits import Limits
from durable_sessions.managed_agents import event_types
from durable_sessions.sessions import append, conditions, drafts, event_ids
from durable_sessions.sessions.batch import Batch, Stored
from durable_sessions.sessions.conditions import Conditions
from durable_sessions.sessions.store import Sessions
from durable_sessions.storage.door import Told
from durable_sessions.streams import offsets
from durable_sessions.streams.effects import RecordsAppended
from durable_sessions.streams.readonly import StreamRecord
from durable_sessions.streams.stream import Key

_EVALUATOR = Role.EVALUATOR  # a module global: looking up an enum member is measurable per append
_PREFER = PREFER.key
_IF_NONE_MATCH = IF_NONE_MATCH.key
_LINES = OFFSET_LINE + SESSION_INCARNATION + b": %b\r\n"
"""The header lines of most answers: where the session ends, and its incarnation."""
_JSON: Header = (b"Content-Type", b"application/json")


class EventAppends:
    """Answers appends to sessions."""

    def __init__(self, sessions: Sessions, limits: Limits, parser: BodyParser, records: NewRecords) -> None:
        self._sessions = sessions
        self._limits = limits
        self._parser = parser
        self._records = records

    def append(self, request: Request, caller: Caller, key: Key) -> Later[Stored] | Awaitable[Answer]:
        """Append events durably; 204, or 200 with the events as stored."""
        if is_large(request.body):
            return self._append_large(request, caller, key)
        batch, session = self._batch(request, caller, strict=is_strict(request))
        return self._append(request, caller, key, batch, session)

    def take(self, key: Key, actor: str, body: bytes, waiting: Told[bytes]) -> bool:
        """Take one plain event for a session, and tell ``waiting`` when it is durable."""
        draft = drafts.plain(body, self._limits)
        if draft is None:
            return False

        def decide(stream: StreamRecord, now_ms: int) -> tuple[RecordsAppended, bytes] | None:
            decided = append.plain(stream, draft, actor, now_ms)
            if decided is None:
                return None
            effect, life = decided
            return effect, _LINES % (effect.next, life.encode())

        return self._sessions.streams.append_told(key, len(body), decide, waiting)

    async def _append_large(self, request: Request, caller: Caller, key: Key) -> Answer:
        strict = is_strict(request)
        batch, session = await self._parser.parsed(request.body, self._batch, request, caller, strict=strict)
        return await self._append(request, caller, key, batch, session)

    async def _append_on_conditions(
        self, request: Request, caller: Caller, key: Key, batch: Batch, session: bytes | None
    ) -> Response:
        """Append events with conditions, or with what a session is to be that they create."""
        if session is not None and batch.creates:
            batch.session, batch.opening = await self._records.beside_events(caller, session)
        strict = is_strict(request)
        shown = strict or b"return=representation" in request.headers.get(_PREFER, b"")
        appended = self._sessions.append_on_conditions(key, batch, len(request.body))
        return await self._answer_with_events(appended, key, batch, strict=strict, shown=shown)

    def _append(
        self, request: Request, caller: Caller, key: Key, batch: Batch, session: bytes | None
    ) -> Later[Stored] | Awaitable[Answer]:
        if batch.conditions is not None or session is not None:
            return self._append_on_conditions(request, caller, key, batch, session)
        strict = is_strict(request)
        shown = strict or b"return=representation" in request.headers.get(_PREFER, b"")
        if shown or any(_is_looked_up(draft) for draft in batch.drafts):
            appended = self._sessions.append_named(key, batch, len(request.body))
            return self._answer_with_events(appended, key, batch, strict=strict, shown=shown)
        later = self._sessions.append(key, batch, len(request.body))
        return Later(later, partial(self._acknowledged, request.id, key))

    async def _answer_with_events(
        self, appended: Awaitable[Stored], key: Key, batch: Batch, *, strict: bool, shown: bool
    ) -> Response:
        """Answer an append, with the stored events if asked to and if a producer's repeat knows them."""
        try:
            stored = await appended
        except DurableSessionsError as error:
            raise error.among(len(batch.drafts)) from None
        acknowledgement = _acknowledgement(stored, self._limits)
        if not shown or (stored.duplicate and not stored.events and not strict):
            return acknowledgement
        events = []
        if stored.events:
            events = await self._sessions.events.stored(self._sessions.find(key, stored.life), stored.events)
        body = b"".join((b'{"data":[', b",".join(events), b"]}"))
        return Response(200, [_JSON, *acknowledgement.headers], body)

    def _acknowledged(self, request_id: bytes, key: Key, future: "asyncio.Future[Stored]") -> Response:
        """Answer an append when it is durable, or refused."""
        refused = future.exception()  # not raised: its traceback would make a cycle with the future
        if isinstance(refused, DurableSessionsError):
            return refusal_to(refused, request_id, self._sessions.life(key))
        return _acknowledgement(future.result(), self._limits)

    def _batch(self, request: Request, caller: Caller, *, strict: bool) -> tuple[Batch, bytes | None]:
        """Return what to append, and what is said of a session that this creates."""
        body = request.body
        terms = headers.parse_append(request, self._limits)
        events: list[drafts.Draft] = []
        wanted: Conditions | None = None
        session = None
        if body:
            imported = imports.asked(request, caller, self._limits)
            sent = drafts.parse_append(body, self._limits, wrapped_only=strict, imported=imported)
            events, session = sent.drafts, sent.session
            if sent.conditions is not None:
                wanted = conditions.parse(sent.conditions, self._limits)
        elif not terms.close:
            raise InvalidEventError(problem=drafts.NO_EVENT)
        if _IF_NONE_MATCH in request.headers and headers.wants_missing(request):
            wanted = wanted or Conditions()
            wanted.exists = False
        if strict:
            _require_theirs(events)
        if terms.incarnation is None:
            terms.incarnation = incarnations.asked(request)
        key = headers.idempotency_key(request, self._limits)
        check = 0 if key is None else event_ids.body_check(body)
        batch = Batch(
            events,
            caller.principal,
            terms,
            key,
            check,
            creates=not strict,
            may_judge=caller.role >= _EVALUATOR,
            epoch=headers.session_epoch(request),
            conditions=wanted,
        )
        return batch, session


def _require_theirs(events: list[drafts.Draft]) -> None:
    """Refuse events that Managed Agents would refuse."""
    try:
        event_types.check(events)
    except InvalidEventError as error:
        raise error.among(len(events)) from None


def _acknowledgement(stored: Stored, limits: Limits) -> Response:
    fields: list[Header] = [(STREAM_NEXT_OFFSET, offsets.encode(stored.tail).encode())]
    if stored.life:  # a test of conditions holds for a session that is not there, too
        fields.append(incarnations.header(stored.life))
    if stored.repeats.repeated:
        fields += event_indexes.of(stored.repeats, limits)
    if stored.closed:
        fields.append(CLOSED)
    if stored.duplicate:
        fields.append((IDEMPOTENT_REPLAYED, b"true"))
    if stored.producer is not None:
        fields.append((PRODUCER_EPOCH, b"%d" % stored.producer.epoch))
        fields.append((PRODUCER_SEQ, b"%d" % stored.producer.seq))
    return Response(204, fields)


def _is_looked_up(draft: drafts.Draft) -> bool:
    """Say whether something has to be looked up before an event is appended."""
    drops = draft.slots is not None and draft.slots.drops
    return draft.id is not None or draft.strict is not None or drops
