"""JSON schemas as HTML: a short name for the type of a value, and a list of an object's members."""

from html import escape
from typing import Any

from durable_sessions.http.manual.prose import inline

Schema = dict[str, Any]


def kind(schema: Schema) -> str:
    """Return a short description of a value's type."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f'<a href="#schema-{name}">{name}</a>'
    if "const" in schema:
        return f"<code>{escape(_json(schema['const']))}</code>"
    if "enum" in schema:
        return " | ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    for several in ("anyOf", "oneOf"):
        if several in schema:
            return " or ".join(kind(one) for one in schema[several])
    if "allOf" in schema:
        return " and ".join(kind(one) for one in schema["allOf"])
    types = schema.get("type", "any")
    words = [_word(one, schema) for one in ([types] if isinstance(types, str) else types)]
    return " or ".join(words) + _bounds(schema)


def members(schema: Schema) -> str:
    """Return the members of an object as a nested list; named schemas are only linked."""
    parts = schema.get("allOf") or schema.get("anyOf")
    if parts:
        return "".join(members(one) for one in parts)
    if "items" in schema:
        return members(schema["items"])
    required = schema.get("required", ())
    rows = [
        f"<li><code>{escape(name)}</code> <span class='kind'>{kind(one)}"
        f"{'' if name in required else ', optional'}</span>{_about(one)}{members(one)}</li>"
        for name, one in schema.get("properties", {}).items()
    ]
    return f'<ul class="members">{"".join(rows)}</ul>' if rows else ""


def _about(schema: Schema) -> str:
    return f" {inline(schema['description'])}" if "description" in schema else ""


def _word(name: str, schema: Schema) -> str:
    if name == "array":
        return f"list of {kind(schema['items'])}"
    if name == "string":
        return {"date-time": "RFC 3339 time", "binary": "bytes"}.get(schema.get("format", ""), "text")
    return {"integer": "whole number", "boolean": "true or false", "any": "any JSON"}.get(name, name)


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if high is not None:
        return f", {low or 0:,} to {high:,}"
    if "maxLength" in schema:
        return f", up to {schema['maxLength']:,} characters"
    return ""


def _json(value: object) -> str:
    return "true" if value is True else str(value)
