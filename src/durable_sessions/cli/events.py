"""``durable-sessions events``: the events of a session as they are stored."""

from collections.abc import Iterable

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.empty_result import require_within, why_empty
from durable_sessions.cli.event_selection import EventSelection, with_selection
from durable_sessions.cli.terminal import Output
from durable_sessions.client import offsets


@click.command()
@click.argument("session", type=SESSION)
@with_selection
@with_connection
def events(connection: ServerConnection, output: Output, session: str, selection: EventSelection) -> None:
    """Print the events of SESSION as they are stored, one JSON object per line.

    On a terminal, characters that it would take for commands are escaped; everywhere else every byte is as
    it was stored.
    """
    found = connection.find(session)
    for option, position in selection.places:
        require_within(connection, found, option, position)
    parameters = list(selection.parameters)
    if selection.tail is not None:
        parameters.append(("from", str(max(0, offsets.position(found.next_offset) - selection.tail))))
    lines: Iterable[bytes] = connection.lines(found.id, *parameters, limit=selection.limit)
    if selection.is_reversed:
        lines = reversed(list(lines))
    is_empty = True
    for line in lines:
        is_empty = False
        output.line(line)
    if is_empty and selection.limit != 0:
        output.note(why_empty(connection, found, selection.types))
