"""Refuses query parameters that a route does not have: a typo must not mean "no filter"."""

from collections.abc import Iterable
from difflib import get_close_matches
from urllib.parse import unquote_to_bytes

from durable_sessions.errors import UnknownParameterError
from durable_sessions.http.carrier.message import Request
from durable_sessions.http.openapi.parts import Operation

_EVERYWHERE = frozenset({"beta"})
"""Parameters that Anthropic's SDKs add to every request."""
_SAME = {"type": "types", "types": "type"}
"""Synonyms of parameters."""


class QueryParameters:
    """The parameters of one operation; a family such as ``metadata[…]`` takes any name in the brackets."""

    def __init__(self, operation: Operation) -> None:
        given = [one for one in operation.parameters if one.place == "query"]
        self._families = tuple(f"{one.name}[" for one in given if one.style == "deepObject")
        self._shown = [one.name for one in given if one.style != "deepObject"]
        self._names = frozenset(_spellings(self._shown)) | _EVERYWHERE
        # As they are usually sent, which needs no decoding.
        self._plain = frozenset(name.encode() for name in self._names)

    def check(self, request: Request) -> None:
        """Refuse a parameter that the operation does not have, and name the nearest one."""
        for pair in request.query.split(b"&"):
            sent = pair.partition(b"=")[0]
            if sent in self._plain:
                continue
            name = _text(sent)
            if name and not self._has(name):
                raise UnknownParameterError(name=name[:80], advice=self._advice(name))

    def _has(self, name: str) -> bool:
        return name in self._names or name.startswith(self._families)

    def _advice(self, name: str) -> str:
        """Return what to send instead."""
        # Of a name in brackets, such as created_at[since], all are told: none is nearer than the others.
        alike = [one for one in self._shown if "[" in name and one.startswith(f"{name.partition('[')[0]}[")]
        if alike:
            return f"Send one of {', '.join(alike)}."
        near = get_close_matches(name, self._shown, n=1, cutoff=0.5)
        if near:
            return f"Did you mean {near[0]}?"
        shown = [*self._shown, *(f"{family}…]" for family in self._families)]
        return f"Known here: {', '.join(shown)}." if shown else "This takes none."


def _spellings(names: Iterable[str]) -> Iterable[str]:
    """Yield each name with and without the ``[]`` that some clients append to repeatable parameters."""
    for name in names:
        bare = name.removesuffix("[]")
        for one in (bare, _SAME.get(bare, bare)):
            yield from (one, f"{one}[]")


def _text(name: bytes) -> str:
    if b"%" in name or b"+" in name:
        name = unquote_to_bytes(name.replace(b"+", b" "))
    return name.decode(errors="replace")
