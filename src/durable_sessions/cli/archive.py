"""``durable-sessions archive``: end sessions for good, and list them no longer."""

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.confirmation import end_each, with_yes
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.terminal import Output
from durable_sessions.client import Session


@click.command()
@click.argument("session", type=SESSION, nargs=-1, required=True)
@with_connection
@with_yes
def archive(connection: ServerConnection, output: Output, session: tuple[str, ...], is_sure: bool) -> None:
    """Archive each SESSION: it is read-only for good, and only listed with --archived."""
    question = "Archive {}? It stays read-only for good."
    end_each(
        connection, output, session, Session.archive, question=question, done="archived", is_sure=is_sure
    )
