"""``durable-sessions delete``: remove sessions."""

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.confirmation import confirm, described, sessions_to_end, with_yes
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.terminal import Output


@click.command()
@click.argument("session", type=SESSION, nargs=-1, required=True)
@with_connection
@with_yes
def delete(connection: ServerConnection, output: Output, session: tuple[str, ...], is_sure: bool) -> None:
    """Delete each SESSION with all its events. This cannot be undone.

    Forks keep the events that they share. Artifacts stay: other sessions may refer to them.
    """
    for info in sessions_to_end(connection, session, is_sure=is_sure):
        confirm(f"Delete {described(info)}? This cannot be undone.", is_sure=is_sure)
        connection.client.session(info.id).delete()
        if output.json:
            output.tell({"id": info.id, "type": "session_deleted"})
        else:
            output.note(f"{info.id}: deleted")
