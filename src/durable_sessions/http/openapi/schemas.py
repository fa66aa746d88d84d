"""Short constructors for JSON schemas."""

from typing import Any

from durable_sessions import schema_notes

Schema = dict[str, Any]

ref = schema_notes.ref


def text(description: str = "", **more: Any) -> Schema:
    """Return the schema of a string."""
    return _described({"type": "string", **more}, description)


def whole(description: str = "", **more: Any) -> Schema:
    """Return the schema of an integer, by default at least 0."""
    return _described({"type": "integer", "minimum": 0, **more}, description)


def flag(description: str = "", **more: Any) -> Schema:
    """Return the schema of a boolean."""
    return _described({"type": "boolean", **more}, description)


def time(description: str = "") -> Schema:
    """Return the schema of a time: RFC 3339."""
    return text(description, format="date-time", examples=[schema_notes.TIME_EXAMPLE])


def time_or_day() -> Schema:
    """Return the schema of a time in a query: RFC 3339, or only a day."""
    return {"anyOf": [text(format="date-time"), text(format="date")]}


def choice(*values: str, description: str = "") -> Schema:
    """Return the schema of an enumeration of strings."""
    return text(description, enum=list(values))


def many(schema: Schema, description: str = "", **more: Any) -> Schema:
    """Return the schema of a list."""
    return _described({"type": "array", "items": schema, **more}, description)


def anything(description: str = "") -> Schema:
    """Return the schema of any JSON value."""
    return _described({}, description)


def free(description: str = "") -> Schema:
    """Return the schema of an object whose members are not fixed."""
    return _described({"type": "object", "additionalProperties": True}, description)


def frame(description: str) -> Schema:
    """Return the schema of one server-sent event; a stream is any number of them."""
    return record(
        {}, {"id": text(), "event": text(), "data": text()}, f"Frames of `text/event-stream`. {description}"
    )


def nullable(schema: Schema) -> Schema:
    """Return a schema that also allows null."""
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}


def record(
    required: dict[str, Schema], optional: dict[str, Schema] | None = None, description: str = "", **more: Any
) -> Schema:
    """Return the schema of an object; members that are not named are allowed unless ``more`` forbids them."""
    schema: Schema = {"type": "object", "properties": {**required, **(optional or {})}, **more}
    if required:
        schema["required"] = list(required)
    return _described(schema, description)


def page(of: Schema, **more: Schema) -> Schema:
    """Return the schema of a page: its items, and where the next one begins."""
    return record(
        {
            "data": many(of),
            "next_page": nullable(text("What to send as `page` for the next page; null at the end.")),
            **more,
        }
    )


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description} if description else schema
