"""``/v1/agents``, ``/v1/environments``, ``/v1/memory_stores``: plain registries, as the SDKs expect them."""

from typing import Any, ClassVar

import msgspec

from durable_sessions.access.audit import Audit
from durable_sessions.access.caller import Caller
from durable_sessions.errors import (
    InvalidRequestError,
    InvalidSessionError,
    RegisteredObjectNotFoundError,
)
from durable_sessions.http.api.deletions import deletion
from durable_sessions.http.api.json_body import Expected, decode
from durable_sessions.http.api.neighbours import Neighbours
from durable_sessions.http.api.route_table import Handler
from durable_sessions.http.api.sessions.dialect import is_strict
from durable_sessions.http.api.sessions.json_pages import json_page
from durable_sessions.http.api.sessions.parameters import Parameters
from durable_sessions.http.api.sessions.registry_lookup import Asked, LookupAnswer, RegistryLookup
from durable_sessions.http.bodies.deletions import EnvironmentDeleted, MemoryStoreDeleted
from durable_sessions.http.carrier.message import Request, Response
from durable_sessions.http.openapi.agents import VERSION
from durable_sessions.http.openapi.common import CREATED_AT, INCLUDE_ARCHIVED, REGISTRY_LIMIT
from durable_sessions.json_problems import problem
from durable_sessions.managed_agents import agents
from durable_sessions.managed_agents.object_kind import Document
from durable_sessions.managed_agents.registry import Head, Registered, Registry, StoredObject
from durable_sessions.sessions.memory.records import scope_key
from durable_sessions.sessions.memory.stores import scope_name
from durable_sessions.sessions.record import NULL
from durable_sessions.storage.scans import Scans
from durable_sessions.times import parse_rfc3339

REGISTERED = b"/internal/registered"
"""Where a partition answers what it has registered."""


class AgentSpec(msgspec.Struct):
    """The agent of a session, given as an object instead of an id."""

    id: str
    type: str = "agent"
    version: int | None = None
    model: Any = msgspec.UNSET
    system: Any = msgspec.UNSET
    tools: Any = msgspec.UNSET
    mcp_servers: Any = msgspec.UNSET
    skills: Any = msgspec.UNSET


