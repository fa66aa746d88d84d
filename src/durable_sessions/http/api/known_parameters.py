"""Refusing query parameters that a route does not have, so that a typo is not taken for "no filter"."""

import re
from collections.abc import Iterable
from difflib import get_close_matches
from urllib.parse import unquote_to_bytes

from durable_sessions.errors import UnknownParameterError
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.openapi.document import nouns
from durable_sessions.http.openapi.parts import Operation
from durable_sessions.limits import Limits

_EVERYWHERE = frozenset({"beta"})
"""What Anthropic's SDKs add to every request."""
_SAME = {"type": "types", "types": "type"}
"""Two names of one parameter."""


class KnownParameters:
    """The parameters of every route, as the OpenAPI document has them."""

    def __init__(self, limits: Limits) -> None:
        by_path: dict[str, dict[str, _Route]] = {}
        for noun in nouns(limits):
            for operation in noun.operations:
                route = _Route(operation)
                by_path.setdefault(operation.path, {})[operation.method] = route
        # A path without parameters is tried before one with: /v1/sessions/x/stream before /v1/sessions/x/{y}.
        self._paths = [
            (_pattern(path), methods)
            for path, methods in sorted(by_path.items(), key=lambda item: (item[0].count("{"), item[0]))
        ]

    def check(self, request: Request) -> None:
        """Refuse a parameter that the route of this request does not have, and name the nearest one."""
        route = self._find(request)
        if route is None:
            return
        for pair in request.query.split(b"&"):
            name = _text(pair.partition(b"=")[0])
            if name and not route.has(name):
                raise UnknownParameterError(name=name[:80], advice=route.advice(name))

    def _find(self, request: Request) -> "_Route | None":
        path, method = request.path.decode("latin-1"), request.method.decode("latin-1").lower()
        for pattern, methods in self._paths:
            if pattern.fullmatch(path):
                return methods.get("get" if method == "head" else method)
        return None


class _Route:
    """The parameters of one route; those of a family, ``metadata[…]``, have any name in the brackets."""

    def __init__(self, operation: Operation) -> None:
        given = [one for one in operation.parameters if one.place == "query"]
        self._families = tuple(f"{one.name}[" for one in given if one.style == "deepObject")
        self._shown = [one.name for one in given if one.style != "deepObject"]
        self._names = frozenset(_spellings(self._shown)) | _EVERYWHERE

    def has(self, name: str) -> bool:
        """Say whether a parameter is known here."""
        return name in self._names or name.startswith(self._families)

    def advice(self, name: str) -> str:
        """Return what to send instead."""
        near = get_close_matches(name, self._shown, n=1, cutoff=0.5)
        if near:
            return f"Did you mean {near[0]}?"
        shown = [*self._shown, *(f"{family}…]" for family in self._families)]
        return f"Known here: {', '.join(shown)}." if shown else "This takes none."


def _spellings(names: Iterable[str]) -> Iterable[str]:
    """Yield each name with and without the ``[]`` that some clients put behind what may be repeated."""
    for name in names:
        bare = name.removesuffix("[]")
        for one in (bare, _SAME.get(bare, bare)):
            yield from (one, f"{one}[]")


def _pattern(path: str) -> re.Pattern[str]:
    parts = re.split(r"(\{\w+\})", path)
    return re.compile("".join("[^/]+" if part.startswith("{") else re.escape(part) for part in parts))


def _text(name: bytes) -> str:
    if b"%" in name or b"+" in name:
        name = unquote_to_bytes(name.replace(b"+", b" "))
    return name.decode(errors="replace")
