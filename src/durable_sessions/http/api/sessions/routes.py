"""The sessions API: dispatches requests to its parts."""

from collections.abc import Awaitable
from functools import lru_cache
from typing import ClassVar, NamedTuple, TypeVar
from urllib.parse import unquote

import msgspec

from durable_sessions.access.audit import Audit
from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import (
    DurableSessionsError,
    ForbiddenError,
    InvalidForkError,
    InvalidRequestError,
    InvalidSessionError,
    MethodNotAllowedError,
    RouteNotFoundError,
    ThreadNotFoundError,
)
from durable_sessions.http.api import cors, headers
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.deletions import deletion
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.route_table import ROUTES, Handler, Resource, delegate
from durable_sessions.http.api.sessions import bodies, event_indexes, incarnations
from durable_sessions.http.api.sessions.dialect import is_strict
from durable_sessions.http.api.sessions.errors import refusal
from durable_sessions.http.api.sessions.events import JSON, Events
from durable_sessions.http.api.sessions.listing import listed
from durable_sessions.http.api.sessions.pages import sliced
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.registries import Registries
from durable_sessions.http.api.sessions.resources import Resources
from durable_sessions.http.api.sessions.searches import Searches
from durable_sessions.http.bodies.deletions import SessionDeleted
from durable_sessions.http.bodies.sessions import (
    NativeSessionBody,
    NativeUpdateBody,
    SessionBody,
    UpdateBody,
)
from durable_sessions.http.carrier.message import Answer, Header, Later, Request, Response, StreamingResponse
from durable_sessions.http.openapi.request_headers import STREAM_FORKED_FROM
from durable_sessions.http.paths import is_of_sessions
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.managed_agents.thread_objects import ThreadObjects
from durable_sessions.sessions import append, record, summary, view
from durable_sessions.sessions.create import Made, NewSession
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.streams.append import Append
from durable_sessions.streams.create import Fork
from durable_sessions.streams.stream import Key

_STREAM_FORKED_FROM = STREAM_FORKED_FROM.key
T = TypeVar("T")

_NO_STORE = (b"Cache-Control", b"no-store")
_WRITER = Role.WRITER  # a module global: looking up an enum member is measurable per append
_AT_ONCE = (Response, StreamingResponse, Later)
_REGISTRIES = ("/v1/agents/", "/v1/environments/")
_CACHED_PATH_BYTES_MAX = 1_024
"""The longest path whose target is cached: without it, a client could fill the cache with long ones."""
_SOURCES = ("/v1/stream/sessions/", "/v1/sessions/", "sessions/")


