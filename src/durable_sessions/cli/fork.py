"""``durable-sessions fork``: branch off a session."""

import re

import click

from durable_sessions.cli.argument_completion import NEW_SESSION, SESSION
from durable_sessions.cli.command_errors import MissingError, SessionConflictError, is_elsewhere
from durable_sessions.cli.connection import ServerConnection, with_connection
from durable_sessions.cli.empty_result import require_within
from durable_sessions.cli.terminal import Output
from durable_sessions.client import Session, offsets
from durable_sessions.client.errors import ConflictError, NotFoundError

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
    info = connection.find(session)
    source = connection.client.session(info.id)
    place = None if at is None else _position(source, at)
    if place is not None:
        require_within(connection, info, "--at", place)
    try:
        made = source.fork(new, at=place, title=title)
    except ConflictError as error:
        if error.code != "session_exists":
            raise
        raise SessionConflictError(_taken(connection, info.id, str(new), at), error.code) from error
    if output.json:
        output.tell(made.info().raw)
    else:
        click.echo(made.id)


def _position(source: Session, at: str) -> int:
    """Return the position of an offset, of a position, or of the event with this id."""
    if _POSITION.fullmatch(at):
        return int(at)
    if _OFFSET.fullmatch(at):
        return offsets.position(at)
    try:
        return offsets.position(source.event(at).offset)
    except NotFoundError as error:
        if is_elsewhere(error):
            raise
        raise MissingError(
            f"{source.id} has no event {at}. Give --at a position, an offset, or the id of an event.",
            error.code,
        ) from error


def _taken(connection: ServerConnection, source: str, new: str, at: str | None) -> str:
    place = () if at is None else ("--at", at)
    return (
        f"There is another session {new} already. Give another id, or none to get a new one: "
        f"{connection.command('fork', source, *place)}"
    )
