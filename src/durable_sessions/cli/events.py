"""``durable-sessions events``: the events of a session as they are stored."""

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.event_selection import EventSelection, with_selection
from durable_sessions.cli.terminal import Output


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
    for line in connection.lines(found.id, *selection.parameters, limit=selection.limit):
        output.line(line)
