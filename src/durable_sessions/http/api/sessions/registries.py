"""``/v1/agents`` and ``/v1/environments``: plain versioned registries, as the SDKs expect them."""

from typing import Any

import msgspec

from durable_sessions.access.audit import Audit
from durable_sessions.access.caller import Caller
from durable_sessions.errors import (
    InvalidRequestError,
    InvalidSessionError,
    MethodNotAllowedError,
    RegisteredObjectNotFoundError,
    RouteNotFoundError,
)
from durable_sessions.http.api.deletions import deletion
from durable_sessions.http.api.sessions.bodies import decode
from durable_sessions.http.api.sessions.json_pages import json_page
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.carrier.message import Request, Response
from durable_sessions.json_problems import problem
from durable_sessions.managed_agents import agents
from durable_sessions.managed_agents.kind import Document
from durable_sessions.managed_agents.registry import Head, Registered, Registry
from durable_sessions.sessions.record import NULL
from durable_sessions.storage.scans import Scans
from durable_sessions.times import parse_rfc3339

_PAGE_MAX = 100
_PAGE_DEFAULT = 20


class AgentSpec(msgspec.Struct):
    """How a session names its agent when it does not by an id alone."""

    id: str
    type: str = "agent"
    version: int | None = None
    model: Any = msgspec.UNSET
    system: Any = msgspec.UNSET
    tools: Any = msgspec.UNSET
    mcp_servers: Any = msgspec.UNSET
    skills: Any = msgspec.UNSET


class Registries:
    """Answers requests for agents and environments."""

    def __init__(
        self, agents_registry: Registry, environments_registry: Registry, scans: Scans, audit: Audit
    ) -> None:
        self._audit = audit
        self._scans = scans
        self._agents = agents_registry
        self._environments = environments_registry

    def require_current(self, workspace: str, environment: str | None) -> None:
        """Refuse an environment that is archived; an unknown one is nobody's business."""
        if environment is not None:
            _require_current(self._environments, workspace, environment)

    async def resolve(self, workspace: str, given: msgspec.Raw, *, strict: bool = False) -> msgspec.Raw:
        """Return the snapshot of the agent that a session is created with; an unknown id is kept as it is.

        With ``strict`` one that is archived is refused.
        """
        if given == NULL:
            return NULL
        try:
            spec = msgspec.json.decode(given, type=str | AgentSpec)
        except msgspec.DecodeError as error:
            raise InvalidSessionError(
                problem=f'agent is an id, or an object with an "id": {problem(error)}.'
            ) from None
        if isinstance(spec, str):
            spec = AgentSpec(spec)
        if strict:
            _require_current(self._agents, workspace, spec.id)
        found = agents.shown(await self._find(workspace, spec.id, spec.version))
        called = {pair: await self._find(workspace, *pair) for pair in agents.called_by(found)}
        overrides = {
            name: value
            for name in ("model", "system", "tools", "mcp_servers", "skills")
            if (value := getattr(spec, name)) is not msgspec.UNSET
        }
        return agents.snapshot(agents.with_called(found, called), overrides)

    async def _find(self, workspace: str, name: str, version: int | None) -> Document:
        """Return an agent, the newest version unless one is named; an unknown one is made up from its id."""
        try:
            self._agents.get(workspace, name)
        except RegisteredObjectNotFoundError:
            return agents.unknown(name, version)
        return await self._agents.document(workspace, name, version)

    async def handle_agents(self, request: Request, caller: Caller, rest: list[str]) -> Response:
        """Answer a request below ``/v1/agents``; their versions stay readable."""
        registry, workspace = self._agents, caller.workspace
        match (request.method, rest):
            case (b"GET", [name]):
                version = Parameters(request).number("version", None, 2**31, 1)
                if version is not None:
                    return _json(registry.kind.shown(await registry.version(workspace, name, version)))
            case (b"GET", [name, "versions"]):
                after, limit = _paging(request)
                return _page(await registry.versions(workspace, name, after, limit))
        return await self._handle(registry, request, caller, rest, "GET, POST")

    async def handle_environments(self, request: Request, caller: Caller, rest: list[str]) -> Response:
        """Answer a request below ``/v1/environments``; one that nobody needs can be deleted."""
        match (request.method, rest):
            case (b"DELETE", [name]):
                act = self._audit.beside(deletion(caller, request, "environment", name))
                await self._environments.delete(caller.workspace, name, act)
                act.log()
                return _json(msgspec.json.encode({"id": name, "type": "environment_deleted"}))
        return await self._handle(self._environments, request, caller, rest, "GET, POST, DELETE")

    async def _handle(
        self, registry: Registry, request: Request, caller: Caller, rest: list[str], on_one: str
    ) -> Response:
        """Answer what is asked of both registries; ``on_one`` are the methods that one object takes."""
        kind, workspace = registry.kind, caller.workspace
        match (request.method, rest):
            case (b"POST", []):
                body = _body(request, registry, workspace)
                return _json(kind.shown(await registry.create(workspace, kind.new(body))))
            case (b"GET", []):
                return _page(await self._list(registry, request, caller))
            case (b"GET", [name]):
                return _json(kind.shown(registry.get(workspace, name)))
            case (b"POST", [name]):
                body = _body(request, registry, workspace)
                expected = getattr(body, "version", msgspec.UNSET)
                updated = registry.update(
                    workspace,
                    name,
                    lambda old: kind.revise(old, body),
                    expected=None if expected is msgspec.UNSET else expected,
                )
                return _json(kind.shown(await updated))
            case (b"POST", [name, "archive"]):
                return _json(kind.shown(await registry.archive(workspace, name)))
        raise _wrong(rest, {0: "GET, POST", 1: on_one})

    async def _list(self, registry: Registry, request: Request, caller: Caller) -> Registered:
        parameters = Parameters(request)
        after, limit = _paging(request)
        archived = parameters.flag("include_archived")
        from_ms, through_ms = (parameters.time_ms(f"created_at[{end}]") for end in ("gte", "lte"))

        def wanted(document: Head) -> bool:
            at_ms = parse_rfc3339(document.created_at) or 0
            return (
                (archived or document.archived_at is None)
                and (from_ms is None or at_ms >= from_ms)
                and (through_ms is None or at_ms <= through_ms)
            )

        async with self._scans.admitted(caller.key_id):
            return await registry.list(caller.workspace, after, limit, wanted)