class SessionsFace:
    """Answers everything below ``/v1/sessions``, ``/v1/search``, ``/v1/agents`` and ``/v1/environments``."""

    def __init__(
        self,
        sessions: Sessions,
        events: Events,
        searches: Searches,
        registries: Registries,
        auth: Authenticator,
        ids: Ids,
        limits: Limits,
        audit: Audit,
        parser: BodyParser,
    ) -> None:
        self._parser = parser
        self._audit = audit
        self._auth = auth
        self._sessions = sessions
        self._events = events
        self._searches = searches
        self._registries = registries
        self._resources = Resources(sessions, ids, limits)
        self._ids = ids
        self._limits = limits

    @staticmethod
    def serves(path: bytes) -> bool:
        """Say whether a path is answered here."""
        return is_of_sessions(path)

    def handle(self, request: Request) -> Answer | Awaitable[Answer]:
        """Answer a request; hot paths are dispatched first."""
        if request.method == b"OPTIONS":
            return cors.preflight()
        caller: Caller | None = None
        try:
            caller = self._auth.caller(request)
            path = request.path
            find = _target if len(path) <= _CACHED_PATH_BYTES_MAX else _target.__wrapped__
            target = find(caller.workspace, path)
            route = None if target is None else target.resource.methods.get(request.method)
            if target is None or route is None:
                raise _wrong(request, caller, target)
            if route.role is not None:
                caller.require(route.role)
            answer = self._handlers[route.id](self, request, caller, *target.arguments)
        except InvalidSessionError as error:
            # Raised while the path is parsed, before the role is checked; but the role is what is told first.
            return self._refuse(_of_role(request, caller) or error, request, caller)
        except DurableSessionsError as error:
            return self._refuse(error, request, caller)
        return answer if isinstance(answer, _AT_ONCE) else self._guard(answer, request, caller)

    async def _guard(self, answer: Awaitable[Answer], request: Request, caller: Caller) -> Answer:
        try:
            return await answer
        except DurableSessionsError as error:
            return await self._refuse(error, request, caller)

    async def _refuse(self, error: DurableSessionsError, request: Request, caller: Caller | None) -> Answer:
        """Answer a refusal once the state that it rests on is durable."""
        try:
            await self._sessions.streams.settled()
            key = None if caller is None else _session_of(caller.workspace, request.path)
            life = None if key is None else self._sessions.life(key)
        except DurableSessionsError as failure:
            # What the refusal rests on may never become durable, so the client must not be told it.
            return refusal(failure, request)
        return refusal(error, request, life)

    async def _list(self, request: Request, caller: Caller) -> Answer:
        return Response(200, [JSON, _NO_STORE], await listed(self._sessions, request, caller))

    # One session ------------------------------------------------------------------------

    def _get(self, request: Request, caller: Caller, key: Key) -> Response:
        return self._show(key, incarnations.asked(request))

    def _show(self, key: Key, life: str | None, status: int = 200, *, ignored: bool = False) -> Response:
        """Answer with a session; with ``life`` only that incarnation, not another one with the same id."""
        durable = self._sessions.find(key, life)
        shown = view.session_object(durable, self._sessions.now_ms())
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
        made = await self._sessions.create(key, wanted, len(request.body))
        return self._made(key, made, 201 if made.new else 200)

    def _made(self, key: Key, made: Made, status: int) -> Response:
        answer = self._show(key, made.life, status, ignored=made.ignored)
        answer.headers += event_indexes.of(made.repeats, self._limits)
        return answer

    async def _wanted(self, request: Request, caller: Caller, body: SessionBody) -> NewSession:
        strict = is_strict(request)
        agent = await self._registries.resolve(caller.workspace, body.agent, strict=strict)
        if strict:
            self._registries.require_current(caller.workspace, body.environment_id)
        said = bodies.record(body, agent, self._sessions.now_ms(), self._ids, strict=strict)
        events = await self._parser.parsed(
            request.body, bodies.initial_events, body, self._limits, strict=strict
        )
        wanted = NewSession(said, caller.principal, events)
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
        terms = Append(b"", append.JSON, close=True, if_tail=by.if_tail, incarnation=by.incarnation)
        batch = append.Batch([], caller.principal, terms, creates=False)
        stored = await self._sessions.append(key, batch, 0)
        return self._show(key, stored.life)

    async def _delete(self, request: Request, caller: Caller, key: Key) -> Answer:
        name = key.path.partition("/")[2]
        act = self._audit.beside(deletion(caller, request, "session", name))
        life = await self._sessions.delete(key, incarnations.by(request, caller), act)
        act.log()
        return _json(SessionDeleted(name, "session_deleted"), 200, incarnations.header(life))

    # Threads ----------------------------------------------------------------------------

    async def _threads(self, request: Request, caller: Caller, key: Key) -> Answer:
        parameters = Parameters(request)
        statuses = parameters.choices("statuses", summary.STATUSES, tolerant=is_strict(request))
        durable = self._sessions.find(key, incarnations.asked(request))
        shown = ThreadObjects(durable)
        page = await sliced(
            shown.names(),
            parameters,
            shown.encoded,
            self._sessions.scans.turns,
            self._limits,
            lambda name: not statuses or shown.status(name) in statuses,
        )
        return Response(200, [JSON, _NO_STORE, incarnations.of(durable)], page)

    def _thread(self, key: Key, thread: str, life: str | None) -> Response:
        durable = self._sessions.find(key, life)
        found = ThreadObjects(durable).find(thread)
        if found is None:
            raise ThreadNotFoundError(thread=thread)
        return Response(200, [JSON, _NO_STORE, incarnations.of(durable)], found)

    async def _archive_thread(self, request: Request, caller: Caller, key: Key, thread: str) -> Answer:
        by = incarnations.by(request, caller)
        if await self._sessions.archive_thread(key, thread, by) is None:
            self._thread(key, thread, by.incarnation)
            raise InvalidRequestError(problem="The primary thread is archived with its session.")
        return self._thread(key, thread, by.incarnation)

    def _get_thread(self, request: Request, caller: Caller, key: Key, thread: str) -> Response:
        return self._thread(key, thread, incarnations.asked(request))

    def _thread_events(
        self, request: Request, caller: Caller, key: Key, thread: str
    ) -> Answer | Awaitable[Answer]:
        self._get_thread(request, caller, key, thread)
        return self._events.of_thread(request, caller, key, thread)

    def _thread_stream(
        self, request: Request, caller: Caller, key: Key, thread: str
    ) -> Answer | Awaitable[Answer]:
        self._get_thread(request, caller, key, thread)
        return self._events.stream(request, caller, key, thread)

    # Routes -----------------------------------------------------------------------------

    def _append_events(self, request: Request, caller: Caller, key: Key) -> Answer | Awaitable[Answer]:
        return self._events.append(request, caller, key)

    def _read_events(self, request: Request, caller: Caller, key: Key) -> Answer | Awaitable[Answer]:
        return self._events.read(request, caller, key)

    _handlers: ClassVar[dict[str, Handler]] = ROUTES.complete(
        {
            "createSession": _create,
            "listSessions": _list,
            "putSession": _put,
            "getSession": _get,
            "updateSession": _update,
            "deleteSession": _delete,
            "closeSession": _close,
            "archiveSession": _archive,
            "appendEvents": _append_events,
            "readEvents": _read_events,
            "headEvents": delegate("_events", Events.head),
            "streamEvents": delegate("_events", Events.stream),
            "streamSession": delegate("_events", Events.stream),
            "getEvent": delegate("_events", Events.one),
            "search": delegate("_searches", Searches.everywhere),
            "listThreads": _threads,
            "getThread": _get_thread,
            "archiveThread": _archive_thread,
            "readThreadEvents": _thread_events,
            "streamThread": _thread_stream,
            **{name: delegate("_resources", act) for name, act in Resources.handlers.items()},
            **{name: delegate("_registries", act) for name, act in Registries.handlers.items()},
        },
        "Sessions",
        "Events",
        "Search",
        "Threads",
        "Resources",
        "Agents",
        "Environments",
    )


