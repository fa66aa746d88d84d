"""``durable-sessions close``: let sessions take no more events."""

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.confirmation import confirm, described, sessions_to_end, with_yes
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.terminal import Output


@click.command()
@click.argument("session", type=SESSION, nargs=-1, required=True)
@with_connection
@with_yes
def close(connection: ServerConnection, output: Output, session: tuple[str, ...], is_sure: bool) -> None:
    """Close each SESSION: it takes no more events, and can be read for ever. It cannot be opened again."""
    for info in sessions_to_end(connection, session, is_sure=is_sure):
        confirm(f"Close {described(info)}? It cannot be opened again.", is_sure=is_sure)
        closed = connection.client.session(info.id).close()
        if output.json:
            output.tell(closed.raw)
        else:
            output.note(f"{info.id}: closed")
