"""Members of events as they are typed: ``name=text``, or ``name:=json``."""

from typing import Any

import click
import msgspec

from durable_sessions.rendering.text import one_line


def member(name: str, value: str) -> tuple[str, Any]:
    """Return a member by what stands before and behind the ``=``."""
    if not name.endswith(":"):
        return name, value
    try:
        return name[:-1], msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise click.UsageError(
            f"{name}={one_line(value, 60)} is not JSON, as := wants it; {name[:-1]}=… takes it as a text."
        ) from error
