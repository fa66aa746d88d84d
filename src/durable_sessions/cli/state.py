"""``durable-sessions state``: where the work on a session stands."""

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.empty_result import require_place
from durable_sessions.cli.option_types import Offset
from durable_sessions.cli.state_text import state_lines
from durable_sessions.cli.terminal import Output


@click.command()
@click.argument("session", type=SESSION)
@click.option("--at", type=Offset(), help="As it was at this place of the session.")
@with_connection
def state(connection: ServerConnection, output: Output, session: str, at: str | None) -> None:
    """Show where the work on SESSION stands: goal, features, stops, facts, lease, budget, checkpoint."""
    info = connection.find(session)
    require_place(connection, info, "--at", at)
    found = connection.client.session(info.id).state(at=at)
    if output.json:
        output.tell(found)
        return
    for line in state_lines(found, connection.command, is_past=at is not None):
        output.show(line)
