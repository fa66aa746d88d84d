"""One session over HTTP: creating, showing, changing, closing and deleting it."""

from typing import ClassVar, TypeVar

import msgspec

from durable_sessions.access.audit import Audit
from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import InvalidForkError, InvalidSessionError
from durable_sessions.http.api import headers
from durable_sessions.http.api.deletions import deletion
from durable_sessions.http.api.fork_sources import session_forked
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions import bodies, event_indexes, incarnations
from durable_sessions.http.api.sessions.dialect import is_strict
from durable_sessions.http.api.sessions.events import JSON
from durable_sessions.http.api.sessions.new_records import NewRecords
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.work import WorkFace
from durable_sessions.http.bodies.deletions import SessionDeleted
from durable_sessions.http.bodies.sessions import (
    NativeSessionBody,
    NativeUpdateBody,
    SessionBody,
    UpdateBody,
)
from durable_sessions.http.carrier.message import Answer, Header, Request, Response
from durable_sessions.http.openapi.request_headers import IF_NONE_MATCH, STREAM_FORKED_FROM
from durable_sessions.limits import Limits
from durable_sessions.sessions import record
from durable_sessions.sessions.batch import JSON as JSON_TYPE
from durable_sessions.sessions.batch import Batch
from durable_sessions.sessions.conditions import Conditions
from durable_sessions.sessions.create import Made, NewSession
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Fork
from durable_sessions.streams.stream import Key

_IF_NONE_MATCH = IF_NONE_MATCH.key
_STREAM_FORKED_FROM = STREAM_FORKED_FROM.key
_NO_STORE = (b"Cache-Control", b"no-store")
_NOTHING = (b"", b"{}")
T = TypeVar("T")


