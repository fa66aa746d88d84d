"""``durable-sessions title``: name a session."""

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.terminal import Output


@click.command()
@click.argument("session", type=SESSION)
@click.argument("title")
@with_connection
def title(connection: ServerConnection, output: Output, session: str, title: str) -> None:
    """Give SESSION the title TITLE; "" takes its title away."""
    info = connection.find(session)
    with connection.writing(info.id):
        named = connection.client.session(info.id).update(title=title or None)
    if output.json:
        output.tell(named.raw)
    else:
        output.note(f"{named.id}: {named.title or 'no title'}")
