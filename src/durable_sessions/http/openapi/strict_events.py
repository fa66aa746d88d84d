"""The schemas of strict events: one for each type that begins with ``ds.``, under the name of the type.

So the type tells them apart: ``StrictEvent`` is one of those that clients send, ``ServerEvent`` one of those
that only the server writes.
"""

import inspect

from durable_sessions.http.openapi.schemas import Schema, many, ref, text
from durable_sessions.http.openapi.struct_schemas import schema_of
from durable_sessions.sessions.graph import schemas
from durable_sessions.sessions.graph.event_guide import GUIDE

REF = "EventRef"


def strict_schema(kind: str) -> Schema:
    """Return the schema of a type, with its rules as description and its example."""
    shape = schemas.TYPES[kind]
    schema = schema_of(shape)
    own = {name: one for name, one in schema["properties"].items() if name != "type"}
    own["refs"] = many(ref(REF), maxItems="{refs_per_event_max}")
    return {
        **schema,
        "properties": {"type": text(const=kind), **own},
        "required": ["type", *(name for name in schema["required"] if name != "type")],
        "description": f"{inspect.cleandoc(shape.__doc__ or '')} {GUIDE[kind].rules}",
        "examples": [GUIDE[kind].example],
    }


def _one_of(kinds: list[str], description: str) -> Schema:
    chosen: dict[str, str] = {kind: ref(kind)["$ref"] for kind in kinds}
    return {
        "oneOf": [ref(kind) for kind in kinds],
        "discriminator": {"propertyName": "type", "mapping": chosen},
        "description": description,
    }


def _ref_schema() -> Schema:
    schema = schema_of(schemas.Ref)
    return {**schema, "description": inspect.cleandoc(schemas.Ref.__doc__ or "").replace("``", "`")}


_SENT = [kind for kind, shape in schemas.TYPES.items() if not shape.is_servers]
_WRITTEN = [kind for kind, shape in schemas.TYPES.items() if shape.is_servers]

SCHEMAS: dict[str, Schema] = {
    "StrictEvent": _one_of(
        _SENT,
        "An event whose type begins with `ds.`: its members are checked, and others are refused. Imports "
        "(`Session-Import`) are not checked.",
    ),
    "ServerEvent": _one_of(_WRITTEN, "An event that only the server writes; from a client it is 400."),
    REF: _ref_schema(),
    **{kind: strict_schema(kind) for kind in schemas.TYPES},
}
