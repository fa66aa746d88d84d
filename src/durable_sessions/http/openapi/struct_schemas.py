"""JSON schemas of bodies, derived from the structs that are decoded and encoded.

Members, types, words to choose from and bounds come from the type hints. The description of a member comes
from ``msgspec.Meta``. The description of a struct is its docstring without the first paragraph, which is for
readers of the code. Names of limits in braces stay as they are; ``limit_names.py`` replaces them.
"""

import inspect
import re
from collections.abc import Collection, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from durable_sessions.http.openapi.schemas import Schema, nullable

_SIMPLE: dict[Any, Schema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    NoneType: {"type": "null"},
    Any: {},
    msgspec.Raw: {},
}
_BOUNDS = {
    "gt": "exclusiveMinimum",
    "ge": "minimum",
    "lt": "exclusiveMaximum",
    "le": "maximum",
    "multiple_of": "multipleOf",
    "pattern": "pattern",
}
_WHOLE_TEXT = re.compile(r"\\A(.*)\\Z")
"""How Python says that a pattern matches the whole text; JSON Schema says it with ^ and $."""
_LENGTHS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}


def schema_of(
    struct: type[msgspec.Struct],
    *,
    required: Mapping[str, Schema] | None = None,
    without: Collection[str] = (),
    open_ended: bool = False,
) -> Schema:
    """Return the schema of a body.

    ``required`` are members that are required by a check after decoding, because one struct serves both to
    create and to change. ``without`` are members that are decoded only to be refused. With ``open_ended``,
    other members are allowed and kept as they came.
    """
    fields = [one for one in msgspec.structs.fields(struct) if one.encode_name not in without]
    schema: Schema = {
        "type": "object",
        "properties": {one.encode_name: _member(struct, one) for one in fields},
    }
    later = required or {}
    for name, more in later.items():
        schema["properties"][name].update(more)
    needed = [one.encode_name for one in fields if one.required or one.encode_name in later]
    if needed:
        schema["required"] = needed
    if struct.__struct_config__.forbid_unknown_fields:
        schema["additionalProperties"] = False
    if open_ended:
        schema["additionalProperties"] = True
    _, _, description = inspect.cleandoc(struct.__doc__ or "").partition("\n\n")
    if description:
        schema["description"] = description.replace("\n", " ")
    return schema


def _member(struct: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> Schema:
    schema = _type(field.type)
    if struct.__struct_config__.omit_defaults and field.default is None:
        return _never_null(schema)
    return schema


def _type(hint: Any) -> Schema:
    origin = get_origin(hint)
    if origin is Annotated:
        schema = _type(hint.__origin__)
        for note in hint.__metadata__:
            schema = _noted(schema, note)
        return schema
    if origin in (Union, UnionType):
        return _union([one for one in get_args(hint) if one is not msgspec.UnsetType])
    if origin is Literal:
        words = list(get_args(hint))
        kind = _SIMPLE[type(words[0])]
        return {**kind, "const": words[0]} if len(words) == 1 else {**kind, "enum": words}
    if origin is list:
        return {"type": "array", "items": _type(get_args(hint)[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _SIMPLE.get(get_args(hint)[1]) or True}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return schema_of(hint)
    return dict(_SIMPLE[hint])


def _union(hints: list[Any]) -> Schema:
    kinds = [_type(one) for one in hints if one is not NoneType]
    # A whole number is a number, too; the structs name both, because the decoder tells them apart.
    kinds = [one for one in kinds if one.get("type") != "integer" or {**one, "type": "number"} not in kinds]
    schema = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return nullable(schema) if NoneType in hints and schema else schema


def _noted(schema: Schema, note: msgspec.Meta) -> Schema:
    """Return a schema with the additions of a note, which take precedence."""
    schema = dict(schema)
    for name, keyword in _BOUNDS.items():
        if (value := getattr(note, name)) is not None:
            schema[keyword] = _WHOLE_TEXT.sub("^\\1$", value) if name == "pattern" else value
    least, most = _LENGTHS.get(str(schema.get("type")), ("", ""))
    if note.min_length is not None:
        schema[least] = note.min_length
    if note.max_length is not None:
        schema[most] = note.max_length
    if note.description is not None:
        schema["description"] = note.description
    more = note.extra_json_schema or {}
    if "$ref" in more:
        schema = {}  # the named schema is complete
    if "properties" in more:
        # A type hint of dict allows anything; the note says more exactly what is in it.
        schema.pop("additionalProperties", None)
    return {**schema, **more}


def _never_null(schema: Schema) -> Schema:
    """Return the schema of a member that answers omit instead of showing null."""
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return {**schema, "type": next(kind for kind in kinds if kind != "null")}
    rest = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    if len(rest) == 1:
        outside = {name: value for name, value in schema.items() if name != "anyOf"}
        return {**rest[0], **outside}
    return schema
