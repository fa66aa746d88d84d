"""``durable-sessions cancel``: end the work on sessions."""

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.confirmation import end_each, with_yes
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.terminal import Output


@click.command()
@click.argument("session", type=SESSION, nargs=-1, required=True)
@click.option("--reason", help="Why.")
@with_connection
@with_yes
def cancel(
    connection: ServerConnection, output: Output, session: tuple[str, ...], reason: str | None, is_sure: bool
) -> None:
    """Cancel each SESSION: it is closed as cancelled, and the next thing its worker writes is refused."""
    end_each(
        connection,
        output,
        session,
        lambda one: one.end("cancelled", reason),
        question="Cancel {}? It cannot be opened again.",
        done="cancelled",
        is_sure=is_sure,
    )