class SessionRoutes:
    """Answers requests that are about a session as a whole."""

    def __init__(
        self,
        sessions: Sessions,
        records: NewRecords,
        work: WorkFace,
        parser: BodyParser,
        audit: Audit,
        limits: Limits,
    ) -> None:
        self._sessions = sessions
        self._records = records
        self._work = work
        self._parser = parser
        self._audit = audit
        self._limits = limits

    def _get(self, request: Request, caller: Caller, key: Key) -> Response:
        return self._show(key, incarnations.asked(request))

    def _show(self, key: Key, life: str | None, status: int = 200, *, ignored: bool = False) -> Response:
        """Answer with a session; with ``life`` only that incarnation, not another one with the same id."""
        durable = self._sessions.find(key, life)
        shown = self._sessions.shown(durable)
        if ignored:
            shown.initial_events = "ignored"
        return _json(shown, status, incarnations.of(durable))

    async def _decoded(self, request: Request, theirs: type[T], native: type[T]) -> T:
        """Return a body; unknown members are refused natively, and ignored in Anthropic's dialect."""
        kind = theirs if is_strict(request) else native
        return await self._parser.parsed(
            request.body, bodies.decode_limited, request.body, kind, self._limits
        )

    async def _create(self, request: Request, caller: Caller) -> Answer:
        body = await self._decoded(request, SessionBody, NativeSessionBody)
        if is_strict(request) and (body.agent == record.NULL or body.environment_id is None):
            raise InvalidSessionError(problem="A session needs an agent and an environment_id.")
        key = session_key(caller.workspace, body.id or self._sessions.new_id(caller.workspace))
        wanted = await self._wanted(request, caller, body)
        made = await self._sessions.create(key, wanted, len(request.body))
        return self._made(key, made, 200 if is_strict(request) else 201)

    async def _put(self, request: Request, caller: Caller, key: Key) -> Answer:
        body = await self._decoded(request, SessionBody, NativeSessionBody)
        if body.id is not None and record.path_of(body.id) != key.path:
            raise InvalidSessionError(problem="The id in the body is not the one in the path.")
        wanted = await self._wanted(request, caller, body)
        terms = headers.parse_lifetime(request, self._limits)
        wanted.ttl_seconds, wanted.expires_at_ms = terms
        wanted.fork, wanted.confirms = _fork(request), True
        wanted.source_life = _source_life(request)
        wanted.only_new = _IF_NONE_MATCH in request.headers and headers.wants_missing(request)
        made = await self._sessions.create(key, wanted, len(request.body))
        return self._made(key, made, 201 if made.new else 200)

    def _made(self, key: Key, made: Made, status: int) -> Response:
        answer = self._show(key, made.life, status, ignored=made.ignored)
        answer.headers += event_indexes.of(made.repeats, self._limits)
        return answer

    async def _wanted(self, request: Request, caller: Caller, body: SessionBody) -> NewSession:
        strict = is_strict(request)
        said = await self._records.record(caller, body, strict=strict)
        events = await self._parser.parsed(
            request.body, bodies.initial_events, body, self._limits, strict=strict
        )
        wanted = NewSession(said, caller.principal, events, may_judge=caller.role >= Role.EVALUATOR)
        # Computed here, in a thread for large bodies: the decision, which cannot be interrupted, compares it.
        await self._parser.parsed(request.body, wanted.digest)
        return wanted

    async def _update(self, request: Request, caller: Caller, key: Key) -> Answer:
        strict = is_strict(request)
        body = await self._decoded(request, UpdateBody, NativeUpdateBody)
        revise = bodies.revision(body, strict=strict)
        life = await self._sessions.update(key, revise, incarnations.by(request, caller))
        return self._show(key, life)

    async def _archive(self, request: Request, caller: Caller, key: Key) -> Answer:
        life = await self._sessions.archive(key, incarnations.by(request, caller))
        return self._show(key, life)

    async def _close(self, request: Request, caller: Caller, key: Key) -> Answer:
        by = incarnations.by(request, caller)
        terms = Append(b"", JSON_TYPE, close=True, if_tail=by.if_tail, incarnation=by.incarnation)
        if request.body.strip() not in _NOTHING:
            stored = await self._work.close(request, caller, key, by)
        else:
            wanted = Conditions(exists=False) if by.if_missing else None
            batch = Batch([], caller.principal, terms, creates=False, conditions=wanted)
            stored = await self._sessions.append(key, batch, 0)
        return self._show(key, stored.life)

    async def _delete(self, request: Request, caller: Caller, key: Key) -> Answer:
        name = key.path.partition("/")[2]
        act = self._audit.beside(deletion(caller, request, "session", name))
        life = await self._sessions.delete(key, incarnations.by(request, caller), act)
        act.log()
        return _json(SessionDeleted(name, "session_deleted"), 200, incarnations.header(life))

    handlers: ClassVar[dict[str, Handler]] = {
        "createSession": _create,
        "putSession": _put,
        "getSession": _get,
        "updateSession": _update,
        "deleteSession": _delete,
        "closeSession": _close,
        "archiveSession": _archive,
    }


def _fork(request: Request) -> Fork | None:
    """Return what a new session is forked from."""
    source = headers.fork_source(request)
    if source is None:
        return None
    fork = headers.parse_fork(request, record.path_of(session_forked(source)))
    if fork.beyond:
        raise InvalidForkError(problem="Stream-Fork-Sub-Offset is for streams; send Stream-Fork-Offset alone")
    return fork


def _source_life(request: Request) -> str | None:
    """Return which incarnation of its source a fork asks for."""
    _, _, query = request.headers.get(_STREAM_FORKED_FROM, b"").partition(b"?")
    if not query:
        return None
    named = Request(b"GET", b"", query, {}, b"")
    for name in Parameters(named).names():
        if name not in ("incarnation", ""):
            raise InvalidForkError(
                problem=f"Stream-Forked-From takes no parameter {name[:40]!r}; send /v1/sessions/{{id}}, or "
                "/v1/sessions/{id}?incarnation=… for one life of it"
            )
    return incarnations.asked(named)


def _json(value: object, status: int = 200, *fields: Header) -> Response:
    return Response(status, [JSON, _NO_STORE, *fields], msgspec.json.encode(value))
