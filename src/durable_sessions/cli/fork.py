"""``durable-sessions fork``: branch off a session."""

import re

import click

from durable_sessions.cli.argument_completion import NEW_SESSION, SESSION
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.terminal import Output

_OFFSET = re.compile(r"[0-9]{16}_[0-9]{16}", re.ASCII)
_POSITION = re.compile(r"[0-9]{1,15}", re.ASCII)


@click.command()
@click.argument("session", type=SESSION)
@click.argument("new", type=NEW_SESSION, required=False)
@with_connection
@click.option(
    "--at",
    metavar="OFFSET|POSITION|EVENT_ID",
    help="The first event that is not shared; if not given, all are.",
)
@click.option("--title", help="The title of the new session; that of SESSION if not given.")
def fork(
    connection: ServerConnection,
    output: Output,
    session: str,
    new: str | None,
    at: str | None,
    title: str | None,
) -> None:
    """Make a session NEW that shares the events of SESSION up to a point, and goes its own way from there.

    Nothing is copied, and SESSION is not changed. Prints the id of the new session.
    """
    source = connection.client.session(connection.find(session).id)
    place: str | int | None = at
    if at is not None and _POSITION.fullmatch(at):
        place = int(at)
    elif at is not None and not _OFFSET.fullmatch(at):
        place = source.event(at).offset
    made = source.fork(new, at=place, title=title)
    if output.json:
        output.tell(made.info().raw)
    else:
        click.echo(made.id)
