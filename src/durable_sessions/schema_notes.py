"""What is said of a member of a body beyond its type: a description, and bounds that no decoder checks."""

from typing import Annotated, Any

import msgspec

TIME_EXAMPLE = "2026-11-15T12:00:00.123Z"
OFFSET_EXAMPLE = "0000000000000000_0000000000000002"
OFFSET_PATTERN = r"^\d{16}_\d{16}$"
OFFSET: dict[str, Any] = {
    "type": "string",
    "description": "A position as the server gives it. Opaque: save it, send it back, compare it as text.",
    "pattern": OFFSET_PATTERN,
    "examples": [OFFSET_EXAMPLE],
}


def about(description: str = "", **schema: Any) -> msgspec.Meta:
    """Return a note on a member; ``schema`` is JSON schema as it stands in the document, and checks nothing.

    A name of ``limits.py`` in braces, such as ``{event_id_max}``, stands for that limit in both of them.
    """
    return msgspec.Meta(description=description or None, extra_json_schema=schema or None)


def ref(name: str) -> dict[str, Any]:
    """Refer to a named schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


Time = Annotated[str, about(format="date-time", examples=[TIME_EXAMPLE])]
"""A time: RFC 3339."""
Whole = Annotated[int, about(minimum=0)]
"""A whole number, 0 at least."""
Offset = Annotated[str, about(**OFFSET)]
"""A position in a stream or a session."""
