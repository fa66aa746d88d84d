"""The sessions API: dispatches requests to its parts."""

from collections.abc import Awaitable
from functools import lru_cache
from typing import ClassVar, NamedTuple
from urllib.parse import unquote

from durable_sessions.access.audit import Audit
from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import (
    DurableSessionsError,
    ForbiddenError,
    InvalidSessionError,
    MethodNotAllowedError,
)
from durable_sessions.http.api import cors
from durable_sessions.http.api.auth import Authenticator
from durable_sessions.http.api.declared_principal import declared
from durable_sessions.http.api.live_readers import LiveReaders
from durable_sessions.http.api.parse_threads import BodyParser
from durable_sessions.http.api.route_table import ROUTES, Handler, Resource, delegate, unknown_route
from durable_sessions.http.api.sessions.approvals import Approvals
from durable_sessions.http.api.sessions.branch_routes import BranchRoutes
from durable_sessions.http.api.sessions.dossier_routes import DossierRoutes
from durable_sessions.http.api.sessions.errors import refusal, refusal_to
from durable_sessions.http.api.sessions.event_appends import EventAppends
from durable_sessions.http.api.sessions.events import JSON, Events
from durable_sessions.http.api.sessions.export_routes import ExportRoutes
from durable_sessions.http.api.sessions.files import FileRoutes
from durable_sessions.http.api.sessions.graph_routes import GraphRoutes
from durable_sessions.http.api.sessions.listing import listed
from durable_sessions.http.api.sessions.live_list import LiveLists, require_alone
from durable_sessions.http.api.sessions.memories import Memories
from durable_sessions.http.api.sessions.memory import MemoryFace
from durable_sessions.http.api.sessions.memory_versions import MemoryVersions
from durable_sessions.http.api.sessions.new_records import NewRecords
from durable_sessions.http.api.sessions.outline_routes import OutlineRoutes
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.redactions import Redactions
from durable_sessions.http.api.sessions.registries import Registries
from durable_sessions.http.api.sessions.resources import Resources
from durable_sessions.http.api.sessions.searches import Searches
from durable_sessions.http.api.sessions.session_routes import SessionRoutes
from durable_sessions.http.api.sessions.slots import SlotReads
from durable_sessions.http.api.sessions.thread_routes import ThreadRoutes
from durable_sessions.http.api.sessions.usages import UsageReports
from durable_sessions.http.api.sessions.work import WorkFace
from durable_sessions.http.api.sessions.work_views import WorkViews
from durable_sessions.http.api.sse import FIELDS
from durable_sessions.http.carrier.message import (
    Answer,
    Later,
    Request,
    Response,
    StreamingResponse,
)
from durable_sessions.http.openapi.sessions import LIVE_LIST
from durable_sessions.http.paths import is_of_sessions
from durable_sessions.ids import Ids
from durable_sessions.limits import Limits
from durable_sessions.sessions.outline.outlines import Outlines
from durable_sessions.sessions.store import Sessions, session_key
from durable_sessions.storage.door import Told
from durable_sessions.streams.stream import Key

_NO_STORE = (b"Cache-Control", b"no-store")
_WRITER = Role.WRITER  # a module global: looking up an enum member is measurable per append
_AT_ONCE = (Response, StreamingResponse, Later)
_COLLECTION = b"/v1/sessions"
_READS = (b"GET", b"HEAD")
_REGISTRIES = ("/v1/agents/", "/v1/environments/")
_EVENTS = ROUTES.at("/v1/sessions/{session_id}/events")
_CACHED_PATH_BYTES_MAX = 1_024
"""The longest path whose target is cached: without it, a client could fill the cache with long ones."""