class Registries:
    """Answers requests for agents, environments and memory stores."""

    def __init__(
        self,
        agents_registry: Registry,
        environments_registry: Registry,
        stores_registry: Registry,
        scans: Scans,
        audit: Audit,
        neighbours: Neighbours,
    ) -> None:
        self._audit = audit
        self._scans = scans
        self._agents = agents_registry
        self._environments = environments_registry
        self._stores = stores_registry
        self._found = {
            registry.kind.name: RegistryLookup(registry, neighbours, REGISTERED)
            for registry in (agents_registry, environments_registry)
        }
        self._find_agent = self._found[agents_registry.kind.name].find
        self._find_environment = self._found[environments_registry.kind.name].find

    async def part(self, request: Request, caller: Caller) -> LookupAnswer:
        """Answer the question of another partition about an object of this one."""
        asked = msgspec.msgpack.decode(request.body, type=Asked)
        return await self._found[asked.kind].answer(caller.workspace, asked)

    async def require_current(self, caller: Caller, environment: str | None) -> None:
        """Refuse an environment that is archived; an unknown one is accepted."""
        if environment is not None:
            found = await self._find_environment(caller, environment)
            _require_current(found, self._environments, environment)

    async def resolve(self, caller: Caller, given: msgspec.Raw, *, strict: bool = False) -> msgspec.Raw:
        """Return the snapshot of the agent that a session is created with; an unknown id is kept as it is.

        With ``strict`` one that is archived is refused.
        """
        if given == NULL:
            return NULL
        try:
            spec = msgspec.json.decode(given, type=str | AgentSpec)
        except msgspec.DecodeError as error:
            raise InvalidSessionError(
                problem=f'agent is an id, or an object with an "id": {problem(error, str | AgentSpec)}.'
            ) from None
        if isinstance(spec, str):
            spec = AgentSpec(spec)
        if strict:
            _require_current(await self._find_agent(caller, spec.id), self._agents, spec.id)
        found = agents.shown(await self._agent(caller, spec.id, spec.version))
        called = {pair: await self._agent(caller, *pair) for pair in agents.called_by(found)}
        overrides = {
            name: value
            for name in ("model", "system", "tools", "mcp_servers", "skills")
            if (value := getattr(spec, name)) is not msgspec.UNSET
        }
        return agents.snapshot(agents.with_called(found, called), overrides)

    async def _agent(self, caller: Caller, name: str, version: int | None) -> Document:
        """Return an agent, the newest version unless one is given; of an unknown one only the id."""
        found = await self._find_agent(caller, name, version)
        return agents.unknown(name, version) if found is None else self._agents.decoded(found.document)

    async def _create(self, registry: Registry, request: Request, caller: Caller) -> Response:
        body = _body(request, registry, caller.workspace)
        return registered_json(
            registry.kind.shown(await registry.create(caller.workspace, registry.kind.new(body)))
        )

    async def _get(self, registry: Registry, request: Request, caller: Caller, name: str) -> Response:
        return registered_json(registry.kind.shown(registry.get(caller.workspace, name)))

    async def _update(self, registry: Registry, request: Request, caller: Caller, name: str) -> Response:
        body = _body(request, registry, caller.workspace)
        expected = getattr(body, "version", msgspec.UNSET)
        updated = registry.update(
            caller.workspace,
            name,
            lambda old: registry.kind.revise(old, body),
            expected=None if expected is msgspec.UNSET else expected,
        )
        return registered_json(registry.kind.shown(await updated))

    async def _archive(self, registry: Registry, request: Request, caller: Caller, name: str) -> Response:
        return registered_json(registry.kind.shown(await registry.archive(caller.workspace, name)))

    async def _get_agent(self, request: Request, caller: Caller, name: str) -> Response:
        """Answer with an agent, or with one of its versions, which stay readable."""
        registry = self._agents
        version = Parameters(request).whole_if_given(VERSION)
        if version is None:
            return await self._get(registry, request, caller, name)
        return registered_json(registry.kind.shown(await registry.version(caller.workspace, name, version)))

    async def _list_agent_versions(self, request: Request, caller: Caller, name: str) -> Response:
        after, limit = paging(request)
        return page_of(await self._agents.versions(caller.workspace, name, after, limit))

    async def _delete_environment(self, request: Request, caller: Caller, name: str) -> Response:
        act = self._audit.beside(deletion(caller, request, "environment", name))
        await self._environments.delete(caller.workspace, name, act)
        act.log()
        return registered_json(msgspec.json.encode(EnvironmentDeleted(name, "environment_deleted")))

    async def _delete_store(self, request: Request, caller: Caller, name: str) -> Response:
        act = self._audit.beside(deletion(caller, request, "memory_store", name))
        # What the store remembers goes in the same batch as the store: none is ever left without the other.
        held = scope_key(caller.workspace, scope_name(name))
        await self._stores.delete(caller.workspace, name, act, held)
        act.log()
        return registered_json(msgspec.json.encode(MemoryStoreDeleted(name, "memory_store_deleted")))

    async def _list(self, registry: Registry, request: Request, caller: Caller) -> Response:
        parameters = Parameters(request)
        after, limit = paging(request)
        archived = parameters.flag(INCLUDE_ARCHIVED)
        from_ms, through_ms = (parameters.time_ms(CREATED_AT[end]) for end in ("gte", "lte"))

        def wanted(document: Head) -> bool:
            at_ms = parse_rfc3339(document.created_at) or 0
            return (
                (archived or document.archived_at is None)
                and (from_ms is None or at_ms >= from_ms)
                and (through_ms is None or at_ms <= through_ms)
            )

        async with self._scans.admitted(caller.key_id):
            return page_of(await registry.list(caller.workspace, after, limit, wanted))

    handlers: ClassVar[dict[str, Handler]] = {
        "createAgent": lambda self, *given: self._create(self._agents, *given),
        "listAgents": lambda self, *given: self._list(self._agents, *given),
        "getAgent": _get_agent,
        "updateAgent": lambda self, *given: self._update(self._agents, *given),
        "archiveAgent": lambda self, *given: self._archive(self._agents, *given),
        "listAgentVersions": _list_agent_versions,
        "createEnvironment": lambda self, *given: self._create(self._environments, *given),
        "listEnvironments": lambda self, *given: self._list(self._environments, *given),
        "getEnvironment": lambda self, *given: self._get(self._environments, *given),
        "updateEnvironment": lambda self, *given: self._update(self._environments, *given),
        "archiveEnvironment": lambda self, *given: self._archive(self._environments, *given),
        "deleteEnvironment": _delete_environment,
        "createMemoryStore": lambda self, *given: self._create(self._stores, *given),
        "listMemoryStores": lambda self, *given: self._list(self._stores, *given),
        "getMemoryStore": lambda self, *given: self._get(self._stores, *given),
        "updateMemoryStore": lambda self, *given: self._update(self._stores, *given),
        "archiveMemoryStore": lambda self, *given: self._archive(self._stores, *given),
        "deleteMemoryStore": _delete_store,
    }


def _require_current(found: StoredObject | None, registry: Registry, name: str) -> None:
    if found is not None and found.archived:
        raise InvalidSessionError(
            problem=f"The {registry.kind.name} {name} is archived; choose one that is not."
        )


def _body(request: Request, registry: Registry, workspace: str) -> Any:
    """Return the decoded body of a request; references to other objects are given versions."""

    def version_of(name: str) -> int:
        try:
            return registry.head(workspace, name).version
        except RegisteredObjectNotFoundError:
            return 1

    registry.require_small(len(request.body))
    kind = registry.kind
    shape = kind.body if is_strict(request) else kind.native_body
    expected = Expected(kind.called, kind.wrong)
    return kind.resolved(decode(request.body or b"{}", shape, expected, registry.limits), version_of)


def registered_json(document: bytes) -> Response:
    """Answer with an object of a registry."""
    return Response(200, [(b"Content-Type", b"application/json"), (b"Cache-Control", b"no-store")], document)


def paging(request: Request) -> tuple[int | None, int]:
    """Return where a page of a registry begins, and how many objects it has."""
    parameters = Parameters(request)
    limit = parameters.whole(REGISTRY_LIMIT)
    token = parameters.text("page")
    if token is None:
        return None, limit
    if not token.isascii() or not token.isdigit() or len(token) > 18:
        raise InvalidRequestError(problem="page is not one that this server gave; send next_page as it came.")
    return int(token), limit


def page_of(found: Registered) -> Response:
    """Answer with a page of a registry."""
    following = None if found.next is None else str(found.next)
    return registered_json(json_page(found.documents, next_page=following))
