"""The reference of strict events, made from their schemas in the OpenAPI document."""

import json
from collections.abc import Iterator
from typing import Any

from durable_sessions.http.openapi.limit_names import filled
from durable_sessions.limits import DEFAULT_LIMITS
from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.graph.event_guide import GUIDE
from tools.api_page import NOTE, kind_of, table

_COMMON = ("type", "id", "refs", "metadata", "session_thread_id")
_INTRODUCTION = """\
Types that begin with `ds.` are checked: an event with a member that is missing, wrong or not listed here
is refused with 400 `invalid_event`, which names the member; an unknown type with 400
`unknown_event_type`, which names the nearest. Events of a request are stored together or not at all. All
other types are free.

Each section has the members of a type beside those that [all of them have](#members-of-all), what is
checked beyond their shape, and an example, which the tests check. A *judgement* needs a key with the role
`evaluator` and a principal that
[has not worked on the session](../work.md#what-is-to-be-done-and-who-says-that-it-is): else 403
`permission_error` or `not_independent`. The same schemas are in `/openapi.json`, each under the name of
its type, and in Python as [TypedDicts](../sdk.md#types-of-events)."""


def events_page(document: dict[str, Any]) -> str:
    """Return the page as Markdown."""
    return f"{NOTE}# Events\n\n" + "\n\n".join(_parts(document["components"]["schemas"])) + "\n"


def _parts(known: dict[str, Any]) -> Iterator[str]:
    yield _INTRODUCTION
    rows = [(f"[`{kind}`](#{_anchor(kind)})", _summary(kind), _who(kind)) for kind in schemas.TYPES]
    yield table(("type", "says", "by"), rows)
    yield "## Members of all"
    shape = known[next(iter(schemas.TYPES))]
    yield table(_HEADS, list(_rows(shape, _COMMON)))
    yield "### EventRef"
    yield known["EventRef"]["description"]
    yield table(_HEADS, list(_rows(known["EventRef"], tuple(known["EventRef"]["properties"]))))
    for kind in schemas.TYPES:
        yield f"## {kind}"
        yield f"{_summary(kind)} {filled(GUIDE[kind].rules, DEFAULT_LIMITS)}"
        names = tuple(name for name in known[kind]["properties"] if name not in _COMMON)
        yield table(_HEADS, list(_rows(known[kind], names)))
        yield f"```json\n{_shown(GUIDE[kind].example)}\n```"


_HEADS = ("member", "kind", "limits", "meaning")


def _summary(kind: str) -> str:
    return (schemas.TYPES[kind].__doc__ or "").partition("\n")[0]


def _who(kind: str) -> str:
    shape = schemas.TYPES[kind]
    if shape.is_servers:
        return "the server"
    return "a judge" if shape.is_judgement else "any writer"


def _anchor(kind: str) -> str:
    """Return the anchor that a heading gets: dots are left out."""
    return kind.replace(".", "")


def _rows(schema: dict[str, Any], names: tuple[str, ...], prefix: str = "") -> Iterator[tuple[str, ...]]:
    for name in names:
        one = schema["properties"][name]
        if name == "type" and not prefix:
            one = {"type": "string", "description": "One of those above."}
        optional = "" if name in schema.get("required", ()) else ", optional"
        yield f"`{prefix}{name}`", kind_of(one) + optional, _limits(one), one.get("description", "")
        inner, mark = (one["items"], "[]") if one.get("type") == "array" else (one, "")
        yield from _rows(inner, tuple(inner.get("properties", ())), f"{prefix}{name}{mark}.")


def _limits(schema: dict[str, Any]) -> str:
    """Return the bounds of a value in words."""
    said: list[str] = []
    for least, most, unit in (
        ("minLength", "maxLength", "characters"),
        ("minItems", "maxItems", "entries"),
        ("minProperties", "maxProperties", "entries"),
        ("minimum", "maximum", ""),
    ):
        if most in schema:
            said.append(f"{schema.get(least, 0):,} to {schema[most]:,} {unit}".strip())
        elif least in schema:
            said.append(f"at least {schema[least]:,} {unit}".strip())
    if "exclusiveMinimum" in schema:
        said.append(f"above {schema['exclusiveMinimum']:,}")
    if "pattern" in schema:
        said.append(f"`{schema['pattern']}`")
    if schema.get("type") == "array" and (each := _limits(schema["items"])):
        said.append(f"each {each}")
    return "; ".join([*said, *(_limits(one) for one in schema.get("anyOf", ()) if _limits(one))])


def _shown(event: dict[str, Any]) -> str:
    """Return an example in a line, or with a member on each line if that is too long."""
    short = json.dumps(event, ensure_ascii=False)
    if len(short) <= 110:
        return short
    members = (
        f"{json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in event.items()
    )
    return "{" + ",\n ".join(members) + "}"