class SessionsFace:
    """Answers everything below ``/v1/sessions``, ``/v1/search``, ``/v1/agents``, ``/v1/environments``,
    ``/v1/memory``, ``/v1/memory_stores``, ``/v1/files``, ``/v1/approvals`` and ``/v1/usage``.
    """

    def __init__(
        self,
        sessions: Sessions,
        appends: EventAppends,
        events: Events,
        searches: Searches,
        registries: Registries,
        records: NewRecords,
        auth: Authenticator,
        ids: Ids,
        limits: Limits,
        audit: Audit,
        parser: BodyParser,
        redactions: Redactions,
        work: WorkFace,
        work_views: WorkViews,
        branches: BranchRoutes,
        dossiers: DossierRoutes,
        graphs: GraphRoutes,
        readers: LiveReaders,
        live_lists: LiveLists,
        outlines: Outlines,
        memory: MemoryFace,
        memories: Memories,
        memory_versions: MemoryVersions,
        files: FileRoutes,
        approvals: Approvals,
        usages: UsageReports,
        exports: ExportRoutes,
    ) -> None:
        self._exports = exports
        self._usages = usages
        self._approvals = approvals
        self._files = files
        self._memory = memory
        self._memories = memories
        self._memory_versions = memory_versions
        self._outlined = outlines
        self._outlines = OutlineRoutes(sessions, outlines)
        self._redactions = redactions
        self._work = work
        self._work_views = work_views
        self._branches = branches
        self._dossiers = dossiers
        self._graphs = graphs
        self._readers = readers
        self._live_lists = live_lists
        self._auth = auth
        self._sessions = sessions
        self._appends = appends
        self._events = events
        self._searches = searches
        self._registries = registries
        self._one = SessionRoutes(sessions, records, work, parser, audit, limits)
        self._threads = ThreadRoutes(sessions, events, limits)
        self._slots = SlotReads(sessions, limits)
        self._resources = Resources(sessions, ids, limits)

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
            if target.is_of_session:
                named = declared(request, caller)
                caller = caller if request.method in _READS else named
            answer = self._handlers[route.id](self, request, caller, *target.arguments)
        except InvalidSessionError as error:
            # Raised while the path is parsed, before the role is checked; but the role is what is told first.
            return self._refuse(_of_role(request, caller) or error, request, caller)
        except DurableSessionsError as error:
            return self._refuse(error, request, caller)
        return answer if isinstance(answer, _AT_ONCE) else self._guard(answer, request, caller)

    def take(self, workspace: str, actor: str, path: bytes, body: bytes, waiting: Told[bytes]) -> bool:
        """Take a plain append to a session, and tell ``waiting`` when it is durable."""
        try:
            target = _target(workspace, path)
        except InvalidSessionError:
            return False
        if target is None or target.resource is not _EVENTS:
            return False
        key = target.arguments[0]
        assert isinstance(key, Key)
        return self._appends.take(key, actor, body, waiting)

    def failure(
        self, caller: Caller, path: bytes, error: DurableSessionsError, request_id: bytes
    ) -> Response:
        """Return the answer to an append that was taken, and has failed."""
        key = _session_of(caller.workspace, path)
        return refusal_to(error, request_id, None if key is None else self._sessions.life(key))

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
        if (parameters := Parameters(request)).word(LIVE_LIST):
            return await self._live_list(parameters, caller, self._live_lists)
        page = await listed(self._sessions, self._outlined, request, caller)
        return Response(200, [JSON, _NO_STORE], page)

    async def follow_list(self, request: Request, lists: LiveLists) -> Answer:
        """Follow the list of sessions from another source than this partition alone."""
        try:
            caller = self._auth.caller(request)
            caller.require(Role.READER)
            return await self._live_list(Parameters(request), caller, lists)
        except DurableSessionsError as error:
            return refusal(error, request)

    async def _live_list(self, parameters: Parameters, caller: Caller, lists: LiveLists) -> Answer:
        require_alone(parameters)
        chunks = self._readers.following(caller, await lists.follow(caller))
        return StreamingResponse(200, [*FIELDS], self._auth.while_valid(caller, chunks))

    def _append_events(self, request: Request, caller: Caller, key: Key) -> Answer | Awaitable[Answer]:
        return self._appends.append(request, caller, key)

    def _read_events(self, request: Request, caller: Caller, key: Key) -> Answer | Awaitable[Answer]:
        return self._events.read(request, caller, key)

    _handlers: ClassVar[dict[str, Handler]] = ROUTES.complete(
        {
            "listSessions": _list,
            "redactEvents": delegate("_redactions", Redactions.redact),
            "appendEvents": _append_events,
            "readEvents": _read_events,
            "headEvents": delegate("_events", Events.head),
            "streamEvents": delegate("_events", Events.stream),
            "streamSession": delegate("_events", Events.stream),
            "getEvent": delegate("_events", Events.one),
            "readSlots": delegate("_slots", SlotReads.read),
            "search": delegate("_searches", Searches.everywhere),
            **{name: delegate("_one", act) for name, act in SessionRoutes.handlers.items()},
            **{name: delegate("_threads", act) for name, act in ThreadRoutes.handlers.items()},
            **{name: delegate("_work", act) for name, act in WorkFace.handlers.items()},
            **{name: delegate("_work_views", act) for name, act in WorkViews.handlers.items()},
            **{name: delegate("_branches", act) for name, act in BranchRoutes.handlers.items()},
            **{name: delegate("_dossiers", act) for name, act in DossierRoutes.handlers.items()},
            **{name: delegate("_graphs", act) for name, act in GraphRoutes.handlers.items()},
            **{name: delegate("_memory", act) for name, act in MemoryFace.handlers.items()},
            **{name: delegate("_memories", act) for name, act in Memories.handlers.items()},
            **{name: delegate("_memory_versions", act) for name, act in MemoryVersions.handlers.items()},
            **{name: delegate("_resources", act) for name, act in Resources.handlers.items()},
            **{name: delegate("_outlines", act) for name, act in OutlineRoutes.handlers.items()},
            **{name: delegate("_approvals", act) for name, act in Approvals.handlers.items()},
            **{name: delegate("_usages", act) for name, act in UsageReports.handlers.items()},
            **{name: delegate("_exports", act) for name, act in ExportRoutes.handlers.items()},
            **{name: delegate("_files", act) for name, act in FileRoutes.handlers.items()},
            **{name: delegate("_registries", act) for name, act in Registries.handlers.items()},
        },
        "Sessions",
        "Events",
        "Slots",
        "Work",
        "Dossiers",
        "Graph",
        "Memory",
        "Search",
        "Threads",
        "Resources",
        "Outlines",
        "Agents",
        "Environments",
        "Memory stores",
        "Files",
        "Approvals",
        "Exports",
        "Usage",
    )


class _Target(NamedTuple):
    """What a path names, for the callers of one workspace."""

    resource: Resource
    arguments: tuple[Key | str, ...]
    is_of_session: bool = False


@lru_cache(maxsize=4_096)
def _target(workspace: str, path: bytes) -> _Target | None:
    """Return what a path names; cached, because the same session is requested again and again."""
    found = ROUTES.find(path)
    if found is None:
        return None
    resource, values = found
    if resource.names[:1] == ("session_id",):
        return _Target(resource, (session_key(workspace, values[0]), *values[1:]), is_of_session=True)
    return _Target(resource, values, is_of_session=path == _COLLECTION)


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
    return unknown_route(request.path, path)


def _of_role(request: Request, caller: Caller | None) -> ForbiddenError | None:
    """Return the refusal of a caller who may not write, who must learn nothing else; None if allowed."""
    if caller is not None and request.method not in _READS:
        try:
            caller.require(_WRITER)
        except ForbiddenError as denied:
            return denied
    return None
