"""Finds an event by its id, or by its position in the session."""

import re
from collections.abc import Callable
from typing import TypeVar

from durable_sessions.cli.command_errors import MissingError, is_elsewhere
from durable_sessions.cli.connection import ServerConnection
from durable_sessions.cli.empty_result import require_within
from durable_sessions.client import SessionInfo
from durable_sessions.client.encoding import decode
from durable_sessions.client.errors import NotFoundError

T = TypeVar("T")

_POSITION = re.compile(r"[0-9]{1,15}", re.ASCII)
_LAST = "5"


def ask_of_event(connection: ServerConnection, info: SessionInfo, given: str, ask: Callable[[str], T]) -> T:
    """Return the answer to a question about an event; a number that is no event's id is a position."""
    try:
        return ask(given)
    except NotFoundError as error:
        if is_elsewhere(error) or error.code != "event_not_found":
            raise
        found = _at_position(connection, info, given)
        if found is None:
            last = connection.command("events", info.id, "--tail", _LAST)
            raise MissingError(
                f"{info.id} has no event {given}. Give the id of an event, or its position; see the last "
                f"ones with: {last}",
                error.code,
            ) from error
        return ask(found)


def _at_position(connection: ServerConnection, info: SessionInfo, given: str) -> str | None:
    if not _POSITION.fullmatch(given):
        return None
    require_within(connection, info, "EVENT", int(given))
    line = next(iter(connection.lines(info.id, ("from", given), limit=1)), None)
    return None if line is None else str(decode(line)["id"])
