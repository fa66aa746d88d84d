"""``durable-sessions archive``: end sessions for good, and list them no longer."""

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.confirmation import confirm, described, sessions_to_end, with_yes
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.terminal import Output


@click.command()
@click.argument("session", type=SESSION, nargs=-1, required=True)
@with_connection
@with_yes
def archive(connection: ServerConnection, output: Output, session: tuple[str, ...], is_sure: bool) -> None:
    """Archive each SESSION: it is read-only for good, and only listed with --archived."""
    for info in sessions_to_end(connection, session, is_sure=is_sure):
        confirm(f"Archive {described(info)}? It stays read-only for good.", is_sure=is_sure)
        archived = connection.client.session(info.id).archive()
        if output.json:
            output.tell(archived.raw)
        else:
            output.note(f"{info.id}: archived")
