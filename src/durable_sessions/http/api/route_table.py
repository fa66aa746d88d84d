"""The route table: finds the operation of a method and path; compiled from the described operations.

An operation is declared once, in ``http/openapi``: its method, path, parameters, body, answers and role. The
table is what dispatches to it and knows its query parameters; the OpenAPI document is what describes it.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from operator import attrgetter
from typing import Any, NamedTuple
from urllib.parse import unquote

from durable_sessions.access.caller import ROLES, Role
from durable_sessions.errors import MethodNotAllowedError, RouteNotFoundError
from durable_sessions.http.api.unknown_parameters import QueryParameters
from durable_sessions.http.carrier.message import Answer, Request
from durable_sessions.http.manual import contents
from durable_sessions.http.openapi.document import NOUNS
from durable_sessions.http.openapi.parts import Noun, Operation

Handler = Callable[..., Answer | Awaitable[Answer]]
"""An unbound method: it is given its object, the request, and the values of the path."""

_METHODS = (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE")
_SESSION = "/v1/sessions/{session_id}"
_RESOURCES = _SESSION + "/resources"

_ALIASES = {
    "/v1/sessions/": "/v1/sessions",
    "/v1/artifacts/{path}": "/v1/artifacts/{sha256}",
    "/v1/keys/{path}": "/v1/keys/{key_id}",
}
"""Aliases: with them a digest or id that contains slashes is refused as invalid, not as an unknown path."""

_UNDESCRIBED = {
    _SESSION + "/{path}": "Sessions",
    _RESOURCES + "/{path}": "Resources",
    "/v1/ingest/{path}": "Ingest",
}
"""Paths where nothing is served, and the noun that refuses them."""

_OPTIONS = frozenset({"Artifacts", "Ingest", "Subscriptions"})
"""Nouns whose ``Allow`` header lists OPTIONS."""

_REFUSALS: dict[str, str | None] = {
    "/v1/stream/{path}": "GET, HEAD, PUT, POST, DELETE, OPTIONS",
    _RESOURCES: "GET, POST, DELETE",
    _RESOURCES + "/{resource_id}": "GET, POST, DELETE",
    _RESOURCES + "/{path}": "GET, POST, DELETE",
    _SESSION + "/events/stream": None,
    _SESSION + "/events/{event_id}": None,
    _SESSION + "/threads/{thread_id}": None,
    _SESSION + "/threads/{thread_id}/archive": None,
    _SESSION + "/threads/{thread_id}/events": None,
    _SESSION + "/threads/{thread_id}/stream": None,
    "/v1/agents/{agent_id}/archive": None,
    "/v1/agents/{agent_id}/versions": None,
    "/v1/environments/{environment_id}/archive": None,
}
"""``Allow`` headers that differ from the methods of the path; None means 404."""


_CORRECTED_BYTES_MAX = 300
"""Longer paths are not compared with those that are served: it would cost time that grows with them."""


class Route(NamedTuple):
    """One operation: its id, the role it requires beyond reader, its query parameters.

    A ``keyless`` operation needs no key at all.
    """

    id: str
    role: Role | None
    parameters: QueryParameters
    keyless: bool


@dataclass(slots=True, eq=False)
class Resource:
    """The routes of one path by method, and the noun that they belong to.

    ``allow`` is the ``Allow`` header for other methods; None if they get 404.
    """

    template: str
    noun: str
    methods: dict[bytes, Route] = field(default_factory=dict)
    allow: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variable segments of the path."""
        return tuple(part[1:-1] for part in self.template.split("/") if part.startswith("{"))

    def is_as_deep_as(self, path: bytes) -> bool:
        """Say whether a path has as many segments as the template of this one."""
        return self.template.count("/") == path.count(b"/")

    def route(self, request: Request) -> Route:
        """Return the operation of a request for this path, or refuse it."""
        route = self.methods.get(request.method)
        if route is None and self.allow is not None:
            raise MethodNotAllowedError(allow=self.allow)
        if route is None:
            raise unknown_route(request.path)
        return route

    def bind(self, handlers: Mapping[str, Handler]) -> dict[bytes, tuple[Role | None, Handler]]:
        """Return by method the role that is needed and what answers, for a face that serves one resource."""
        return {method: (route.role, handlers[route.id]) for method, route in self.methods.items()}


class Match(NamedTuple):
    """The resource at a path, and the segments of the path that are variable, decoded."""

    resource: Resource
    values: tuple[str, ...]


@dataclass(slots=True, eq=False)
class _Node:
    """One segment in the tree of paths: fixed before variable before any number of segments."""

    fixed: dict[str, "_Node"] = field(default_factory=dict)
    variable: "_Node | None" = None
    rest: Resource | None = None
    resource: Resource | None = None

    def add(self, segments: list[str], resource: Resource) -> None:
        """Add a resource at a path."""
        if not segments:
            self.resource = resource
        elif segments == ["{path}"]:
            self.rest = resource
        elif segments[0].startswith("{"):
            self.variable = self.variable or _Node()
            self.variable.add(segments[1:], resource)
        else:
            self.fixed.setdefault(segments[0], _Node()).add(segments[1:], resource)

    def find(self, segments: list[str], at: int, values: tuple[str, ...]) -> Match | None:
        """Return the resource for the segments from ``at`` on, or None."""
        if at == len(segments):
            return None if self.resource is None else Match(self.resource, values)
        # A fixed segment may lead nowhere, and the same text be a variable one: /docs/api/first is a page in
        # a folder that is called api.
        segment, found = segments[at], None
        if (fixed := self.fixed.get(segment)) is not None:
            found = fixed.find(segments, at + 1, values)
        if found is None and self.variable is not None:
            found = self.variable.find(segments, at + 1, (*values, segment))
        if found is None and self.rest is not None:
            found = Match(self.rest, (*values, "/".join(segments[at:])))
        return found

    def corrected(self, segments: list[str], *, before: bool = False) -> list[str] | None:
        """Return the segments of a served path that differs from these in one misspelt segment, or None.

        ``before`` says that the misspelt one stands before these segments: only one is corrected, so that the
        search stays as short as the path.
        """
        if not segments:
            return [] if before and self.resource is not None and self.resource.methods else None
        first, below = segments[0], segments[1:]
        tried = [(first, node, before) for node in (self.fixed.get(first), self.variable) if node is not None]
        if not before and self.variable is None:
            near = get_close_matches(first, self.fixed.keys() - {first}, n=1, cutoff=0.7)
            tried += [(name, self.fixed[name], True) for name in near]
        for name, node, changed in tried:
            rest = node.corrected(below, before=changed)
            if rest is not None:
                return [name, *rest]
        return None


