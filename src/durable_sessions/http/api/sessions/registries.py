"""``/v1/agents`` and ``/v1/environments``: plain versioned registries, as the SDKs expect them."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from durable_sessions.access.audit import Audit
from durable_sessions.access.caller import Caller, Role
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
from durable_sessions.managed_agents import agents, callable_agents, environments
from durable_sessions.managed_agents.agents import AgentBody
from durable_sessions.managed_agents.environments import EnvironmentBody
from durable_sessions.managed_agents.registry import Document, Head, Registered, Registry
from durable_sessions.sessions.record import NULL
from durable_sessions.storage.scans import Scans
from durable_sessions.times import parse_rfc3339

T = TypeVar("T")

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
            _require_current(self._environments, workspace, environment, "environment")

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
            _require_current(self._agents, workspace, spec.id, "agent")
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

    def _agent_body(self, request: Request, workspace: str) -> AgentBody:
        """Return what a request says of an agent; those that it may call have versions."""

        def version_of(name: str) -> int:
            try:
                return self._agents.head(workspace, name).version
            except RegisteredObjectNotFoundError:
                return 1

        body = _body(request, self._agents, AgentBody)
        if isinstance(body.multiagent, dict):
            body.multiagent = callable_agents.named(body.multiagent, version_of)
        return body

    async def handle_agents(self, request: Request, caller: Caller, rest: list[str]) -> Response:
        """Answer a request below ``/v1/agents``."""
        registry, workspace, show = self._agents, caller.workspace, agents.shown_stored
        match (request.method, rest):
            case (b"POST", []):
                caller.require(Role.WRITER)
                body = self._agent_body(request, workspace)
                return _json(show(await registry.create(workspace, agents.new(body))))
            case (b"GET", []):
                return _page(await self._list(registry, request, caller, show))
            case (b"GET", [name]):
                version = Parameters(request).number("version", None, 2**31, 1)
                if version is not None:
                    return _json(show(await registry.version(workspace, name, version)))
                return _json(show(registry.get(workspace, name)))
            case (b"POST", [name]):
                caller.require(Role.WRITER)
                body = self._agent_body(request, workspace)
                expected = None if body.version is msgspec.UNSET else body.version
                revised = registry.update(
                    workspace, name, lambda old: agents.revise(old, body), expected=expected
                )
                return _json(show(await revised))
            case (b"POST", [name, "archive"]):
                caller.require(Role.WRITER)
                return _json(show(await registry.archive(workspace, name)))
            case (b"GET", [name, "versions"]):
                after, limit = _paging(request)
                return _page(await registry.versions(workspace, name, after, limit, show))
        raise _wrong(rest, {0: "GET, POST", 1: "GET, POST"})

    async def handle_environments(self, request: Request, caller: Caller, rest: list[str]) -> Response:
        """Answer a request below ``/v1/environments``."""
        registry, workspace, show = self._environments, caller.workspace, environments.shown_stored
        if request.method != b"GET":
            caller.require(Role.WRITER)
        match (request.method, rest):
            case (b"POST", []):
                body = _body(request, registry, EnvironmentBody)
                return _json(show(await registry.create(workspace, environments.new(body))))
            case (b"GET", []):
                return _page(await self._list(registry, request, caller, show))
            case (b"GET", [name]):
                return _json(show(registry.get(workspace, name)))
            case (b"POST", [name]):
                body = _body(request, registry, EnvironmentBody)
                updated = await registry.update(workspace, name, lambda old: environments.revise(old, body))
                return _json(show(updated))
            case (b"POST", [name, "archive"]):
                return _json(show(await registry.archive(workspace, name)))
            case (b"DELETE", [name]):
                act = self._audit.beside(deletion(caller, request, "environment", name))
                await registry.delete(workspace, name, act)
                act.log()
                return _json(msgspec.json.encode({"id": name, "type": "environment_deleted"}))
        raise _wrong(rest, {0: "GET, POST", 1: "GET, POST, DELETE"})

    async def _list(
        self, registry: Registry, request: Request, caller: Caller, show: Callable[[bytes], bytes]
    ) -> Registered:
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
            return await registry.list(caller.workspace, after, limit, wanted, show)


def _require_current(registry: Registry, workspace: str, name: str, kind: str) -> None:
    try:
        found = registry.head(workspace, name)
    except RegisteredObjectNotFoundError:
        return
    if found.archived_at is not None:
        raise InvalidSessionError(problem=f"The {kind} {name} is archived; choose one that is not.")


def _body(request: Request, registry: Registry, kind: type[T]) -> T:
    registry.require_small(len(request.body))
    return decode(request.body, kind)


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
