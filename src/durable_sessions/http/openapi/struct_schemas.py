"""JSON schemas of bodies, derived from the structs that are decoded and encoded.

Members, types, words to choose from and bounds come from the type hints. The description of a member comes
from ``msgspec.Meta``. The description of a struct is its docstring without the first paragraph, which is for
readers of the code.
"""

import inspect
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from durable_sessions.http.openapi.schemas import Schema, nullable
from durable_sessions.limits import Limits

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
_LENGTHS = {
    "string": ("minLength", "maxLength"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_NUMBER = re.compile(r"\{([a-z_]+)\}")
_IN_TEXT = re.compile(r"\{([a-z_]+)(:,)?\}")


class StructSchemas:
    """Derives schemas from structs, for a server with these limits."""

    def __init__(self, limits: Limits) -> None:
        self._limits = asdict(limits)

    def of(
        self,
        struct: type[msgspec.Struct],
        *,
        required: Mapping[str, Schema] | None = None,
        without: Collection[str] = (),
        open_ended: bool = False,
    ) -> Schema:
        """Return the schema of a body.

        ``required`` are members that are required by a check after decoding, because one struct serves both
        to create and to change. ``without`` are members that are decoded only to be refused.
        With ``open_ended``, other members are allowed and kept as they came.
        """
        fields = [one for one in msgspec.structs.fields(struct) if one.encode_name not in without]
        schema: Schema = {
            "type": "object",
            "properties": {one.encode_name: self._member(struct, one) for one in fields},
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
            schema["description"] = self._text(description.replace("\n", " "))
        return schema

    def _member(self, struct: type[msgspec.Struct], field: msgspec.structs.FieldInfo) -> Schema:
        schema = self._type(field.type)
        if struct.__struct_config__.omit_defaults and field.default is None:
            return _never_null(schema)
        return schema

    def _type(self, hint: Any) -> Schema:
        origin = get_origin(hint)
        if origin is Annotated:
            schema = self._type(hint.__origin__)
            for note in hint.__metadata__:
                schema = self._noted(schema, note)
            return schema
        if origin in (Union, UnionType):
            return self._union([one for one in get_args(hint) if one is not msgspec.UnsetType])
        if origin is Literal:
            words = list(get_args(hint))
            kind = _SIMPLE[type(words[0])]
            return {**kind, "const": words[0]} if len(words) == 1 else {**kind, "enum": words}
        if origin is list:
            return {"type": "array", "items": self._type(get_args(hint)[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": True}
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            return self.of(hint)
        return dict(_SIMPLE[hint])

    def _union(self, hints: list[Any]) -> Schema:
        kinds = [self._type(one) for one in hints if one is not NoneType]
        schema = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        return nullable(schema) if NoneType in hints and schema else schema

    def _noted(self, schema: Schema, note: msgspec.Meta) -> Schema:
        """Return a schema with the additions of a note, which take precedence."""
        schema = dict(schema)
        for name, keyword in _BOUNDS.items():
            if (value := getattr(note, name)) is not None:
                schema[keyword] = value
        least, most = _LENGTHS.get(str(schema.get("type")), ("", ""))
        if note.min_length is not None:
            schema[least] = note.min_length
        if note.max_length is not None:
            schema[most] = note.max_length
        if note.description is not None:
            schema["description"] = self._text(note.description)
        more = note.extra_json_schema or {}
        if "$ref" in more:
            schema = {}  # the named schema is complete
        if "properties" in more:
            schema.pop("additionalProperties", None)
        return {**schema, **{name: self._number(value) for name, value in more.items()}}

    def _number(self, value: Any) -> Any:
        """Return a value of a schema; a name in braces is replaced by that limit."""
        named = _NUMBER.fullmatch(value) if isinstance(value, str) else None
        return value if named is None else self._limits[named[1]]

    def _text(self, text: str) -> str:
        """Return a description with the names of limits in braces replaced; other braces stay."""

        def shown(found: re.Match[str]) -> str:
            if found[1] not in self._limits:
                return found[0]
            return format(self._limits[found[1]], "," if found[2] else "")

        return _IN_TEXT.sub(shown, text)


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
