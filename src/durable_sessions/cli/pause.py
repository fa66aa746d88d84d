"""``durable-sessions pause``: stop a session."""

import click

from durable_sessions.cli.argument_completion import SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.terminal import Output
from durable_sessions.cli.work_output import appended


@click.command()
@click.argument("session", type=SESSION)
@click.option("--reason", required=True, help="Why; who looks at the session reads it.")
@with_connection
def pause(connection: ServerConnection, output: Output, session: str, reason: str) -> None:
    """Stop SESSION: it takes no work until it is resumed.

    Results of what already runs are still taken, and so is what users and judges say.
    """
    target = connection.client.session(connection.find(session).id)
    with connection.writing(target.id):
        done = target.pause(reason)
    appended(output, target, done, f"paused. To go on: {connection.command('resume', target.id)}")
