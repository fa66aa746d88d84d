"""Finds a session by its id, or by a unique prefix of it."""

from collections.abc import Callable

from durable_sessions.cli.command_errors import MissingError, WrongInputError, is_elsewhere
from durable_sessions.cli.session_title import told_apart
from durable_sessions.client import Client, SessionInfo
from durable_sessions.client.errors import NotFoundError

CANDIDATES_MAX = 5
"""How many sessions are listed when a prefix is ambiguous."""


def find_session(client: Client, given: str, looked_for: Callable[[str], str]) -> SessionInfo:
    """Return the session with this id; failing that, the only one whose id begins with it.

    Archived sessions count, so that a prefix never silently means another session than it would
    with ``--archived``. ``looked_for`` returns the command line that looks for a text.
    """
    try:
        return client.sessions.get(given)
    except NotFoundError as error:
        if is_elsewhere(error):
            raise  # not the session is missing but the server
        found = _with_prefix(client, given)
        if not found:
            raise MissingError(
                f"There is no session {given}, and none whose id begins like that. Look for it in ids, "
                f"titles and metadata with: {looked_for(given)}"
            ) from error
        if len(found) > 1:
            raise WrongInputError(_ambiguous(given, found)) from error
        return found[0]


def _with_prefix(client: Client, prefix: str) -> list[SessionInfo]:
    """Return the sessions whose ids have a prefix, at most one more than a message lists."""
    found: list[SessionInfo] = []
    for info in client.sessions.list(q=prefix, include_archived=True):
        if info.id.startswith(prefix):
            found.append(info)
            if len(found) > CANDIDATES_MAX:
                break
    return found


def _ambiguous(prefix: str, found: list[SessionInfo]) -> str:
    shown = [f"  {info.id}  {told_apart(info)}".rstrip() for info in found[:CANDIDATES_MAX]]
    more = "\n  …" if len(found) > CANDIDATES_MAX else ""
    return f"Several sessions begin with {prefix}; give more of the id:\n" + "\n".join(shown) + more