def _require_current(registry: Registry, workspace: str, name: str) -> None:
    try:
        found = registry.head(workspace, name)
    except RegisteredObjectNotFoundError:
        return
    if found.archived_at is not None:
        raise InvalidSessionError(
            problem=f"The {registry.kind.name} {name} is archived; choose one that is not."
        )


def _body(request: Request, registry: Registry, workspace: str) -> Any:
    """Return what a request says of an object; others that it refers to have versions."""

    def version_of(name: str) -> int:
        try:
            return registry.head(workspace, name).version
        except RegisteredObjectNotFoundError:
            return 1

    registry.require_small(len(request.body))
    return registry.kind.resolved(decode(request.body, registry.kind.body), version_of)


def _json(document: bytes) -> Response:
    return Response(200, [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")], document)


def _paging(request: Request) -> tuple[int | None, int]:
    parameters = Parameters(request)
    limit = parameters.number("limit", _PAGE_DEFAULT, _PAGE_MAX, 1)
    token = parameters.text("page")
    if token is None:
        return None, limit
    if not token.isascii() or not token.isdigit() or len(token) > 18:
        raise InvalidRequestError(problem="page is not one that this server gave; send next_page as it came.")
    return int(token), limit


def _page(found: Registered) -> Response:
    following = None if found.next is None else str(found.next)
    return _json(json_page(found.documents, next_page=following))


def _wrong(rest: list[str], allowed: dict[int, str]) -> MethodNotAllowedError | RouteNotFoundError:
    if len(rest) in allowed:
        return MethodNotAllowedError(allow=allowed[len(rest)])
    return RouteNotFoundError(path="/".join(rest))
