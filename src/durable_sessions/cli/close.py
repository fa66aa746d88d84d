"""``durable-sessions close``: let sessions take no more events."""

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
def close(connection: ServerConnection, output: Output, session: tuple[str, ...], is_sure: bool) -> None:
    """Close each SESSION: it takes no more events, and can be read for ever. It cannot be opened again."""
    question = "Close {}? It cannot be opened again."
    end_each(connection, output, session, Session.close, question=question, done="closed", is_sure=is_sure)