class RouteTable:
    """Finds the resource at a path.

    ``unhandled`` are the nouns of which nobody has stated the handlers yet.
    """

    def __init__(self, described: Iterable[Noun]) -> None:
        self._ids: dict[str, list[str]] = {}
        self.unhandled: set[str] = set()
        self._root = _Node()
        resources: dict[str, Resource] = {path: Resource(path, noun) for path, noun in _UNDESCRIBED.items()}
        for noun in described:
            self._ids[noun.name] = [operation.id for operation in noun.operations]
            self.unhandled.add(noun.name)
            for operation in noun.operations:
                _add(resources.setdefault(operation.path, Resource(operation.path, noun.name)), operation)
        for path, resource in resources.items():
            resource.allow = _REFUSALS.get(path, _allowed(resource))
            self._root.add(path.split("/"), resource)
        # An alias leads to the same object, so that the role and the handlers cannot differ.
        for path, same in _ALIASES.items():
            self._root.add(path.split("/"), resources[same])
        self._resources = resources

    def find(self, path: bytes, *, escaped: bool = False) -> Match | None:
        """Return the resource at a path, None if there is none; if ``escaped``, segments stay encoded."""
        segments = path.decode("latin-1").split("/")
        if b"%" in path and not escaped:
            # The first two segments are matched as raw bytes; those below may be percent-encoded.
            segments[3:] = map(unquote, segments[3:])
        return self._root.find(segments, 0, ())

    def nearest(self, path: bytes) -> str | None:
        """Return the path that was probably meant where nothing is served: one segment is spelt otherwise."""
        if len(path) > _CORRECTED_BYTES_MAX or b"%" in path:
            return None
        segments = self._root.corrected(path.decode("latin-1").split("/"))
        return None if segments is None else "/".join(segments)

    def at(self, template: str) -> Resource:
        """Return the resource at a path template."""
        return self._resources[template]

    def resources(self) -> Iterable[Resource]:
        """Return all resources."""
        return self._resources.values()

    def complete(self, handlers: Mapping[str, Handler], *names: str) -> dict[str, Handler]:
        """Return the handlers of some nouns by operation id; each operation must have exactly one."""
        wanted = {one for name in names for one in self._ids[name]}
        if wanted != handlers.keys():
            raise LookupError(f"handlers and operations differ: {sorted(wanted ^ handlers.keys())}")
        if not self.unhandled.issuperset(names):
            raise LookupError(f"these operations have handlers already: {sorted(wanted)}")
        self.unhandled -= set(names)
        return dict(handlers)

    def check_parameters(self, request: Request) -> None:
        """Refuse a query parameter that the operation of this request does not have."""
        found = self.find(request.path)
        # A path with empty or surplus segments names nothing; it is refused elsewhere.
        if found is not None and "" not in found.values and found.resource.is_as_deep_as(request.path):
            method = b"GET" if request.method == b"HEAD" else request.method
            route = found.resource.methods.get(method)
            if route is not None:
                route.parameters.check(request)


def delegate(attribute: str, handler: Handler) -> Handler:
    """Return a handler that calls ``handler`` on an attribute of its object.

    A bound method that is stored in its own object would be a reference cycle and keep the engine alive.
    """
    part = attrgetter(attribute)

    def handle(face: object, *given: Any) -> Answer | Awaitable[Answer]:
        return handler(part(face), *given)

    return handle


def _allowed(resource: Resource) -> str | None:
    methods = [method.decode() for method in _METHODS if method in resource.methods]
    if methods and resource.noun in _OPTIONS:
        methods.append("OPTIONS")
    return ", ".join(methods) or None


def _add(resource: Resource, operation: Operation) -> None:
    role = None if operation.role in (None, "reader") else ROLES[operation.role]
    route = Route(operation.id, role, QueryParameters(operation), operation.role is None)
    resource.methods[operation.method.upper().encode()] = route
    if operation.head:
        resource.methods[b"HEAD"] = route


ROUTES = RouteTable(NOUNS)
"""All routes."""


def unknown_route(path: bytes, named: str | None = None) -> RouteNotFoundError:
    """Return the refusal of a path at which nothing is served; ``named`` is what the error calls it."""
    near = ROUTES.nearest(path) or contents.nearest(path)
    listed = "What is, is listed at /docs/api and in /openapi.json."
    advice = listed if near is None else f"Did you mean {near}? {listed}"
    return RouteNotFoundError(path=path.decode("latin-1") if named is None else named, advice=advice)
