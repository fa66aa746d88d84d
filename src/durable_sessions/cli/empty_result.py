"""What to say when no event matches: why, and what was probably meant."""

import click

from durable_sessions.cli.advice import replaced, typed_words
from durable_sessions.cli.command_errors import WrongInputError
from durable_sessions.cli.connection import ServerConnection
from durable_sessions.cli.spelling import near
from durable_sessions.client import SessionInfo, offsets
from durable_sessions.client.pages import type_parameters
from durable_sessions.rendering.entries import KNOWN_TYPES
from durable_sessions.rendering.text import plural
from durable_sessions.times import parse_rfc3339

_FAMILIES = tuple(sorted({f"{name.partition('.')[0]}.*" for name in KNOWN_TYPES if "." in name}))
_LAST = "5"


def unknown_types(connection: ServerConnection, info: SessionInfo, types: tuple[str, ...]) -> str:
    """Return a remark on types that nobody knows: neither the product nor the session has them."""
    for kind in types:
        known = _FAMILIES if kind.endswith("*") else KNOWN_TYPES
        if kind in known or any(connection.lines(info.id, *type_parameters((kind,)), limit=1)):
            continue
        said = f"No event of {info.id} has the type {kind}, and it is none that is known."
        meant = near(kind, known)
        if not meant:
            return said
        line = replaced(typed_words(click.get_current_context()), kind, meant[0])
        return f"{said} Did you mean {meant[0]}? Try: {line}"
    return ""


def why_empty(connection: ServerConnection, info: SessionInfo, types: tuple[str, ...]) -> str:
    """Return why no event was printed."""
    if not info.event_count:
        return f"{info.id} has no events yet."
    return unknown_types(connection, info, types) or f"No event of {info.id} matches."


def require_within(connection: ServerConnection, info: SessionInfo, option: str, position: int) -> None:
    """Refuse a position beyond the end of a session."""
    end = offsets.position(info.next_offset)
    if position > end:
        last = connection.command("events", info.id, "--tail", _LAST)
        raise WrongInputError(
            f"{info.id} has {end:,} {plural(end, 'event')}, and {option} {position} is beyond its end. "
            f"See its last events with: {last}"
        )


def require_place(connection: ServerConnection, info: SessionInfo, option: str, at: str | None) -> None:
    """Refuse an offset beyond the end of a session, if one is given."""
    if at is not None:
        require_within(connection, info, option, offsets.position(at))


def require_order(after: str | None, before: str | None) -> None:
    """Refuse a range of time in which nothing can be."""
    begin, end = (None if one is None else parse_rfc3339(one) for one in (after, before))
    if begin is not None and end is not None and begin >= end:
        raise click.UsageError(
            f"Nothing is both after {after} and before {before}: give --after the earlier time."
        )
