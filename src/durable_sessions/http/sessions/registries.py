"""``/v1/agents`` and ``/v1/environments``: plain versioned registries, as the SDKs expect them."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from durable_sessions.access.caller import Caller, Role
from durable_sessions.errors import (
    InvalidRequestError,
    InvalidSessionError,
    MethodNotAllowedError,
    RegisteredObjectNotFoundError,
    RouteNotFoundError,
)
from durable_sessions.http.message import Request, Response
from durable_sessions.http.sessions.bodies import decode
from durable_sessions.http.sessions.parameters import Parameters
from durable_sessions.sessions import agents, environments, rosters
from durable_sessions.sessions.agents import AgentBody
from durable_sessions.sessions.environments import EnvironmentBody
from durable_sessions.sessions.record import NULL
from durable_sessions.sessions.registry import Document, Registered, Registry
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

    def __init__(self, agents_registry: Registry, environments_registry: Registry) -> None:
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
                problem=f'agent is an id, or an object with an "id": {error}.'
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
            found = self._agents.get(workspace, name)
        except RegisteredObjectNotFoundError:
            return agents.unknown(name, version)
        if version is None or version == found["version"]:
            return found
        return await self._agents.version(workspace, name, version)

    def _agent_body(self, request: Request, workspace: str) -> AgentBody:
        """Return what a request says of an agent; those that it may call have versions."""

        def version_of(name: str) -> int:
            try:
                version: int = self._agents.get(workspace, name)["version"]
            except RegisteredObjectNotFoundError:
                return 1
            return version

        body = _body(request, AgentBody)
        if isinstance(body.multiagent, dict):
            body.multiagent = rosters.named(body.multiagent, version_of)
        return body

    async def handle_agents(self, request: Request, caller: Caller, rest: list[str]) -> Response:
        """Answer a request below ``/v1/agents``."""
        method = request.method
        match (method, rest):
            case (b"POST", []):
                caller.require(Role.WRITER)
                body = self._agent_body(request, caller.workspace)
                return _json(agents.shown(await self._agents.create(caller.workspace, agents.new(body))))
            case (b"GET", []):
                return _page(self._list(self._agents, request, caller), agents.shown)
            case (b"GET", [name]):
                version = Parameters(request).number("version", None, 2**31, 1)
                if version is not None:
                    return _json(agents.shown(await self._agents.version(caller.workspace, name, version)))
                return _json(agents.shown(self._agents.get(caller.workspace, name)))
            case (b"POST", [name]):
                caller.require(Role.WRITER)
                body = self._agent_body(request, caller.workspace)
                expected = None if body.version is msgspec.UNSET else body.version
                revised = self._agents.update(
                    caller.workspace,
                    name,
                    lambda old: agents.revise(old, body),
                    expected=expected,
                )
                return _json(agents.shown(await revised))
            case (b"POST", [name, "archive"]):
                caller.require(Role.WRITER)
                return _json(agents.shown(await self._agents.archive(caller.workspace, name)))
            case (b"GET", [name, "versions"]):
                after, limit = _paging(request)
                found = await self._agents.versions(caller.workspace, name, after, limit)
                return _page(found, agents.shown)
        raise _wrong(rest, {0: "GET, POST", 1: "GET, POST"})

    async def handle_environments(self, request: Request, caller: Caller, rest: list[str]) -> Response:
        """Answer a request below ``/v1/environments``."""
        registry, workspace = self._environments, caller.workspace
        if request.method != b"GET":
            caller.require(Role.WRITER)
        match (request.method, rest):
            case (b"POST", []):
                created = await registry.create(workspace, environments.new(_body(request, EnvironmentBody)))
                return _json(environments.shown(created))
            case (b"GET", []):
                return _page(self._list(registry, request, caller), environments.shown)
            case (b"GET", [name]):
                return _json(environments.shown(registry.get(workspace, name)))
            case (b"POST", [name]):
                body = _body(request, EnvironmentBody)
                updated = await registry.update(workspace, name, lambda old: environments.revise(old, body))
                return _json(environments.shown(updated))
            case (b"POST", [name, "archive"]):
                return _json(environments.shown(await registry.archive(workspace, name)))
            case (b"DELETE", [name]):
                await registry.delete(workspace, name)
                return _json({"id": name, "type": "environment_deleted"})
        raise _wrong(rest, {0: "GET, POST", 1: "GET, POST, DELETE"})

    @staticmethod
    def _list(registry: Registry, request: Request, caller: Caller) -> Registered:
        parameters = Parameters(request)
        after, limit = _paging(request)
        archived = parameters.flag("include_archived")
        from_ms, through_ms = (parameters.time_ms(f"created_at[{end}]") for end in ("gte", "lte"))

        def wanted(document: Document) -> bool:
            at_ms = parse_rfc3339(document["created_at"]) or 0
            return (
                (archived or document["archived_at"] is None)
                and (from_ms is None or at_ms >= from_ms)
                and (through_ms is None or at_ms <= through_ms)
            )

        return registry.list(caller.workspace, after, limit, wanted)


def _require_current(registry: Registry, workspace: str, name: str, kind: str) -> None:
    try:
        found = registry.get(workspace, name)
    except RegisteredObjectNotFoundError:
        return
    if found["archived_at"] is not None:
        raise InvalidSessionError(problem=f"The {kind} {name} is archived; choose one that is not.")


def _body(request: Request, kind: type[T]) -> T:
    return decode(request.body, kind)


def _json(document: object) -> Response:
    return Response(
        200,
        [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")],
        msgspec.json.encode(document),
    )


def _paging(request: Request) -> tuple[int | None, int]:
    parameters = Parameters(request)
    limit = parameters.number("limit", _PAGE_DEFAULT, _PAGE_MAX, 1)
    token = parameters.text("page")
    if token is None:
        return None, limit
    if not token.isascii() or not token.isdigit() or len(token) > 18:
        raise InvalidRequestError(problem="page is not one that this server gave; send next_page as it came.")
    return int(token), limit


def _page(found: Registered, show: Callable[[Document], Document] = lambda one: one) -> Response:
    following = None if found.next is None else str(found.next)
    return _json({"data": [show(document) for document in found.documents], "next_page": following})


def _wrong(rest: list[str], allowed: dict[int, str]) -> MethodNotAllowedError | RouteNotFoundError:
    if len(rest) in allowed:
        return MethodNotAllowedError(allow=allowed[len(rest)])
    return RouteNotFoundError(path="/".join(rest))
