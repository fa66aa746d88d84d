"""``durable-sessions resume``: lift a pause."""

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.terminal import Output
from durable_sessions.cli.work_output import appended


@click.command()
@click.argument("session", type=SESSION)
@click.option("--reason", help="Why.")
@with_connection
def resume(connection: ServerConnection, output: Output, session: str, reason: str | None) -> None:
    """Lift the pause of SESSION: it takes work again."""
    target = connection.client.session(connection.find(session).id)
    with connection.writing(target.id):
        done = target.resume(reason)
    appended(output, target, done, "resumed")