def _fork(request: Request) -> Fork | None:
    """Return what a new session is forked from."""
    source = headers.fork_source(request)
    if source is None:
        return None
    path = unquote(source.decode("latin-1").partition("?")[0])
    name = next((path.removeprefix(root) for root in _SOURCES if path.startswith(root)), None)
    if not name or "/" in name:
        raise InvalidForkError(problem="Stream-Forked-From is the path of a session, /v1/sessions/{id}")
    fork = headers.parse_fork(request, record.path_of(name))
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


class _Target(NamedTuple):
    """What a path names, for the callers of one workspace."""

    resource: Resource
    arguments: tuple[Key | str, ...]


@lru_cache(maxsize=4_096)
def _target(workspace: str, path: bytes) -> _Target | None:
    """Return what a path names; cached, because the same session is requested again and again."""
    found = ROUTES.find(path)
    if found is None:
        return None
    resource, values = found
    if resource.names[:1] == ("session_id",):
        return _Target(resource, (session_key(workspace, values[0]), *values[1:]))
    return _Target(resource, values)


def _session_of(workspace: str, path: bytes) -> Key | None:
    """Return the session that a path is below, None if there is none."""
    try:
        target = _target.__wrapped__(workspace, path)
    except InvalidSessionError:
        return None
    first = target.arguments[0] if target is not None and target.arguments else None
    return first if isinstance(first, Key) else None


def _wrong(request: Request, caller: Caller, target: _Target | None) -> DurableSessionsError:
    """Return the refusal of a request without a matching operation."""
    if (denied := _of_role(request, caller)) is not None:
        return denied
    allow = None if target is None else target.resource.allow
    if allow is not None:
        return MethodNotAllowedError(allow=allow)
    path = request.path.decode("latin-1")
    if path.startswith(_REGISTRIES):
        path = unquote(path.split("/", 3)[3])  # errors of a registry name only the part of the path below it
    return RouteNotFoundError(path=path)


def _of_role(request: Request, caller: Caller | None) -> ForbiddenError | None:
    """Return the refusal of a caller who may not write, who must learn nothing else; None if allowed."""
    if caller is not None and request.method not in (b"GET", b"HEAD"):
        try:
            caller.require(_WRITER)
        except ForbiddenError as denied:
            return denied
    return None
